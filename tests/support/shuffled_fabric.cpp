// A libfabric.so.1 that hands everything to the real one, and changes the order: writes are submitted late and in any
// order, completions are given so, too, and now and then a write is refused (-FI_EAGAIN). Failures stay as they are.
//
// One thread at a time uses an endpoint and its queue: a program that uses the queue of an endpoint which is being
// closed is ended. The tables of all of them are behind a lock.
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
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

namespace {

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
  fi_ops* object = nullptr;
  Queue* queue = nullptr;
  std::vector<HeldWrite> held;
};

struct Queue {
  fi_ops_cq* real = nullptr;
  std::mt19937 random;
  std::vector<fid_ep*> endpoints;
  std::vector<fi_cq_data_entry> waiting;
  std::atomic<int> closing = 0;  // so many of the endpoints are being closed
  bool armed = false;            // its user sleeps if the next read gives nothing, so nothing is held back
  bool one_in(std::uint32_t n) { return random() % n == 0; }
};

struct Tables {
  std::mutex mutex;
  std::map<fid_ep*, std::unique_ptr<Endpoint>> endpoints;
  std::map<fid*, std::unique_ptr<Queue>> queues;
  fi_ops_fabric* fabric = nullptr;
  fi_ops_domain* domain = nullptr;
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

// A provider reads its endpoints when their queue is used.
void expect_no_closing(const Queue& queue, const char* function) {
  if (queue.closing == 0) return;
  std::fprintf(stderr, "%s: an endpoint of this queue is being closed\n", function);
  std::abort();
}

ssize_t hold_write(fid_ep* object, const fi_msg_rma* message, std::uint64_t flags) {
  constexpr std::size_t kMostHeld = 64;
  Endpoint& endpoint = endpoint_of(object);
  if (endpoint.queue->armed) return endpoint.rma->writemsg(object, message, flags);
  if (endpoint.held.size() >= kMostHeld || endpoint.queue->one_in(16)) return -FI_EAGAIN;
  endpoint.held.push_back({message->msg_iov[0], message->desc[0], message->rma_iov[0], *message, flags});
  return 0;
}

void submit_some(Queue& queue) {
  for (fid_ep* const object : queue.endpoints) {
    Endpoint& endpoint = endpoint_of(object);
    std::ranges::shuffle(endpoint.held, queue.random);
    std::erase_if(endpoint.held, [&](HeldWrite& write) {
      if (queue.one_in(4)) return false;
      write.message.msg_iov = &write.piece;
      write.message.desc = &write.description;
      write.message.rma_iov = &write.target;
      return endpoint.rma->writemsg(object, &write.message, write.flags) == 0;
    });
  }
}

ssize_t read_shuffled(fid_cq* object, void* buffer, std::size_t count) {
  Queue& queue = *queue_of(&object->fid);
  expect_no_closing(queue, "fi_cq_read");
  submit_some(queue);
  std::array<fi_cq_data_entry, 32> entries;
  const ssize_t read = queue.real->read(object, entries.data(), entries.size());
  if (read < 0 && read != -FI_EAGAIN) return read;
  queue.waiting.insert(queue.waiting.end(), entries.begin(), entries.begin() + std::max<ssize_t>(read, 0));
  std::ranges::shuffle(queue.waiting, queue.random);
  std::size_t given = std::min(count, queue.waiting.size());
  if (!queue.armed) given = queue.one_in(4) ? 0 : std::min<std::size_t>(given, 1 + queue.random() % 8);
  if (given == 0) return -FI_EAGAIN;
  queue.armed = false;
  std::copy(queue.waiting.end() - static_cast<long>(given), queue.waiting.end(),
            static_cast<fi_cq_data_entry*>(buffer));
  queue.waiting.resize(queue.waiting.size() - given);
  return static_cast<ssize_t>(given);
}

bool holds_back(const Queue& queue) {
  return !queue.waiting.empty() ||
         std::ranges::any_of(queue.endpoints, [](fid_ep* each) { return !endpoint_of(each).held.empty(); });
}

int try_wait(fid_fabric* fabric, fid** objects, int count) {
  int returned = 0;
  for (int i = 0; i < count; ++i) {
    const Queue* const queue = queue_of(objects[i]);
    if (queue != nullptr) expect_no_closing(*queue, "fi_trywait");
    if (queue != nullptr && holds_back(*queue)) returned = -FI_EAGAIN;
  }
  if (returned == 0) returned = tables().fabric->trywait(fabric, objects, count);
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

// Waits as long as SHUFFLED_FABRIC_CLOSE_MS says, as a provider may. Writes that are held are never submitted.
int close_endpoint(fid* object) {
  auto* const endpoint = reinterpret_cast<fid_ep*>(object);
  Endpoint& state = endpoint_of(endpoint);
  if (state.queue != nullptr) ++state.queue->closing;
  const char* const wait_ms = std::getenv("SHUFFLED_FABRIC_CLOSE_MS");
  if (wait_ms != nullptr) std::this_thread::sleep_for(std::chrono::milliseconds(std::atoi(wait_ms)));
  const int returned = state.object->close(object);
  if (state.queue != nullptr) --state.queue->closing;
  if (returned != 0) return returned;
  if (state.queue != nullptr) std::erase(state.queue->endpoints, endpoint);
  const std::lock_guard lock(tables().mutex);
  tables().endpoints.erase(endpoint);
  return 0;
}

// Gives an object a table of its own, with some functions changed.
template <typename Operations, typename Change>
void replace(Operations*& table, Change change) {
  auto* const own = new Operations(*table);  // NOLINT(cppcoreguidelines-owning-memory): stays as long as the process
  change(*own);
  table = own;
}

int open_endpoint(fid_domain* domain, fi_info* info, fid_ep** endpoint, void* context) {
  const int returned = tables().domain->endpoint(domain, info, endpoint, context);
  if (returned != 0) return returned;
  auto state = std::make_unique<Endpoint>();
  state->rma = (*endpoint)->rma;
  state->object = (*endpoint)->fid.ops;
  replace((*endpoint)->rma, [](fi_ops_rma& own) { own.writemsg = &hold_write; });
  replace((*endpoint)->fid.ops, [](fi_ops& own) {
    own.bind = &bind_endpoint;
    own.close = &close_endpoint;
  });
  const std::lock_guard lock(tables().mutex);
  tables().endpoints[*endpoint] = std::move(state);
  return 0;
}

int open_queue(fid_domain* domain, fi_cq_attr* attributes, fid_cq** queue, void* context) {
  const int returned = tables().domain->cq_open(domain, attributes, queue, context);
  if (returned != 0) return returned;
  auto state = std::make_unique<Queue>();
  state->real = (*queue)->ops;
  replace((*queue)->ops, [](fi_ops_cq& own) { own.read = &read_shuffled; });
  const std::lock_guard lock(tables().mutex);
  state->random.seed(static_cast<std::uint32_t>(tables().queues.size()));
  tables().queues[&(*queue)->fid] = std::move(state);
  return 0;
}

int open_domain(fid_fabric* fabric, fi_info* info, fid_domain** domain, void* context) {
  const int returned = tables().fabric->domain(fabric, info, domain, context);
  if (returned != 0) return returned;
  const std::lock_guard lock(tables().mutex);
  if ((*domain)->ops->endpoint == &open_endpoint) return 0;  // it is open already
  tables().domain = (*domain)->ops;
  replace((*domain)->ops, [](fi_ops_domain& own) {
    own.endpoint = &open_endpoint;
    own.cq_open = &open_queue;
  });
  return 0;
}

template <typename Function>
Function* real(Function* /*own*/, const char* name) {
  static void* const library = ::dlopen(WREATH_REAL_LIBFABRIC, RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

}  // namespace

extern "C" {

std::uint32_t fi_version() { return real(&fi_version, "fi_version")(); }

int fi_getinfo(std::uint32_t version, const char* node, const char* service, std::uint64_t flags, const fi_info* hints,
               fi_info** info) {
  return real(&fi_getinfo, "fi_getinfo")(version, node, service, flags, hints, info);
}

void fi_freeinfo(fi_info* info) { real(&fi_freeinfo, "fi_freeinfo")(info); }

fi_info* fi_dupinfo(const fi_info* info) { return real(&fi_dupinfo, "fi_dupinfo")(info); }

const char* fi_strerror(int error) { return real(&fi_strerror, "fi_strerror")(error); }

int fi_fabric(fi_fabric_attr* attributes, fid_fabric** fabric, void* context) {
  const int returned = real(&fi_fabric, "fi_fabric")(attributes, fabric, context);
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
