// Connects queue pairs: see queue_pair.hpp.
#include "transports/verbs/queue_pair.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "src/base/clock.hpp"
#include "src/base/random.hpp"
#include "transports/verbs/adapter.hpp"

namespace wreath {
namespace {

constexpr std::uint8_t kReceiverNotReadyRetries = kMostRetries;
constexpr std::uint8_t kReceiverNotReadyTimer = 12;  // 0.64 ms
constexpr std::uint8_t kHops = 255;
constexpr std::int64_t kNewsMs = 200;
static_assert(kReceiverNotReadyRetries < 7 && kMostRetries < 7);

}  // namespace

QueuePair::QueuePair(VerbsAdapter& adapter)
    : adapter_(adapter), pair_(nullptr, adapter.device().library().destroy_qp) {}

Status QueuePair::make(ibv_cq& queue, const ibv_qp_cap& room) {
  ibv_qp_init_attr attributes{};
  attributes.qp_context = &adapter_.news();
  attributes.send_cq = attributes.recv_cq = &queue;
  attributes.cap = room;
  attributes.qp_type = IBV_QPT_RC;
  pair_.reset(adapter_.device().library().create_qp(adapter_.device().domain(), &attributes));
  if (pair_ != nullptr) return {};
  return explain(ErrorCode::System, fmt::format("no queue pair of {} sends and {} receives: {}", room.max_send_wr,
                                                room.max_recv_wr, std::strerror(errno)));
}

std::string QueuePair::describe() const {
  const bool infiniband = adapter_.port().infiniband;
  return fmt::format("{} {} {}", adapter_.describe(), infiniband ? "lid" : "gid",
                     infiniband ? adapter_.port().lid : adapter_.gid().index);
}

Error QueuePair::explain(ErrorCode code, const std::string& words) const {
  return {code, fmt::format("{}{}: {}", describe(), peer_.empty() ? "" : " to " + peer_, words)};
}

Status QueuePair::modify(ibv_qp_state state, const char* what, ibv_qp_attr attributes, int mask) {
  attributes.qp_state = state;
  const int error = adapter_.device().library().modify_qp(pair_.get(), &attributes, mask | IBV_QP_STATE);
  if (error == 0) return {};
  return explain(ErrorCode::System, fmt::format("the queue pair could not {}: {}", what, std::strerror(error)));
}

bool QueuePair::was_disturbed() const {
  for (const Deadline deadline = Deadline::after_ms(kNewsMs);;) {
    if (adapter_.disturbed_since(disturbances_)) return true;
    if (deadline.passed()) return false;
    ::poll(nullptr, 0, 1);
  }
}

Status QueuePair::prepare(unsigned access) {
  peer_.clear();
  WREATH_TRY(adapter_.look_again());
  const PortFacts& port = adapter_.port();
  own_ = {{port.infiniband, port.active(), port.mtu, port.lid, adapter_.gid().type, adapter_.gid().gid},
          pair_->qp_num,
          static_cast<std::uint32_t>(random_u64() & 0xFFFFFFU)};
  ibv_qp_attr attributes{};
  attributes.pkey_index = adapter_.settings().pkey_index;
  attributes.port_num = static_cast<std::uint8_t>(port.number);
  attributes.qp_access_flags = access;
  return modify(IBV_QPS_INIT, "be prepared", attributes, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

Status QueuePair::connect(const VerbsAddress& theirs) {
  peer_ =
      fmt::format("{} queue pair {}", theirs.infiniband ? fmt::format("lid {}", theirs.lid) : gid_address(theirs.gid),
                  theirs.queue_pair);
  WREATH_TRY(adapter_.look_again());
  if (!adapter_.port().active()) {
    return explain(ErrorCode::Unavailable, fmt::format("the port is {}", adapter_.port().state));
  }
  if (const Status fits = check_pair(own_, theirs); !fits) return explain(fits.error().code, fits.error().message);
  disturbances_ = adapter_.device().disturbances(adapter_.news());
  WREATH_TRY(begin_to_receive(theirs));
  return begin_to_send();
}

Status QueuePair::begin_to_receive(const VerbsAddress& theirs) {
  const PortFacts& port = adapter_.port();
  ibv_qp_attr attributes{};
  attributes.path_mtu = static_cast<ibv_mtu>(std::min(port.mtu, theirs.mtu));
  attributes.dest_qp_num = theirs.queue_pair;
  attributes.rq_psn = theirs.packet;
  attributes.max_dest_rd_atomic = 1;
  attributes.min_rnr_timer = kReceiverNotReadyTimer;
  ibv_ah_attr& way = attributes.ah_attr;
  way.dlid = theirs.lid;
  way.sl = adapter_.settings().service_level;
  way.port_num = static_cast<std::uint8_t>(port.number);
  if (!port.infiniband || port.needs_route || crosses_subnets(own_, theirs)) {
    way.is_global = 1;
    std::ranges::copy(theirs.gid, way.grh.dgid.raw);
    way.grh.sgid_index = static_cast<std::uint8_t>(adapter_.gid().index);
    way.grh.hop_limit = kHops;
    way.grh.traffic_class = adapter_.settings().traffic_class;
  }
  constexpr int kMask =
      IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  return modify(IBV_QPS_RTR, "begin to receive", attributes, kMask);
}

Status QueuePair::begin_to_send() {
  ibv_qp_attr attributes{};
  attributes.timeout = adapter_.settings().timeout;
  attributes.retry_cnt = std::min(adapter_.settings().retry_count, kMostRetries);
  attributes.rnr_retry = kReceiverNotReadyRetries;
  attributes.sq_psn = own_.packet;
  attributes.max_rd_atomic = 1;
  constexpr int kMask = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
  return modify(IBV_QPS_RTS, "begin to send", attributes, kMask);
}

}  // namespace wreath
