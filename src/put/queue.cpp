// Puts that report cost an event each. So only those do on which something depends.
#include "src/put/queue.hpp"

#include <algorithm>
#include <utility>

#include "src/base/clock.hpp"

namespace wreath {
namespace {

// More puts than this are never useful.
constexpr std::uint32_t kMostOutstanding = 1024;

}  // namespace

PutQueue::PutQueue(PutPort& port, std::size_t rail, std::unique_ptr<Channel> channel)
    : port_(&port),
      rail_(rail),
      ordered_(port.adapter(rail).limits().ordered),
      silent_ms_(port.adapter(rail).limits().silent_ms),
      channel_(std::move(channel)),
      owners_(std::min(port.limits().outstanding, kMostOutstanding)) {
  waiting_.reserve(owners_.size());
}

PutQueue::~PutQueue() {
  if (channel_ != nullptr) port_->remove(rail_, *channel_);
}

// An adapter without order says of each put alone when it has ended.
void PutQueue::add(const Put& put, const PutOwner& owner, bool awaited) {
  waiting_.push_back(put);
  Put& added = waiting_.back();
  added.number = next_;
  ++unreported_;
  added.reports = awaited || !ordered_ || unreported_ * 2 >= owners_.size();
  if (added.reports) unreported_ = 0;
  owner_of(next_++) = {owner, put.bytes, false};
  if (port_->rails() > 1) port_->shares().on_added(rail_, put.bytes, now_ns());
}

void PutQueue::count_ended(Owner& put) {
  put.ended = true;
  ++ended_;
  if (port_->rails() == 1) return;
  ended_ns_ = now_ns();
  port_->shares().on_ended(rail_, put.bytes, ended_ns_);
}

// The last put reports. So all puts are known to have ended in the end, and an adapter that is full says when it no
// longer is.
Result<std::size_t> PutQueue::flush() {
  if (waiting_.empty()) return std::size_t{0};
  waiting_.back().reports = true;
  unreported_ = 0;
  const auto taken = channel_->put(waiting_);
  if (!taken) return taken.error();
  PutCounts& counts = port_->counts();
  ++counts.doorbells;
  counts.puts += *taken;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < *taken; ++i) bytes += waiting_[i].bytes;
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(*taken));
  return bytes;
}

bool PutQueue::messages_taken() const {
  return std::ranges::none_of(
      waiting_, [&](const Put& put) { return owner_of(put.number).owner.kind == PutOwner::Kind::Message; });
}

bool PutQueue::is_silent(std::int64_t now_ns) {
  if (idle() || ended_ != ended_then_ || asked_ns_ == 0) {
    ended_then_ = ended_;
    asked_ns_ = idle() ? 0 : now_ns;
    was_silent_ = false;
    return false;
  }
  return silent_ms_ > 0 && now_ns > silent_from_ns();
}

bool PutQueue::confirm_silence(std::int64_t now_ns) {
  if (std::exchange(was_silent_, true)) return true;
  asked_ns_ = now_ns;
  return false;
}

bool PutQueue::carries_messages() const {
  for (std::uint64_t at = first_; at != next_; ++at) {
    const Owner& owner = owner_of(at);
    if (!owner.ended && owner.owner.kind == PutOwner::Kind::Message) return true;
  }
  return false;
}

void PutQueue::clear() {
  waiting_.clear();
  for (std::uint64_t at = first_; at != next_ && port_->rails() > 1; ++at) {
    if (!owner_of(at).ended) port_->shares().on_dropped(rail_, owner_of(at).bytes);
  }
  first_ = next_;
  unreported_ = 0;
  asked_ns_ = 0;
}

void PutQueues::give_up() {
  for (PutQueue& queue : all_) queue.channel().give_up();
}

void PutQueues::keep(std::size_t rails) {
  use(0);
  while (count_rails() > rails) all_.pop_back();
  use(~0U);
}

void PutQueues::use(std::uint32_t rails) {
  rails_ = 0;
  used_.clear();
  for (PutQueue& queue : all_) {
    const std::uint32_t bit = 1U << queue.rail();
    if ((rails & bit) == 0) continue;
    rails_ |= bit;
    used_.push_back(&queue);
  }
}

PutQueue& PutQueues::of_rail(std::size_t rail, std::size_t turn) const {
  const auto first = std::ranges::find_if(used_, [&](const PutQueue* queue) { return queue->rail() == rail; });
  const auto end = std::find_if(first, used_.end(), [&](const PutQueue* queue) { return queue->rail() != rail; });
  return *first[static_cast<std::ptrdiff_t>(turn % static_cast<std::size_t>(end - first))];
}

}  // namespace wreath
