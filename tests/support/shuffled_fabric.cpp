// A libfabric.so.1 that hands everything to the real one, and changes the order: writes are submitted late and in any
// order, completions are given so, too, and now and then a write is refused (-FI_EAGAIN). Failures stay as they are.
//
// One thread at a time uses an endpoint and its queue: a program that uses the queue of an endpoint which is being
// closed is ended. The tables of all of them are behind a lock.
//
// Adapters are offered by offered_fabric.cpp, and each may be spoilt. Memory of devices is device_fabric.cpp's.
#include "tests/support/shuffled_fabric.hpp"

#include <dlfcn.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/device_fabric.hpp"
#include "tests/support/peers_fabric.hpp"
#include "tests/support/real_fabric.hpp"

namespace {

using wreath::test::FabricFault;
using wreath::test::replace;
using Clock = std::chrono::steady_clock;

constexpr int kSpoilt = 4711;  // the provider's number of a failure
// Writes that have failed are made so long while their endpoint is being closed.
constexpr auto kLateWrites = std::chrono::milliseconds(20);

// An adapter of a rank, which opens all of its adapters by one thread.
struct Domain {
  const fid* own = nullptr;
  fi_ops_domain* real = nullptr;
  fi_ops* object = nullptr;
  fi_ops_mr* memory = nullptr;
  int adapter = 0;
  int rank = 0;
  std::thread::id thread;
  std::atomic<FabricFault> fault = FabricFault::None;
  bool takes_devices = false;  // was opened with FI_HMEM
  bool forbids_cuda = false;   // no endpoint may call CUDA
  bool fails() const { return fault == FabricFault::Fails || fault == FabricFault::Gone; }
};

struct HeldWrite {
  iovec piece;
  void* description;
  fi_rma_iov target;
  fi_msg_rma message;
  std::uint64_t flags;
};

struct Queue;

struct Endpoint {
  fi_ops_rma* rma = nullptr;  // the real ones
  fi_ops_ep* options = nullptr;
  fi_ops* object = nullptr;
  Queue* queue = nullptr;
  Domain* domain = nullptr;
  bool forbids_cuda = false;
  std::vector<HeldWrite> held;
  std::vector<HeldWrite> late;  // their user thinks that they have failed
};

struct Queue {
  fi_ops_cq* real = nullptr;
  Domain* domain = nullptr;
  std::mt19937 random;
  std::vector<void*> failures;   // the contexts of writes
  std::deque<fi_context2> late;  // contexts of those, for the provider
  bool silent = false;           // what came before its adapter fell silent was read
  fid* object = nullptr;
  std::vector<fid_ep*> endpoints;
  std::vector<fi_cq_data_entry> waiting;
  std::atomic<int> closing = 0;  // so many of the endpoints are being closed
  bool armed = false;            // its user sleeps if the next read gives nothing, so nothing is held back
  bool one_in(std::uint32_t n) { return random() % n == 0; }
  bool is_late(const void* context) const {
    return std::ranges::any_of(late, [context](const fi_context2& each) { return &each == context; });
  }
};

struct Tables {
  std::mutex mutex;
  std::map<fid_ep*, std::unique_ptr<Endpoint>> endpoints;
  std::map<fid*, std::unique_ptr<Queue>> queues;
  std::map<fid*, std::unique_ptr<Domain>> domains;
  std::atomic<fi_ops_fabric*> fabric = nullptr;
};

Tables& tables() {
  static Tables* const all = new Tables;  // NOLINT(cppcoreguidelines-owning-memory): never deleted
  return *all;
}

Endpoint& endpoint_of(fid_ep* endpoint) {
  const std::lock_guard lock(tables().mutex);
  return *tables().endpoints.at(endpoint);
}

Queue* queue_of(fid* object) {
  const std::lock_guard lock(tables().mutex);
  const auto found = tables().queues.find(object);
  return found == tables().queues.end() ? nullptr : found->second.get();
}

Domain& domain_of(fid_domain* domain) {
  const std::lock_guard lock(tables().mutex);
  return *tables().domains.at(&domain->fid);
}

// A provider reads its endpoints when their queue is used.
void expect_no_closing(const Queue& queue, const char* function) {
  if (queue.closing == 0) return;
  std::fprintf(stderr, "%s: an endpoint of this queue is being closed\n", function);
  std::abort();
}

HeldWrite hold(const fi_msg_rma* message, std::uint64_t flags) {
  return {message->msg_iov[0], message->desc[0], message->rma_iov[0], *message, flags};
}

ssize_t submit_now(fid_ep* object, const Endpoint& endpoint, HeldWrite write) {
  wreath::test::read_from_device(write.piece, write.description, write.flags);
  write.message.msg_iov = &write.piece;
  write.message.desc = &write.description;
  write.message.rma_iov = &write.target;
  wreath::test::begin_device_write(write.target, write.message.data);
  const ssize_t returned = endpoint.rma->writemsg(object, &write.message, write.flags);
  if (returned != 0) wreath::test::forget_device_write(write.target, write.message.data);
  return returned;
}

bool submit(fid_ep* object, const Endpoint& endpoint, const HeldWrite& write) {
  return submit_now(object, endpoint, write) == 0;
}

int fail(Endpoint& endpoint, HeldWrite write) {
  endpoint.queue->failures.push_back(write.message.context);
  write.message.context = &endpoint.queue->late.emplace_back();
  endpoint.late.push_back(write);
  return 0;
}

void fail_held(Endpoint& endpoint) {
  for (const HeldWrite& write : endpoint.held) fail(endpoint, write);
  endpoint.held.clear();
}

ssize_t hold_write(fid_ep* object, const fi_msg_rma* message, std::uint64_t flags) {
  constexpr std::size_t kMostHeld = 64;
  Endpoint& endpoint = endpoint_of(object);
  if (endpoint.domain->fault == FabricFault::Silent) {
    endpoint.late.push_back(hold(message, flags));
    return 0;
  }
  FabricFault once = FabricFault::FailsOnce;
  if (endpoint.domain->fault.compare_exchange_strong(once, FabricFault::None))
    return fail(endpoint, hold(message, flags));
  if (endpoint.domain->fails()) {
    if (endpoint.queue->one_in(4)) return -FI_EIO;
    return fail(endpoint, hold(message, flags));
  }
  if (endpoint.queue->armed) return submit_now(object, endpoint, hold(message, flags));
  if (endpoint.held.size() >= kMostHeld || endpoint.queue->one_in(16)) return -FI_EAGAIN;
  endpoint.held.push_back(hold(message, flags));
  return 0;
}

ssize_t read_device(fid_ep* object, const fi_msg_rma* message, std::uint64_t flags) {
  const Endpoint& endpoint = endpoint_of(object);
  if (endpoint.domain->fails()) return -FI_EIO;
  if (!endpoint.forbids_cuda) return -FI_EINVAL;
  if (endpoint.queue->one_in(4)) return -FI_EAGAIN;
  if (!wreath::test::begin_device_read(endpoint.domain->own, message->rma_iov[0], message->context)) return 0;
  return endpoint.rma->readmsg(object, message, flags);
}

void submit_some(Queue& queue) {
  for (fid_ep* const object : queue.endpoints) {
    Endpoint& endpoint = endpoint_of(object);
    if (queue.domain->fails()) fail_held(endpoint);
    std::ranges::shuffle(endpoint.held, queue.random);
    std::erase_if(endpoint.held, [&](HeldWrite& write) { return !queue.one_in(4) && submit(object, endpoint, write); });
    std::erase_if(endpoint.late,
                  [&](HeldWrite& write) { return queue.one_in(256) && submit(object, endpoint, write); });
  }
}

// Reads what has come. Returns how much, or an error.
ssize_t read_more(fid_cq* object, Queue& queue) {
  std::array<fi_cq_data_entry, 32> entries;
  const ssize_t read = queue.real->read(object, entries.data(), entries.size());
  for (ssize_t i = 0; i < read; ++i) {
    const fi_cq_data_entry& entry = entries[static_cast<std::size_t>(i)];
    void* const context = entry.op_context;
    if (queue.is_late(context)) continue;
    if (context == nullptr && (entry.flags & FI_REMOTE_CQ_DATA) != 0) {
      wreath::test::end_device_write(queue.domain->own, entry.data);
    }
    if (context != nullptr && !wreath::test::end_device_read(context)) {
      queue.failures.push_back(context);
      continue;
    }
    const bool silent = queue.domain->fault == FabricFault::Silent;
    const bool ends_write = context != nullptr && (silent || queue.domain->fails());
    if (ends_write && queue.domain->fails()) queue.failures.push_back(context);
    if (!ends_write) queue.waiting.push_back(entry);
  }
  return read;
}

// A put that has ended at a peer was told here. Nothing comes after those.
void fall_silent(fid_cq* object, Queue& queue) {
  while (!queue.silent && read_more(object, queue) > 0) {
  }
  queue.silent = true;
}

ssize_t read_shuffled(fid_cq* object, void* buffer, std::size_t count) {
  Queue& queue = *queue_of(&object->fid);
  expect_no_closing(queue, "fi_cq_read");
  if (queue.domain->fault == FabricFault::Silent) {
    fall_silent(object, queue);
  } else {
    queue.silent = false;
    submit_some(queue);
    const ssize_t read = read_more(object, queue);
    if (read < 0 && read != -FI_EAGAIN) return read;
  }
  if (!queue.failures.empty() && (queue.armed || queue.waiting.empty() || queue.one_in(2))) {
    queue.armed = false;
    return -FI_EAVAIL;
  }
  std::ranges::shuffle(queue.waiting, queue.random);
  std::size_t given = std::min(count, queue.waiting.size());
  if (queue.domain->fails()) given = queue.one_in(32) ? std::min<std::size_t>(given, 1) : 0;
  if (!queue.armed) given = queue.one_in(4) ? 0 : std::min<std::size_t>(given, 1 + queue.random() % 8);
  if (given == 0) return -FI_EAGAIN;
  queue.armed = false;
  std::copy(queue.waiting.end() - static_cast<long>(given), queue.waiting.end(),
            static_cast<fi_cq_data_entry*>(buffer));
  queue.waiting.resize(queue.waiting.size() - given);
  return static_cast<ssize_t>(given);
}

ssize_t read_failure(fid_cq* object, fi_cq_err_entry* entry, std::uint64_t flags) {
  Queue& queue = *queue_of(&object->fid);
  if (queue.failures.empty()) {
    const ssize_t read = queue.real->readerr(object, entry, flags);
    return read == 1 && queue.is_late(entry->op_context) ? -FI_EAGAIN : read;
  }
  *entry = {};
  entry->op_context = queue.failures.back();
  entry->err = FI_EIO;
  entry->prov_errno = kSpoilt;
  wreath::test::fill_behind(*entry);
  queue.failures.pop_back();
  return 1;
}

const char* explain(fid_cq* object, int number, const void* data, char* text, std::size_t bytes) {
  if (number == kSpoilt) return "the adapter was spoilt";
  return queue_of(&object->fid)->real->strerror(object, number, data, text, bytes);
}

bool holds_back(const Queue& queue) {
  return !queue.waiting.empty() || !queue.failures.empty() ||
         std::ranges::any_of(queue.endpoints, [](fid_ep* each) { return !endpoint_of(each).held.empty(); });
}

int try_wait(fid_fabric* fabric, fid** objects, int count) {
  int returned = 0;
  bool silent = false;  // the provider would take what comes
  for (int i = 0; i < count; ++i) {
    const Queue* const queue = queue_of(objects[i]);
    if (queue != nullptr) expect_no_closing(*queue, "fi_trywait");
    if (queue != nullptr && holds_back(*queue)) returned = -FI_EAGAIN;
    silent = silent || (queue != nullptr && queue->domain->fault == FabricFault::Silent);
  }
  if (returned == 0 && !silent) returned = tables().fabric.load()->trywait(fabric, objects, count);
  for (int i = 0; i < count; ++i) {
    if (Queue* const queue = queue_of(objects[i])) queue->armed = returned == 0;
  }
  return returned;
}

int bind_endpoint(fid* object, fid* other, std::uint64_t flags) {
  auto* const endpoint = reinterpret_cast<fid_ep*>(object);
  if (Queue* const queue = queue_of(other)) {
    endpoint_of(endpoint).queue = queue;
    queue->endpoints.push_back(endpoint);
  }
  return endpoint_of(endpoint).object->bind(object, other, flags);
}

// Makes the writes of which the user thinks that they have failed.
void write_late(fid_ep* object, Endpoint& endpoint) {
  auto* const queue_object = reinterpret_cast<fid_cq*>(endpoint.queue->object);
  const auto end = Clock::now() + kLateWrites;
  while (!endpoint.late.empty() && Clock::now() < end) {
    if (submit(object, endpoint, endpoint.late.back())) endpoint.late.pop_back();
    std::array<fi_cq_data_entry, 32> ignored;
    static_cast<void>(endpoint.queue->real->read(queue_object, ignored.data(), ignored.size()));
  }
}

void sleep_as_said(const char* variable) {
  const char* const wait_ms = std::getenv(variable);
  if (wait_ms != nullptr) std::this_thread::sleep_for(std::chrono::milliseconds(std::atoi(wait_ms)));
}

// The address of an object may be another's as soon as it is closed, so its state leaves the table before. A thread
// may rest in between: it does as long as SHUFFLED_FABRIC_CLOSED_MS says.
template <typename Key, typename State>
int close_known(std::map<Key, std::unique_ptr<State>>& table, Key key, fid* object) {
  std::unique_lock lock(tables().mutex);
  auto known = table.extract(key);
  lock.unlock();
  const int returned = known.mapped()->object->close(object);
  sleep_as_said("SHUFFLED_FABRIC_CLOSED_MS");
  lock.lock();
  if (returned != 0) table.insert(std::move(known));
  return returned;
}

// Waits as long as SHUFFLED_FABRIC_CLOSE_MS says, as a provider may. Writes that are held are never submitted.
int close_endpoint(fid* object) {
  auto* const endpoint = reinterpret_cast<fid_ep*>(object);
  Endpoint& state = endpoint_of(endpoint);
  Queue* const queue = state.queue;
  if (queue != nullptr) ++queue->closing;
  if (state.domain->fault != FabricFault::Silent && queue != nullptr) write_late(endpoint, state);
  sleep_as_said("SHUFFLED_FABRIC_CLOSE_MS");
  const int returned = close_known(tables().endpoints, endpoint, object);
  if (queue != nullptr && returned == 0) std::erase(queue->endpoints, endpoint);
  if (queue != nullptr) --queue->closing;
  return returned;
}

int set_option(fid* object, int level, int option, const void* value, std::size_t bytes) {
  Endpoint& endpoint = endpoint_of(reinterpret_cast<fid_ep*>(object));
  const int returned = wreath::test::set_new_option(option, value, endpoint.forbids_cuda);
  if (endpoint.forbids_cuda) endpoint.domain->forbids_cuda = true;
  return returned == -FI_ENOPROTOOPT ? endpoint.options->setopt(object, level, option, value, bytes) : returned;
}

int open_endpoint(fid_domain* domain, fi_info* info, fid_ep** endpoint, void* context) {
  Domain& own = domain_of(domain);
  if (own.fails()) return -FI_EIO;
  const wreath::test::RealProperties real_properties(*info);
  const int returned = own.real->endpoint(domain, info, endpoint, context);
  if (returned != 0) return returned;
  auto state = std::make_unique<Endpoint>();
  state->rma = (*endpoint)->rma;
  state->options = (*endpoint)->ops;
  state->object = (*endpoint)->fid.ops;
  state->domain = &own;
  replace((*endpoint)->rma, [](fi_ops_rma& table) {
    table.writemsg = &hold_write;
    table.readmsg = &read_device;
  });
  replace((*endpoint)->ops, [](fi_ops_ep& table) { table.setopt = &set_option; });
  replace((*endpoint)->fid.ops, [](fi_ops& table) {
    table.bind = &bind_endpoint;
    table.close = &close_endpoint;
  });
  const std::lock_guard lock(tables().mutex);
  tables().endpoints[*endpoint] = std::move(state);
  return 0;
}

int open_queue(fid_domain* domain, fi_cq_attr* attributes, fid_cq** queue, void* context) {
  Domain& own = domain_of(domain);
  const int returned = own.real->cq_open(domain, attributes, queue, context);
  if (returned != 0) return returned;
  auto state = std::make_unique<Queue>();
  state->real = (*queue)->ops;
  state->object = &(*queue)->fid;
  state->domain = &own;
  state->silent = own.fault == FabricFault::Silent;
  replace((*queue)->ops, [](fi_ops_cq& table) {
    table.read = &read_shuffled;
    table.readerr = &read_failure;
    table.strerror = &explain;
  });
  const std::lock_guard lock(tables().mutex);
  state->random.seed(static_cast<std::uint32_t>(tables().queues.size()));
  tables().queues[&(*queue)->fid] = std::move(state);
  return 0;
}

int open_vector(fid_domain* domain, fi_av_attr* attributes, fid_av** vector, void* context) {
  return wreath::test::open_peers(*domain_of(domain).real, domain, attributes, vector, context);
}

int register_memory(fid* object, const fi_mr_attr* attributes, std::uint64_t flags, fid_mr** region) {
  const Domain& own = domain_of(reinterpret_cast<fid_domain*>(object));
  if (own.fault == FabricFault::Gone) return -FI_EIO;
  if (attributes->iface == FI_HMEM_SYSTEM) return own.memory->regattr(object, attributes, flags, region);
  if (!own.takes_devices || !own.forbids_cuda) return -FI_EINVAL;
  return wreath::test::register_device_memory(*own.memory, object, *attributes, flags, region);
}

int close_domain(fid* object) { return close_known(tables().domains, object, object); }

// Finds the rank of an adapter that is opened. The caller holds the lock.
int rank_of(std::thread::id thread) {
  int ranks = 0;
  for (const auto& [object, each] : tables().domains) {
    if (each->thread == thread) return each->rank;
    ranks = std::max(ranks, each->rank + 1);
  }
  return ranks;
}

int open_domain(fid_fabric* fabric, fi_info* info, fid_domain** domain, void* context) {
  auto state = std::make_unique<Domain>();
  constexpr std::string_view kStem = "fake_";
  const std::string_view name = info->domain_attr->name;
  if (name.starts_with(kStem)) state->adapter = std::atoi(name.substr(kStem.size()).data());
  state->takes_devices = (info->caps & FI_HMEM) != 0;
  const wreath::test::RealProperties real_properties(*info);
  const int returned = tables().fabric.load()->domain(fabric, info, domain, context);
  if (returned != 0) return returned;
  const std::lock_guard lock(tables().mutex);
  if ((*domain)->ops->endpoint == &open_endpoint) return 0;  // it is open already
  state->own = &(*domain)->fid;
  state->real = (*domain)->ops;
  state->object = (*domain)->fid.ops;
  state->memory = (*domain)->mr;
  state->thread = std::this_thread::get_id();
  state->rank = rank_of(state->thread);
  replace((*domain)->ops, [](fi_ops_domain& own) {
    own.endpoint = &open_endpoint;
    own.cq_open = &open_queue;
    own.av_open = &open_vector;
  });
  replace((*domain)->fid.ops, [](fi_ops& own) { own.close = &close_domain; });
  replace((*domain)->mr, [](fi_ops_mr& own) { own.regattr = &register_memory; });
  tables().domains[&(*domain)->fid] = std::move(state);
  return 0;
}

void spoil(int rank, int adapter, FabricFault fault) {
  const std::lock_guard lock(tables().mutex);
  for (const auto& [object, each] : tables().domains) {
    if (each->rank == rank && each->adapter == adapter) each->fault = fault;
  }
}

}  // namespace

extern "C" {

extern const wreath::test::ShuffledFabric shuffled_fabric;
const wreath::test::ShuffledFabric shuffled_fabric{&spoil,
                                                   &wreath::test::take_devices,
                                                   &wreath::test::flush_device_writes,
                                                   &wreath::test::behave_at_device_reads,
                                                   &wreath::test::count_device_reads,
                                                   &wreath::test::count_peers};

int fi_fabric(fi_fabric_attr* attributes, fid_fabric** fabric, void* context) {
  const int returned = wreath::test::real(&fi_fabric, "fi_fabric")(attributes, fabric, context);
  if (returned != 0) return returned;
  const std::lock_guard lock(tables().mutex);
  if ((*fabric)->ops->domain == &open_domain) return 0;
  tables().fabric = (*fabric)->ops;
  replace((*fabric)->ops, [](fi_ops_fabric& own) {
    own.domain = &open_domain;
    own.trywait = &try_wait;
  });
  return 0;
}

}  // extern "C"
