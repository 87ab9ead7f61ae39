// Implements queue pairs of the fake libibverbs.so.1: their states, and what is posted to them.
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/support/fake_verbs/network.hpp"

namespace wreath::test {

void break_down(QueuePair& pair) {
  if (pair.actual == IBV_QPS_ERR) return;
  pair.actual = IBV_QPS_ERR;
  pair.not_before = {};
  if (pair.srq != nullptr) raise(pair, IBV_EVENT_QP_LAST_WQE_REACHED);
  network().changed.notify_all();
}

}  // namespace wreath::test

using namespace wreath::test;

namespace {

// Says which attributes a change of state must have, and may have.
struct Change {
  ibv_qp_state from;
  ibv_qp_state to;
  int must;
  int may;
};

constexpr Change kChanges[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
    {IBV_QPS_INIT, IBV_QPS_RTR,
     IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
     IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS},
    {IBV_QPS_RTR, IBV_QPS_RTS,
     IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
     IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
};

// Returns whether a queue pair may go to this state with exactly these attributes. It may always be reset or broken.
bool may_change(const QueuePair& pair, ibv_qp_state to, int mask) {
  const int rest = mask & ~IBV_QP_STATE;
  if (to == IBV_QPS_RESET || to == IBV_QPS_ERR) return rest == 0;
  return std::any_of(std::begin(kChanges), std::end(kChanges), [&](const Change& change) {
    return change.from == pair.actual && change.to == to && (rest & change.must) == change.must &&
           (rest & ~(change.must | change.may)) == 0;
  });
}

bool is_address(const QueuePair& pair, const ibv_ah_attr& address) {
  const FakeDevice& device = pair.device();
  if (address.port_num != pair.attributes.port_num) return false;
  if (port_of(device, address.port_num).infiniband && address.is_global == 0) return address.dlid != 0;
  ibv_gid_entry entry{};
  return address.is_global != 0 && gid_at(device, address.port_num, address.grh.sgid_index, &entry);
}

// Copies what the mask names. Returns false where a value is none.
bool take(QueuePair& pair, const ibv_qp_attr& from, int mask) {
  ibv_qp_attr& to = pair.attributes;
  if ((mask & IBV_QP_PORT) != 0) {
    if (from.port_num < 1 || from.port_num > network().made.adapter[pair.device().index].ports) return false;
    to.port_num = from.port_num;
  }
  if ((mask & IBV_QP_AV) != 0 && !is_address(pair, from.ah_attr)) return false;
  const FakePort& port = port_of(pair.device(), to.port_num);
  if ((mask & IBV_QP_PATH_MTU) != 0 && (from.path_mtu < IBV_MTU_256 || from.path_mtu > port.mtu)) return false;
  if ((mask & IBV_QP_PKEY_INDEX) != 0 && from.pkey_index != 0) return false;
  if ((mask & IBV_QP_TIMEOUT) != 0 && from.timeout > 31) return false;
  if ((mask & IBV_QP_RETRY_CNT) != 0 && from.retry_cnt > 7) return false;
  if ((mask & IBV_QP_RNR_RETRY) != 0 && from.rnr_retry > 7) return false;
  if ((mask & IBV_QP_MIN_RNR_TIMER) != 0 && from.min_rnr_timer > 31) return false;
  if ((mask & IBV_QP_RQ_PSN) != 0 && from.rq_psn > 0xff'ffff) return false;
  if ((mask & IBV_QP_SQ_PSN) != 0 && from.sq_psn > 0xff'ffff) return false;
  const auto set = [&](int bit, auto ibv_qp_attr::*member) {
    if ((mask & bit) != 0) to.*member = from.*member;
  };
  set(IBV_QP_ACCESS_FLAGS, &ibv_qp_attr::qp_access_flags);
  set(IBV_QP_AV, &ibv_qp_attr::ah_attr);
  set(IBV_QP_PATH_MTU, &ibv_qp_attr::path_mtu);
  set(IBV_QP_DEST_QPN, &ibv_qp_attr::dest_qp_num);
  set(IBV_QP_RQ_PSN, &ibv_qp_attr::rq_psn);
  set(IBV_QP_SQ_PSN, &ibv_qp_attr::sq_psn);
  set(IBV_QP_MIN_RNR_TIMER, &ibv_qp_attr::min_rnr_timer);
  set(IBV_QP_TIMEOUT, &ibv_qp_attr::timeout);
  set(IBV_QP_RETRY_CNT, &ibv_qp_attr::retry_cnt);
  set(IBV_QP_RNR_RETRY, &ibv_qp_attr::rnr_retry);
  set(IBV_QP_MAX_QP_RD_ATOMIC, &ibv_qp_attr::max_rd_atomic);
  set(IBV_QP_MAX_DEST_RD_ATOMIC, &ibv_qp_attr::max_dest_rd_atomic);
  return true;
}

void record(const ibv_qp_attr& attributes, int mask) {
  FakeModify made;
  if ((mask & IBV_QP_ACCESS_FLAGS) != 0) made.access = static_cast<int>(attributes.qp_access_flags);
  if ((mask & IBV_QP_TIMEOUT) != 0) made.timeout = attributes.timeout;
  if ((mask & IBV_QP_RETRY_CNT) != 0) made.retry_cnt = attributes.retry_cnt;
  if ((mask & IBV_QP_RNR_RETRY) != 0) made.rnr_retry = attributes.rnr_retry;
  if ((mask & IBV_QP_MIN_RNR_TIMER) != 0) made.min_rnr_timer = attributes.min_rnr_timer;
  network().modifies.push_back(made);
}

void clear(QueuePair& pair) {
  for (ibv_cq* const queue : {pair.send_cq, pair.recv_cq}) forget(*static_cast<CompletionQueue*>(queue), pair);
  pair.sends.clear();
  pair.receives.posted.clear();
  pair.executed = 0;
  pair.used = pair.unreported = pair.receives.used = 0;
  pair.retries = pair.rnr_retries = 0;
  pair.not_before = {};
  pair.attributes = {};
}

// Says why an adapter would not take the request, or 0.
int check(const QueuePair& pair, const ibv_send_wr& asked) {
  const bool reads = asked.opcode == IBV_WR_RDMA_READ;
  if (!reads && asked.opcode != IBV_WR_RDMA_WRITE && asked.opcode != IBV_WR_RDMA_WRITE_WITH_IMM) return EOPNOTSUPP;
  if (reads && (asked.send_flags & IBV_SEND_INLINE) != 0) return EINVAL;
  const ibv_qp_cap& most = pair.made_with.cap;
  if (asked.num_sge < 0 || asked.num_sge > static_cast<int>(most.max_send_sge)) return EINVAL;
  std::uint64_t bytes = 0;
  for (int i = 0; i < asked.num_sge; ++i) bytes += asked.sg_list[i].length;
  if ((asked.send_flags & IBV_SEND_INLINE) != 0 && bytes > most.max_inline_data) return EINVAL;
  return pair.used >= static_cast<int>(most.max_send_wr) ? ENOMEM : 0;
}

Request request_of(const QueuePair& pair, const ibv_send_wr& asked) {
  Request made;
  made.id = asked.wr_id;
  made.reads = asked.opcode == IBV_WR_RDMA_READ;
  made.signaled = pair.made_with.sq_sig_all != 0 || (asked.send_flags & IBV_SEND_SIGNALED) != 0;
  made.solicited = (asked.send_flags & IBV_SEND_SOLICITED) != 0;
  made.tells = asked.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  if (made.tells) made.immediate = asked.imm_data;
  made.to = asked.wr.rdma.remote_addr;
  made.key = asked.wr.rdma.rkey;
  made.is_inline = (asked.send_flags & IBV_SEND_INLINE) != 0;
  for (int i = 0; i < asked.num_sge; ++i) {
    const ibv_sge& piece = asked.sg_list[i];
    made.bytes += piece.length;
    if (!made.is_inline) {
      made.pieces.push_back(piece);
      continue;
    }
    const auto* const from = reinterpret_cast<const std::byte*>(piece.addr);
    made.inlined.insert(made.inlined.end(), from, from + piece.length);
  }
  return made;
}

}  // namespace

namespace wreath::test {

int post_sends(ibv_qp* of, ibv_send_wr* requests, ibv_send_wr** bad) {
  const Hold hold;
  auto& pair = *static_cast<QueuePair*>(of);
  *bad = requests;
  if (const int error = asked_for("ibv_post_send"); error != 0) return error;
  if (pair.actual != IBV_QPS_RTS && pair.actual != IBV_QPS_ERR) return EINVAL;
  ++network().counters.doorbells;
  int error = 0;
  for (; requests != nullptr && error == 0; requests = requests->next) {
    *bad = requests;
    error = check(pair, *requests);
    if (error != 0) break;
    pair.sends.push_back(request_of(pair, *requests));
    if (pair.sends.back().is_inline) ++network().counters.inlined;
    ++pair.used;
  }
  network().changed.notify_all();
  return error;
}

int post_receives(ibv_qp* of, ibv_recv_wr* requests, ibv_recv_wr** bad) {
  const Hold hold;
  auto& pair = *static_cast<QueuePair*>(of);
  for (; requests != nullptr; requests = requests->next) {
    *bad = requests;
    if (const int error = asked_for("ibv_post_recv"); error != 0) return error;
    if (pair.srq != nullptr || pair.actual == IBV_QPS_RESET) return EINVAL;
    if (pair.receives.used >= pair.receives.places) return ENOMEM;
    pair.receives.posted.push_back(requests->wr_id);
    ++pair.receives.used;
    ++network().counters.receives;
  }
  network().changed.notify_all();
  return 0;
}

}  // namespace wreath::test

extern "C" {

ibv_qp* ibv_create_qp(ibv_pd* domain, ibv_qp_init_attr* attributes) {
  const Hold hold;
  if (asked_for("ibv_create_qp") != 0) return nullptr;
  const FakeNetwork& most = network().made;
  const ibv_qp_cap& asked = attributes->cap;
  const bool fits = asked.max_send_wr <= static_cast<std::uint32_t>(most.max_requests) &&
                    asked.max_recv_wr <= static_cast<std::uint32_t>(most.max_requests) &&
                    asked.max_send_sge <= static_cast<std::uint32_t>(most.max_pieces) &&
                    asked.max_recv_sge <= static_cast<std::uint32_t>(most.max_pieces) &&
                    asked.max_inline_data <= most.max_inline;
  if (!fits || attributes->qp_type != IBV_QPT_RC || attributes->send_cq == nullptr || attributes->recv_cq == nullptr) {
    return errno = EINVAL, nullptr;
  }
  auto* const pair = new QueuePair();
  pair->context = domain->context;
  pair->pd = domain;
  pair->qp_context = attributes->qp_context;
  pair->send_cq = attributes->send_cq;
  pair->recv_cq = attributes->recv_cq;
  pair->srq = attributes->srq;
  pair->qp_type = IBV_QPT_RC;
  pair->made_with = *attributes;
  pair->receives.places = pair->srq != nullptr ? 0 : static_cast<int>(asked.max_recv_wr);
  pair->qp_num = pair->device().next_number++;
  ++static_cast<Domain*>(domain)->users;
  for (ibv_cq* const queue : {pair->send_cq, pair->recv_cq}) ++static_cast<CompletionQueue*>(queue)->users;
  if (pair->srq != nullptr) ++static_cast<SharedReceives*>(pair->srq)->users;
  network().queue_pairs.push_back(pair);
  ++network().counters.alive;
  return pair;
}

int ibv_modify_qp(ibv_qp* of, ibv_qp_attr* attributes, int mask) {
  const Hold hold;
  auto& pair = *static_cast<QueuePair*>(of);
  if (const int error = asked_for("ibv_modify_qp"); error != 0) return error;
  const ibv_qp_state to = (mask & IBV_QP_STATE) != 0 ? attributes->qp_state : pair.actual;
  if (!may_change(pair, to, mask) || !take(pair, *attributes, mask)) return EINVAL;
  record(*attributes, mask);
  if (to == IBV_QPS_RESET) clear(pair);
  if (to == IBV_QPS_ERR) {
    break_down(pair);
  } else {
    pair.actual = to;
  }
  pair.state = to;
  network().changed.notify_all();
  return 0;
}

int ibv_query_qp(ibv_qp* of, ibv_qp_attr* attributes, int, ibv_qp_init_attr* made_with) {
  const Hold hold;
  const auto& pair = *static_cast<QueuePair*>(of);
  *attributes = pair.attributes;
  attributes->qp_state = attributes->cur_qp_state = pair.actual;
  attributes->cap = pair.made_with.cap;
  *made_with = pair.made_with;
  return 0;
}

int ibv_destroy_qp(ibv_qp* of) {
  Hold hold;
  auto* const pair = static_cast<QueuePair*>(of);
  if (const int error = asked_for("ibv_destroy_qp"); error != 0) return error;
  auto& events = static_cast<Context*>(verbs_get_ctx(pair->context))->events;
  std::erase_if(events.waiting, [&](const ibv_async_event& event) {
    eventfd_t one = 0;
    const bool affiliated = event.event_type == IBV_EVENT_QP_FATAL || event.event_type == IBV_EVENT_QP_ACCESS_ERR ||
                            event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED;
    return affiliated && event.element.qp == pair && ::eventfd_read(events.descriptor, &one) == 0;
  });
  std::erase(network().queue_pairs, pair);
  await_acknowledgements(hold, pair->unacknowledged, "ibv_destroy_qp");
  clear(*pair);
  --static_cast<Domain*>(pair->pd)->users;
  for (ibv_cq* const queue : {pair->send_cq, pair->recv_cq}) --static_cast<CompletionQueue*>(queue)->users;
  if (pair->srq != nullptr) --static_cast<SharedReceives*>(pair->srq)->users;
  --network().counters.alive;
  delete pair;
  return 0;
}

}  // extern "C"
