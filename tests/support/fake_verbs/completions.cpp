// Implements completion queues, their channels and shared receive queues of the fake libibverbs.so.1.
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "tests/support/fake_verbs/network.hpp"

namespace wreath::test {

void publish(CompletionQueue& queue, const CompletionQueue::Entry& entry, bool solicited) {
  if (queue.overrun) return;
  if (queue.entries.size() >= static_cast<std::size_t>(queue.cqe)) {
    queue.overrun = true;
    ibv_async_event event{};
    event.element.cq = &queue;
    event.event_type = IBV_EVENT_CQ_ERR;
    return raise(*static_cast<Context*>(verbs_get_ctx(queue.context)), event);
  }
  queue.entries.push_back(entry);
  queue.waiting.store(queue.entries.size(), std::memory_order_relaxed);
  if (!queue.armed || (queue.only_solicited && !solicited && entry.completion.status == IBV_WC_SUCCESS)) return;
  queue.armed = false;
  auto& channel = *static_cast<CompletionChannel*>(queue.channel);
  channel.events.waiting.push_back(&queue);
  ::eventfd_write(channel.events.descriptor, 1);
}

void forget(CompletionQueue& queue, QueuePair& pair) {
  const auto is_its = [&](const CompletionQueue::Entry& entry) { return entry.completion.qp_num == pair.qp_num; };
  for (CompletionQueue::Entry& entry : queue.entries) {
    if (!is_its(entry)) continue;
    if (entry.receiver != nullptr) --entry.receiver->used;
    entry.receiver = nullptr;
    entry.sender = nullptr;
  }
  if (network().below(2) == 0) std::erase_if(queue.entries, is_its);
  queue.waiting.store(queue.entries.size(), std::memory_order_relaxed);
}

// Returns up to `most` entries. A poll that finds nothing takes no lock, so that it orders nothing in memory.
int poll_queue(ibv_cq* of, int most, ibv_wc* completions) {
  auto& queue = *static_cast<CompletionQueue*>(of);
  if (queue.waiting.load(std::memory_order_relaxed) == 0) return 0;
  const Hold hold;
  if (asked_for("ibv_poll_cq") != 0) return -1;
  int polled = 0;
  for (; polled < most && !queue.entries.empty(); ++polled) {
    const CompletionQueue::Entry& entry = queue.entries.front();
    completions[polled] = entry.completion;
    if (entry.sender != nullptr) entry.sender->used -= entry.places;
    if (entry.receiver != nullptr) --entry.receiver->used;
    queue.entries.pop_front();
  }
  queue.waiting.store(queue.entries.size(), std::memory_order_relaxed);
  network().counters.completions += static_cast<std::uint64_t>(polled);
  return polled;
}

// Entries that are there already cause no event.
int arm_queue(ibv_cq* of, int only_solicited) {
  const Hold hold;
  auto& queue = *static_cast<CompletionQueue*>(of);
  if (const int error = asked_for("ibv_req_notify_cq"); error != 0) return error;
  if (queue.channel == nullptr) return EINVAL;
  queue.only_solicited = only_solicited != 0 && (!queue.armed || queue.only_solicited);
  queue.armed = true;
  return 0;
}

int post_shared_receives(ibv_srq* of, ibv_recv_wr* requests, ibv_recv_wr** bad) {
  const Hold hold;
  ReceiveQueue& queue = static_cast<SharedReceives*>(of)->queue;
  for (; requests != nullptr; requests = requests->next) {
    *bad = requests;
    if (const int error = asked_for("ibv_post_srq_recv"); error != 0) return error;
    if (queue.used >= queue.places) return ENOMEM;
    queue.posted.push_back(requests->wr_id);
    ++queue.used;
    ++network().counters.receives;
  }
  return 0;
}

void await_acknowledgements(Hold& hold, const unsigned& unacknowledged, const char* call) {
  const auto late = Clock::now() + std::chrono::seconds(10);
  while (unacknowledged > 0) {
    if (Clock::now() > late) {
      std::fprintf(stderr, "fake verbs: %s waits for events that nobody acknowledges\n", call);
      std::abort();
    }
    network().changed.wait_for(hold.lock(), std::chrono::milliseconds(1));
  }
}

}  // namespace wreath::test

using namespace wreath::test;

