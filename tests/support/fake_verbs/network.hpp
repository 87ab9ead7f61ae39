// Holds the objects of the fake libibverbs.so.1. One lock guards them all. The adapter's thread holds it for one step
// at a time, so calls come in between the pieces of a write.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/fake_verbs.hpp"

namespace wreath::test {

using Clock = std::chrono::steady_clock;

struct FakeDevice : ibv_device {
  int index = 0;
  std::uint32_t next_number = 0x11;  // of queue pairs; adapters give the same ones
  int lost_per_mille = 0;
};

// An eventfd counts what waits in a queue of events.
template <typename Event>
struct EventQueue {
  std::deque<Event> waiting;
  int descriptor = -1;
};

struct Context : verbs_context {
  FakeDevice* device = nullptr;
  EventQueue<ibv_async_event> events;
};

struct Domain : ibv_pd {
  int users = 0;
};

struct Region : ibv_mr {
  unsigned access = 0;
  std::uint64_t first = 0;      // the address that requests use
  std::byte* memory = nullptr;  // the adapter's own way to it
  void* mapping = nullptr;      // to unmap
  std::size_t mapped = 0;
  std::uint64_t device = 0;  // of which it is memory: the number of the dma-buf; 0 for the host

  bool covers(std::uint64_t address, std::uint64_t bytes) const {
    return address >= first && address - first <= length && bytes <= length - (address - first);
  }
};

struct CompletionChannel : ibv_comp_channel {
  EventQueue<struct CompletionQueue*> events;
};

struct CompletionQueue : ibv_cq {
  struct Entry {
    ibv_wc completion;
    struct QueuePair* sender = nullptr;  // whose send queue gets `places` back when the entry is polled
    int places = 0;
    struct ReceiveQueue* receiver = nullptr;  // gets one place
  };
  std::deque<Entry> entries;
  std::atomic<std::size_t> waiting{0};  // entries.size(), for polls without the lock
  bool armed = false;
  bool only_solicited = false;
  bool overrun = false;
  int users = 0;
  unsigned unacknowledged = 0;
};

struct ReceiveQueue {
  std::deque<std::uint64_t> posted;  // wr_id; the fake has no sends, so receives hold no memory
  int used = 0;                      // places; polling a completion gives one back
  int places = 0;
};

struct SharedReceives : ibv_srq {
  ReceiveQueue queue;
  int users = 0;
};

struct Request {
  std::uint64_t id = 0;
  bool reads = false;
  bool signaled = false;
  bool solicited = false;
  bool tells = false;
  bool checked = false;
  __be32 immediate = 0;
  std::uint64_t to = 0;
  std::uint32_t key = 0;
  std::vector<ibv_sge> pieces;
  std::vector<std::byte> inlined;
  bool is_inline = false;
  std::uint64_t bytes = 0;
  std::uint64_t moved = 0;
};

struct QueuePair : ibv_qp {
  ibv_qp_state actual = IBV_QPS_RESET;  // `state` is what the last modify_qp said
  ibv_qp_attr attributes{};
  ibv_qp_init_attr made_with{};
  std::deque<Request> sends;
  std::size_t executed = 0;  // the first of `sends`, whose acknowledgements are under way
  int used = 0;              // places of the send queue
  int unreported = 0;        // places that the next completion gives back
  ReceiveQueue receives;
  int retries = 0;
  int rnr_retries = 0;
  Clock::time_point not_before{};
  unsigned unacknowledged = 0;  // asynchronous events

  ReceiveQueue& receiving() { return srq != nullptr ? static_cast<SharedReceives*>(srq)->queue : receives; }
  FakeDevice& device() const { return *static_cast<Context*>(verbs_get_ctx(context))->device; }
  bool is_active() const { return actual == IBV_QPS_RTS; }
  bool has_work() const {
    if (actual == IBV_QPS_ERR) return !sends.empty() || !receives.posted.empty();
    return is_active() && !sends.empty();
  }
};

// A write that hold_device_writes keeps from its memory.
struct HeldWrite {
  const FakeDevice* adapter;
  std::uint64_t device;
  std::byte* to;
  std::vector<std::byte> bytes;
};

struct AskedFailure {
  int after = 0;
  int times = 0;
  int error = 0;
};

struct Network {
  std::mutex mutex;
  std::atomic<int> waiting{0};  // callers that wait for the mutex
  std::condition_variable changed;
  bool has_thread = false;

  FakeNetwork made;
  FakeBehaviour behaviour;
  FakeCounters counters;
  std::mt19937_64 random{1};
  std::vector<std::unique_ptr<FakeDevice>> devices;
  std::set<Context*> contexts;
  std::map<std::uint32_t, Region*> regions;  // by key
  std::uint32_t next_key = 0x1001;
  std::vector<QueuePair*> queue_pairs;
  std::vector<FakeModify> modifies;
  std::vector<HeldWrite> held;
  std::map<std::string, AskedFailure, std::less<>> failures;
  int requests_until_failure = -1;
  ibv_wc_status failure = IBV_WC_SUCCESS;

  // Returns a number below `limit`.
  std::uint64_t below(std::uint64_t limit) { return limit == 0 ? 0 : random() % limit; }
  Clock::duration scaled(double microseconds) const {
    return std::chrono::nanoseconds(static_cast<std::int64_t>(microseconds * 1000 / behaviour.time_divisor));
  }
};

Network& network();

// Holds the lock for a call.
class Hold {
 public:
  Hold() {
    ++network().waiting;
    lock_ = std::unique_lock(network().mutex);
    --network().waiting;
  }
  std::unique_lock<std::mutex>& lock() { return lock_; }

 private:
  std::unique_lock<std::mutex> lock_;
};

// Callers of all that follows hold the lock.

// Returns the error that a test asked this function for, or 0, and sets errno to it.
int asked_for(const char* function);
// Makes the devices of `made`.
void make_devices();
FakePort& port_of(const FakeDevice& device, int port);
std::uint16_t lid_of(const FakeDevice& device, int port);
// Returns false where the table ends.
bool gid_at(const FakeDevice& device, int port, int index, ibv_gid_entry* entry);
// Returns the device whose port has the address, or null.
FakeDevice* find_device(const ibv_ah_attr& address, int* port);

void publish(CompletionQueue& queue, const CompletionQueue::Entry& entry, bool solicited);
// Cuts the tie between a queue pair and its entries. They stay, or are taken out of the queue: adapters do either.
void forget(CompletionQueue& queue, QueuePair& pair);
void raise(Context& context, const ibv_async_event& event);
void raise(QueuePair& pair, ibv_event_type type);
void start_adapter();
// Waits for programs to acknowledge events, as the library does. A program that does not would wait for ever.
void await_acknowledgements(Hold& hold, const unsigned& unacknowledged, const char* call);
// Moves a queue pair to the error state. The adapter's thread flushes what it holds.
void break_down(QueuePair& pair);

}  // namespace wreath::test
