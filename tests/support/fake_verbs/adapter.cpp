// Executes the requests of the fake libibverbs.so.1. One thread takes any queue pair that is ready and does one step
// for it: so a queue pair's requests are in order, and nothing else is.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "tests/support/fake_verbs/network.hpp"

namespace wreath::test {
namespace {

// Receiver-not-ready timers in microseconds, by the value of min_rnr_timer.
constexpr double kTimers[] = {655'360, 10,     20,     30,      40,      60,      80,      120,
                              160,     240,    320,    480,     640,     960,     1'280,   1'920,
                              2'560,   3'840,  5'120,  7'680,   10'240,  15'360,  20'480,  30'720,
                              40'960,  61'440, 81'920, 122'880, 163'840, 245'760, 327'680, 491'520};

void complete(QueuePair& pair, std::uint64_t id, ibv_wc_status status, ibv_wc_opcode opcode,
              const Request* told = nullptr) {
  CompletionQueue::Entry entry{};
  entry.completion.wr_id = id;
  entry.completion.status = status;
  entry.completion.qp_num = pair.qp_num;
  // The other fields of an entry with an error hold anything.
  entry.completion.opcode = status == IBV_WC_SUCCESS ? opcode : IBV_WC_SEND;
  if (told != nullptr) {
    entry.completion.wc_flags = IBV_WC_WITH_IMM;
    entry.completion.imm_data = told->immediate;
    entry.completion.byte_len = static_cast<std::uint32_t>(told->bytes);
  }
  const bool send = (opcode & IBV_WC_RECV) == 0;
  if (send) {
    entry.sender = &pair;
    entry.places = std::exchange(pair.unreported, 0);
  } else {
    entry.receiver = &pair.receiving();
  }
  publish(*static_cast<CompletionQueue*>(send ? pair.send_cq : pair.recv_cq), entry,
          told != nullptr && told->solicited);
}

// Ends the oldest requests: they were executed, and their acknowledgements have come.
void acknowledge(QueuePair& pair, std::size_t requests) {
  for (; requests > 0; --requests, --pair.executed) {
    const Request& done = pair.sends.front();
    ++pair.unreported;
    if (done.signaled) complete(pair, done.id, IBV_WC_SUCCESS, done.reads ? IBV_WC_RDMA_READ : IBV_WC_RDMA_WRITE);
    pair.sends.pop_front();
  }
}

// Breaks a queue pair down: its oldest request ends with this status.
void fail(QueuePair& pair, ibv_wc_status status) {
  ++pair.unreported;
  complete(pair, pair.sends.front().id, status, IBV_WC_RDMA_WRITE);
  pair.sends.pop_front();
  if (pair.executed > 0) --pair.executed;
  break_down(pair);
}

// Requests before the one that fails were acknowledged with it.
void fail_last(QueuePair& pair, ibv_wc_status status) {
  acknowledge(pair, pair.executed);
  fail(pair, status);
}

void flush_one(QueuePair& pair) {
  if (!pair.sends.empty()) {
    ++pair.unreported;
    complete(pair, pair.sends.front().id, IBV_WC_WR_FLUSH_ERR, IBV_WC_RDMA_WRITE);
    pair.sends.pop_front();
    pair.executed = 0;
  } else if (!pair.receives.posted.empty()) {
    complete(pair, pair.receives.posted.front(), IBV_WC_WR_FLUSH_ERR, IBV_WC_RECV_RDMA_WITH_IMM);
    pair.receives.posted.pop_front();
  }
}

// Drops any number of requests, as adapters do: thousands take no longer than a few, whatever the machine's load.
void flush(QueuePair& pair) {
  const std::size_t held = pair.sends.size() + pair.receives.posted.size();
  for (std::uint64_t left = 1 + network().below(held); left > 0; --left) flush_one(pair);
}

// Sends again after a timeout. The last packets that had arrived may have to be sent again, too.
void retry(QueuePair& pair) {
  const int most = pair.attributes.retry_cnt;
  if (pair.attributes.timeout != 0 && most != 7 && pair.retries > most) return fail(pair, IBV_WC_RETRY_EXC_ERR);
  ++pair.retries;
  std::uint64_t& moved = pair.sends[pair.executed].moved;
  const std::uint64_t most_again = std::min(moved, std::uint64_t{8} * network().behaviour.piece_bytes);
  if (network().below(2) == 0) moved -= network().below(most_again + 1);
  const double timeout_us =
      pair.attributes.timeout == 0 ? 1e6 : 4.096 * static_cast<double>(1U << pair.attributes.timeout);
  pair.not_before = Clock::now() + network().scaled(timeout_us);
}

void wait_for_receive(QueuePair& pair, const QueuePair& target) {
  const int most = pair.attributes.rnr_retry;
  if (most != 7 && pair.rnr_retries >= most) return fail_last(pair, IBV_WC_RNR_RETRY_EXC_ERR);
  ++pair.rnr_retries;
  pair.not_before = Clock::now() + network().scaled(kTimers[target.attributes.min_rnr_timer]);
}

// Returns the queue pair that packets reach: it is connected with this one, by number, address and packet number.
QueuePair* find_target(const QueuePair& pair) {
  int port = 0;
  const FakeDevice* const device = find_device(pair.attributes.ah_attr, &port);
  if (device == nullptr || !port_of(*device, port).active) return nullptr;
  for (QueuePair* const other : network().queue_pairs) {
    if (&other->device() != device || other->qp_num != pair.attributes.dest_qp_num) continue;
    const ibv_qp_attr& its = other->attributes;
    int own_port = 0;
    const bool takes = other->actual == IBV_QPS_RTR || other->actual == IBV_QPS_RTS;
    if (!takes || its.port_num != port || its.dest_qp_num != pair.qp_num) return nullptr;
    const bool knows = find_device(its.ah_attr, &own_port) == &pair.device() && own_port == pair.attributes.port_num;
    return knows && its.rq_psn == pair.attributes.sq_psn ? other : nullptr;
  }
  return nullptr;
}

bool is_lost(const QueuePair& pair, const QueuePair& target) {
  const auto lost = [&](const FakeDevice& device) {
    return network().below(1000) < static_cast<std::uint64_t>(device.lost_per_mille);
  };
  return lost(pair.device()) || lost(target.device());
}

Region* find_region(std::uint32_t key, const ibv_pd* domain, std::uint64_t address, std::uint64_t bytes) {
  const auto found = network().regions.find(key);
  if (found == network().regions.end()) return nullptr;
  Region* const region = found->second;
  return region->pd == domain && region->covers(address, bytes) ? region : nullptr;
}

// Returns whether the request may use the memory at its own end.
bool may_use_pieces(const QueuePair& pair, const Request& request) {
  return std::all_of(request.pieces.begin(), request.pieces.end(), [&](const ibv_sge& piece) {
    if (piece.length == 0) return true;
    const Region* const region = find_region(piece.lkey, pair.pd, piece.addr, piece.length);
    return region != nullptr && (!request.reads || (region->access & IBV_ACCESS_LOCAL_WRITE) != 0);
  });
}

// Copies the bytes of a request from `at` on.
void gather(const QueuePair& pair, const Request& request, std::uint64_t at, std::byte* to, std::uint64_t bytes) {
  if (request.is_inline) {
    if (bytes > 0) std::memcpy(to, request.inlined.data() + at, bytes);
    return;
  }
  for (const ibv_sge& piece : request.pieces) {
    const std::uint64_t here = at < piece.length ? std::min(bytes, piece.length - at) : 0;
    if (here > 0) {
      const Region& region = *find_region(piece.lkey, pair.pd, piece.addr, piece.length);
      std::memcpy(to, region.memory + (piece.addr - region.first) + at, here);
    }
    to += here;
    bytes -= here;
    at = at < piece.length ? 0 : at - piece.length;
  }
}

void refuse_access(QueuePair& pair, QueuePair& target, const Request& request) {
  std::deque<std::uint64_t>& receives = target.receiving().posted;
  if (request.tells && !receives.empty()) {
    complete(target, receives.front(), IBV_WC_REM_ACCESS_ERR, IBV_WC_RECV_RDMA_WITH_IMM);
    receives.pop_front();
  }
  raise(target, IBV_EVENT_QP_ACCESS_ERR);
  break_down(target);
  fail_last(pair, IBV_WC_REM_ACCESS_ERR);
}

void write(QueuePair& pair, const QueuePair& target, Request& request, Region& region, std::uint64_t bytes) {
  std::byte* const to = region.memory + (request.to - region.first) + request.moved;
  if (region.device != 0 && network().behaviour.hold_device_writes) {
    HeldWrite held{&target.device(), region.device, to, std::vector<std::byte>(bytes)};
    gather(pair, request, request.moved, held.bytes.data(), bytes);
    network().held.push_back(std::move(held));
  } else {
    gather(pair, request, request.moved, to, bytes);
  }
}

// Writes what was held back and `is_free` admits. Returns how many writes there were.
template <typename IsFree>
std::size_t release_held(const IsFree& is_free) {
  return std::erase_if(network().held, [&](const HeldWrite& each) {
    if (is_free(each)) std::memcpy(each.to, each.bytes.data(), each.bytes.size());
    return is_free(each);
  });
}

// Scatters bytes over the pieces of a request.
void scatter(const QueuePair& pair, const Request& request, const std::byte* from) {
  for (const ibv_sge& piece : request.pieces) {
    if (piece.length == 0) continue;
    const Region& region = *find_region(piece.lkey, pair.pd, piece.addr, piece.length);
    std::memcpy(region.memory + (piece.addr - region.first), from, piece.length);
    from += piece.length;
  }
}

// Reads at once. The target's adapter has written before what it still held back from the same device.
void read(QueuePair& pair, QueuePair& target, Request& request) {
  if (pair.attributes.max_rd_atomic == 0) return fail_last(pair, IBV_WC_LOC_QP_OP_ERR);
  if (target.attributes.max_dest_rd_atomic == 0) return fail_last(pair, IBV_WC_REM_INV_REQ_ERR);
  const Region* const region = find_region(request.key, target.pd, request.to, request.bytes);
  FakeReads& fate = network().behaviour.reads;
  const bool refused = fate != FakeReads::Work;
  if (fate == FakeReads::RefuseOne) fate = FakeReads::Work;
  const unsigned access = region == nullptr || refused ? 0 : region->access & target.attributes.qp_access_flags;
  // A read of no bytes touches no memory.
  if (request.bytes > 0) {
    if ((access & IBV_ACCESS_REMOTE_READ) == 0) return refuse_access(pair, target, request);
    if (!may_use_pieces(pair, request)) return fail_last(pair, IBV_WC_LOC_PROT_ERR);
    const FakeDevice* const adapter = &target.device();
    release_held([&](const HeldWrite& each) { return each.adapter == adapter && each.device == region->device; });
    scatter(pair, request, region->memory + (request.to - region->first));
  }
  pair.retries = pair.rnr_retries = 0;
  ++pair.executed;
  ++network().counters.reads;
}

// Moves the next piece of the request, and ends it with the last one.
void move(QueuePair& pair, QueuePair& target, Request& request) {
  const std::uint64_t left = request.bytes - request.moved;
  const std::uint64_t bytes = std::min(left, 1 + network().below(network().behaviour.piece_bytes));
  std::deque<std::uint64_t>& receives = target.receiving().posted;
  const bool is_last = bytes == left || request.bytes <= 128U << pair.attributes.path_mtu;  // one packet has no other
  if (is_last && request.tells && receives.empty()) return wait_for_receive(pair, target);
  if (request.bytes > 0) {
    Region* const region = find_region(request.key, target.pd, request.to, request.bytes);
    constexpr unsigned kAllowed = IBV_ACCESS_REMOTE_WRITE;
    if (region == nullptr || (region->access & target.attributes.qp_access_flags & kAllowed) == 0) {
      return refuse_access(pair, target, request);
    }
    if (!may_use_pieces(pair, request)) return fail_last(pair, IBV_WC_LOC_PROT_ERR);
    if (bytes > 0) write(pair, target, request, *region, bytes);
  }
  request.moved += bytes;
  pair.retries = pair.rnr_retries = 0;
  if (bytes < left) return;
  ++pair.executed;
  ++network().counters.writes;
  network().counters.bytes += request.bytes;
  if (!request.tells) return;
  ++network().counters.immediates;
  const std::uint64_t receive = receives.front();
  receives.pop_front();
  complete(target, receive, IBV_WC_SUCCESS, IBV_WC_RECV_RDMA_WITH_IMM, &request);
}

void execute(QueuePair& pair) {
  Network& all = network();
  Request& request = pair.sends[pair.executed];
  if (!request.checked) {
    request.checked = true;
    all.counters.begun_reads += request.reads ? 1U : 0U;
    if (all.requests_until_failure >= 0 && all.requests_until_failure-- == 0) return fail_last(pair, all.failure);
    if (request.bytes > all.made.max_message) return fail_last(pair, IBV_WC_LOC_LEN_ERR);
    if (!may_use_pieces(pair, request)) return fail_last(pair, IBV_WC_LOC_PROT_ERR);
  }
  if (!port_of(pair.device(), pair.attributes.port_num).active) return fail(pair, IBV_WC_LOC_QP_OP_ERR);
  if (request.reads && all.behaviour.reads == FakeReads::Stall) {
    pair.not_before = Clock::now() + std::chrono::milliseconds(1);
    return;
  }
  QueuePair* const target = find_target(pair);
  if (target == nullptr || is_lost(pair, *target)) return retry(pair);
  if (request.reads) return read(pair, *target, request);
  move(pair, *target, request);
}

void step(QueuePair& pair) {
  Network& all = network();
  if (all.behaviour.delay_us > 0 && all.below(16) == 0) {
    pair.not_before = Clock::now() + std::chrono::microseconds(all.below(all.behaviour.delay_us));
  } else if (pair.actual == IBV_QPS_ERR) {
    flush(pair);
  } else if (pair.executed == pair.sends.size() || (pair.executed > 0 && all.below(2) == 0)) {
    acknowledge(pair, 1 + all.below(pair.executed));
  } else {
    execute(pair);
  }
}

void run() {
  Network& all = network();
  std::unique_lock lock(all.mutex);
  std::vector<QueuePair*> ready;
  while (true) {
    const Clock::time_point now = Clock::now();
    Clock::time_point next = now + std::chrono::hours(1);
    ready.clear();
    for (QueuePair* const pair : all.queue_pairs) {
      if (all.behaviour.paused || !pair->has_work()) continue;
      if (pair->not_before <= now) {
        ready.push_back(pair);
      } else {
        next = std::min(next, pair->not_before);
      }
    }
    if (ready.empty()) {
      all.changed.wait_until(lock, next);
      continue;
    }
    step(*ready[all.below(ready.size())]);
    lock.unlock();
    if (all.waiting.load() > 0) std::this_thread::yield();
    lock.lock();
  }
}

}  // namespace

// The thread has no end: the library stays loaded.
void start_adapter() {
  if (std::exchange(network().has_thread, true)) return;
  std::thread(run).detach();
}

}  // namespace wreath::test