extern "C" {

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  const Hold hold;
  if (asked_for("ibv_create_comp_channel") != 0) return nullptr;
  auto* const made = new CompletionChannel();
  made->context = context;
  made->fd = made->events.descriptor = ::eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
  ++network().counters.alive;
  return made;
}
int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  const Hold hold;
  if (channel->refcnt != 0) return EBUSY;
  ::close(channel->fd);
  delete static_cast<CompletionChannel*>(channel);
  --network().counters.alive;
  return 0;
}

ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* its, ibv_comp_channel* channel, int vector) {
  const Hold hold;
  if (asked_for("ibv_create_cq") != 0) return nullptr;
  if (entries < 1 || entries > network().made.max_entries || vector != 0) return errno = EINVAL, nullptr;
  auto* const made = new CompletionQueue();
  made->context = context;
  made->channel = channel;
  made->cq_context = its;
  made->cqe = entries;
  if (channel != nullptr) ++channel->refcnt;
  ++network().counters.alive;
  return made;
}
int ibv_destroy_cq(ibv_cq* of) {
  Hold hold;
  auto* const queue = static_cast<CompletionQueue*>(of);
  if (queue->users != 0) return EBUSY;
  await_acknowledgements(hold, queue->unacknowledged, "ibv_destroy_cq");
  if (auto* const channel = static_cast<CompletionChannel*>(queue->channel); channel != nullptr) {
    --channel->refcnt;
    eventfd_t one = 0;
    for (std::size_t left = std::erase(channel->events.waiting, queue); left > 0; --left) {
      ::eventfd_read(channel->events.descriptor, &one);
    }
  }
  auto& events = static_cast<Context*>(verbs_get_ctx(queue->context))->events;
  std::erase_if(events.waiting, [&](const ibv_async_event& event) {
    eventfd_t one = 0;
    return event.event_type == IBV_EVENT_CQ_ERR && event.element.cq == queue &&
           ::eventfd_read(events.descriptor, &one) == 0;
  });
  --network().counters.alive;
  delete queue;
  return 0;
}

int ibv_get_cq_event(ibv_comp_channel* of, ibv_cq** queue, void** its) {
  auto& channel = *static_cast<CompletionChannel*>(of);
  eventfd_t one = 0;
  if (::eventfd_read(of->fd, &one) != 0) return -1;
  const Hold hold;
  if (channel.events.waiting.empty()) return errno = EAGAIN, -1;  // its queue was destroyed meanwhile
  CompletionQueue* const found = channel.events.waiting.front();
  channel.events.waiting.pop_front();
  ++found->unacknowledged;
  ++network().counters.events;
  *queue = found;
  *its = found->cq_context;
  return 0;
}
void ibv_ack_cq_events(ibv_cq* queue, unsigned events) {
  const Hold hold;
  static_cast<CompletionQueue*>(queue)->unacknowledged -= events;
}

ibv_srq* ibv_create_srq(ibv_pd* domain, ibv_srq_init_attr* attributes) {
  const Hold hold;
  if (asked_for("ibv_create_srq") != 0) return nullptr;
  const FakeNetwork& made = network().made;
  const ibv_srq_attr& asked = attributes->attr;
  if (asked.max_wr == 0 || asked.max_wr > static_cast<std::uint32_t>(made.max_requests) ||
      asked.max_sge > static_cast<std::uint32_t>(made.max_pieces)) {
    return errno = EINVAL, nullptr;
  }
  auto* const queue = new SharedReceives();
  queue->context = domain->context;
  queue->pd = domain;
  queue->srq_context = attributes->srq_context;
  queue->queue.places = static_cast<int>(asked.max_wr);
  ++static_cast<Domain*>(domain)->users;
  ++network().counters.alive;
  return queue;
}
int ibv_query_srq(ibv_srq* of, ibv_srq_attr* attributes) {
  const Hold hold;
  *attributes = {};
  attributes->max_wr = static_cast<std::uint32_t>(static_cast<SharedReceives*>(of)->queue.places);
  return 0;
}
int ibv_destroy_srq(ibv_srq* of) {
  const Hold hold;
  auto* const queue = static_cast<SharedReceives*>(of);
  if (queue->users != 0) return EBUSY;
  --static_cast<Domain*>(queue->pd)->users;
  --network().counters.alive;
  delete queue;
  return 0;
}

}  // extern "C"
