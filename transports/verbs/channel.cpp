// Connects queue pairs, and puts through them: see channel.hpp.
#include "transports/verbs/channel.hpp"

#include <endian.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "src/base/log.hpp"
#include "src/base/random.hpp"
#include "transports/verbs/adapter.hpp"
#include "transports/verbs/words.hpp"

namespace wreath {
namespace {

// Receives are posted again so many at a time.
constexpr std::uint32_t kReceiveBatch = 16;
constexpr std::uint8_t kReceiverNotReadyRetries = kMostRetries;
constexpr std::uint8_t kReceiverNotReadyTimer = 12;  // 0.64 ms
constexpr std::uint8_t kHops = 255;
static_assert(kReceiverNotReadyRetries < 7 && kMostRetries < 7);

}  // namespace

std::uint32_t VerbsChannel::completions(const PutLimits& limits, std::uint32_t tells) {
  return limits.outstanding + tells + kReceiveBatch;
}

Result<std::unique_ptr<VerbsChannel>> VerbsChannel::make(VerbsAdapter& adapter, std::uint16_t index,
                                                         std::uint32_t tells) {
  std::unique_ptr<VerbsChannel> made(new VerbsChannel(adapter, index, tells));
  ibv_qp_init_attr attributes{};
  attributes.qp_context = &adapter.news();
  attributes.send_cq = attributes.recv_cq = adapter.queue();
  attributes.cap = {adapter.limits().outstanding, made->receives_, 1, 1, adapter.limits().inline_bytes};
  attributes.qp_type = IBV_QPT_RC;
  made->pair_.reset(adapter.device().library().create_qp(adapter.device().domain(), &attributes));
  if (made->pair_ == nullptr) {
    return made->explain(ErrorCode::System,
                         fmt::format("no queue pair of {} sends and {} receives: {}", adapter.limits().outstanding,
                                     made->receives_, std::strerror(errno)));
  }
  WREATH_TRY(made->prepare());
  return made;
}

VerbsChannel::VerbsChannel(VerbsAdapter& adapter, std::uint16_t index, std::uint32_t tells)
    : adapter_(adapter),
      index_(index),
      receives_(tells + kReceiveBatch),
      pair_(nullptr, adapter.device().library().destroy_qp),
      reports_(adapter.limits().outstanding),
      requests_(adapter.limits().outstanding),
      pieces_(adapter.limits().outstanding),
      receive_requests_(receives_) {}

VerbsChannel::~VerbsChannel() {
  pair_.reset();
  adapter_.remove(*this);
}

std::string VerbsChannel::describe() const {
  const bool infiniband = adapter_.port().infiniband;
  return fmt::format("{} {} {}", adapter_.describe(), infiniband ? "lid" : "gid",
                     infiniband ? adapter_.port().lid : adapter_.gid().index);
}

Error VerbsChannel::explain(ErrorCode code, const std::string& words) const {
  return {code, fmt::format("{}{}: {}", describe(), peer_.empty() ? "" : " to " + peer_, words)};
}

Status VerbsChannel::modify(ibv_qp_state state, const char* what, ibv_qp_attr attributes, int mask) {
  attributes.qp_state = state;
  const int error = adapter_.device().library().modify_qp(pair_.get(), &attributes, mask | IBV_QP_STATE);
  if (error == 0) return {};
  return explain(ErrorCode::System, fmt::format("the queue pair could not {}: {}", what, std::strerror(error)));
}

// Takes a queue pair without state to where it waits for its peer. Its address is new.
Status VerbsChannel::prepare() {
  generation_ = adapter_.next_generation();
  posted_ = ended_ = signaled_ = waiting_ = 0;
  peer_.clear();
  WREATH_TRY(adapter_.look_again());
  const PortFacts& port = adapter_.port();
  own_ = {{port.infiniband, port.active(), port.mtu, port.lid, adapter_.gid().type, adapter_.gid().gid},
          pair_->qp_num,
          static_cast<std::uint32_t>(random_u64() & 0xFFFFFFU)};
  ibv_qp_attr attributes{};
  attributes.pkey_index = adapter_.settings().pkey_index;
  attributes.port_num = static_cast<std::uint8_t>(port.number);
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  WREATH_TRY(modify(IBV_QPS_INIT, "be prepared", attributes, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
  state_ = State::Ready;
  return post_receives(receives_);
}

Status VerbsChannel::post_receives(std::uint32_t count) {
  const std::uint64_t id = WorkNumber{0, index_, generation_, true}.pack();
  for (std::uint32_t i = 0; i < count; ++i) {
    receive_requests_[i] = {id, i + 1 == count ? nullptr : &receive_requests_[i + 1], nullptr, 0};
  }
  ibv_recv_wr* refused = nullptr;
  const int error = ibv_post_recv(pair_.get(), receive_requests_.data(), &refused);
  waiting_ += error == 0 ? count : static_cast<std::uint32_t>(refused - receive_requests_.data());
  if (error == 0) return {};
  return explain(ErrorCode::System, fmt::format("receives were not posted: {}", std::strerror(error)));
}

Status VerbsChannel::connect(std::span<const std::byte> theirs) {
  if (state_ != State::Ready) return explain(ErrorCode::InvalidUsage, "it is not ready for a peer");
  const auto address = decode_address<VerbsAddress>(theirs);
  if (!address) return explain(address.error().code, address.error().message);
  peer_ = fmt::format("{} queue pair {}",
                      address->infiniband ? fmt::format("lid {}", address->lid) : gid_address(address->gid),
                      address->queue_pair);
  if (const Status fits = check_pair(own_, *address); !fits) return explain(fits.error().code, fits.error().message);
  WREATH_TRY(adapter_.look_again());
  if (!adapter_.port().active()) {
    return explain(ErrorCode::Unavailable, fmt::format("the port is {}", adapter_.port().state));
  }
  disturbances_ = adapter_.device().disturbances(adapter_.news());
  WREATH_TRY(begin_to_receive(*address));
  WREATH_TRY(begin_to_send());
  state_ = State::Connected;
  return {};
}

Status VerbsChannel::begin_to_receive(const VerbsAddress& theirs) {
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

Status VerbsChannel::begin_to_send() {
  ibv_qp_attr attributes{};
  attributes.timeout = adapter_.settings().timeout;
  attributes.retry_cnt = std::min(adapter_.settings().retry_count, kMostRetries);
  attributes.rnr_retry = kReceiverNotReadyRetries;
  attributes.sq_psn = own_.packet;
  attributes.max_rd_atomic = 1;
  constexpr int kMask = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
  return modify(IBV_QPS_RTS, "begin to send", attributes, kMask);
}

void VerbsChannel::fill(const Put& put, std::uint32_t position, std::size_t at) {
  const auto* const region = reinterpret_cast<const ibv_mr*>(put.registration);
  pieces_[at] = {reinterpret_cast<std::uintptr_t>(put.from), put.bytes, region == nullptr ? 0 : region->lkey};
  ibv_send_wr& request = requests_[at] = {};
  request.wr_id = WorkNumber{position, index_, generation_}.pack();
  request.next = &request + 1;
  request.sg_list = &pieces_[at];
  request.num_sge = put.bytes == 0 ? 0 : 1;
  request.opcode = put.tells ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
  if (put.tells) request.imm_data = htobe32(*put.tells);
  request.wr.rdma.remote_addr = put.to;
  request.wr.rdma.rkey = static_cast<std::uint32_t>(put.key);
  if (region == nullptr && put.bytes > 0) request.send_flags |= IBV_SEND_INLINE;
  // A completion frees the places of all sends before it, so there is one for each quarter of the queue.
  if (put.reports || position + 1 - signaled_ >= reports_.size() / 4) {
    request.send_flags |= IBV_SEND_SIGNALED;
    signaled_ = position + 1;
  }
  reports_[position % reports_.size()] = {put.reports, put.number};
}

Result<std::size_t> VerbsChannel::put(std::span<const Put> puts) {
  if (!broken_) return broken_.error();
  if (state_ != State::Connected) return explain(ErrorCode::InvalidUsage, "it is not connected");
  const std::size_t count = std::min<std::size_t>(puts.size(), reports_.size() - (posted_ - ended_));
  if (count == 0) return count;
  for (std::size_t i = 0; i < count; ++i) fill(puts[i], posted_ + static_cast<std::uint32_t>(i), i);
  requests_[count - 1].next = nullptr;
  // The last one always completes by itself, so that stop() learns the end of all that was taken.
  requests_[count - 1].send_flags |= IBV_SEND_SIGNALED;
  signaled_ = posted_ + static_cast<std::uint32_t>(count);
  ibv_send_wr* refused = nullptr;
  const int error = ibv_post_send(pair_.get(), requests_.data(), &refused);
  posted_ += static_cast<std::uint32_t>(error == 0 ? count : static_cast<std::size_t>(refused - requests_.data()));
  if (error == 0) return count;
  return explain(ErrorCode::System, fmt::format("requests were not posted: {}", std::strerror(error)));
}

bool VerbsChannel::on_completion(const ibv_wc& completion, PutEvent& event) {
  const WorkNumber number = WorkNumber::unpack(completion.wr_id);
  if (number.generation != generation_) return false;
  if (number.receive) {
    --waiting_;
  } else {
    ended_ = number.position + 1;
  }
  if (completion.status != IBV_WC_SUCCESS) return lose(completion, event);
  event.channel = index_;
  if (number.receive) {
    event.kind = PutEvent::Kind::Told;
    event.told = be32toh(completion.imm_data);
    const std::uint32_t taken = receives_ - waiting_;
    if (taken >= kReceiveBatch && state_ == State::Connected && broken_) broken_ = post_receives(taken);
    return true;
  }
  const Report& report = reports_[number.position % reports_.size()];
  event.kind = PutEvent::Kind::Ended;
  event.number = report.number;
  return report.wanted;
}

// Takes a failed completion. The first one tells why the channel is lost; the others are its consequence.
bool VerbsChannel::lose(const ibv_wc& completion, PutEvent& event) {
  if (state_ == State::Lost || state_ == State::Stopping) return false;
  state_ = State::Lost;
  const StatusWords words = status_words(completion.status, adapter_.disturbed_since(disturbances_));
  event = {};
  event.kind = PutEvent::Kind::Lost;
  event.channel = index_;
  event.retryable = words.retryable;
  event.error = explain(words.code, fmt::format("{} (vendor's error {:#x})", words.text, completion.vendor_err));
  return true;
}

bool VerbsChannel::stop() {
  if (state_ != State::Stopping) {
    if (const Status stopped = modify(IBV_QPS_ERR, "be stopped"); !stopped) {
      log_info("{}", stopped.error().message);
      return false;
    }
    state_ = State::Stopping;
  }
  return posted_ == ended_ && waiting_ == 0 && !adapter_.has_events_of(*this);
}

Status VerbsChannel::reset() {
  if (state_ != State::Stopping || !stop()) return explain(ErrorCode::InvalidUsage, "it is not stopped");
  WREATH_TRY(modify(IBV_QPS_RESET, "be reset"));
  broken_ = {};
  return prepare();
}

}  // namespace wreath