using namespace wreath::test;

namespace {

bool configure(const FakeNetwork* made) {
  const Hold hold;
  Network& all = network();
  if (!all.contexts.empty()) return false;
  all.made = *made;
  all.behaviour = {};
  all.counters = {};
  all.random.seed(all.behaviour.seed);
  all.modifies.clear();
  all.failures.clear();
  all.requests_until_failure = -1;
  make_devices();
  return true;
}

void behave(const FakeBehaviour* behaviour) {
  const Hold hold;
  network().behaviour = *behaviour;
  network().random.seed(behaviour->seed);
  network().changed.notify_all();
}

FakeCounters counters() {
  const Hold hold;
  return network().counters;
}

std::size_t modifies(FakeModify* into, std::size_t most) {
  const Hold hold;
  const std::vector<FakeModify>& made = network().modifies;
  std::copy_n(made.begin(), std::min(most, made.size()), into);
  return made.size();
}

void fail_calls(const char* function, int after, int times, int error) {
  const Hold hold;
  network().failures.insert_or_assign(function, AskedFailure{after, times, error});
}

void fail_request(int after, int status) {
  const Hold hold;
  network().requests_until_failure = after;
  network().failure = static_cast<ibv_wc_status>(status);
}

void lose(int adapter, int per_mille) {
  const Hold hold;
  network().devices.at(static_cast<std::size_t>(adapter))->lost_per_mille = per_mille;
}

void set_port(int adapter, int port, bool up) {
  const Hold hold;
  Network& all = network();
  const FakeDevice& device = *all.devices.at(static_cast<std::size_t>(adapter));
  port_of(device, port).active = up;
  ibv_async_event event{};
  event.element.port_num = port;
  event.event_type = up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR;
  for (Context* const context : all.contexts) {
    if (context->device == &device) raise(*context, event);
  }
  for (QueuePair* const pair : all.queue_pairs) {
    if (&pair->device() == &device && pair->attributes.port_num == port) pair->not_before = {};
  }
  all.changed.notify_all();
}

std::size_t flush_held() {
  const Hold hold;
  return release_held([](const HeldWrite&) { return true; });
}

}  // namespace

extern "C" const FakeVerbs fake_verbs;
extern "C" const FakeVerbs fake_verbs = {&configure,    &behave, &counters, &modifies,  &fail_calls,
                                         &fail_request, &lose,   &set_port, &flush_held};
