// Puts that report cost an event each. So only those do on which something depends.
#include "src/put/queue.hpp"

#include <algorithm>
#include <utility>

namespace wreath {
namespace {

// More puts than this are never useful.
constexpr std::uint32_t kMostOutstanding = 1024;

}  // namespace

PutQueue::PutQueue(PutPort& port, std::unique_ptr<Channel> channel)
    : port_(&port), channel_(std::move(channel)), owners_(std::min(port.limits().outstanding, kMostOutstanding)) {
  waiting_.reserve(owners_.size());
}

PutQueue::~PutQueue() {
  if (channel_ != nullptr) port_->remove(*channel_);
}

// An adapter without order says of each put alone when it has ended.
void PutQueue::add(const Put& put, const PutOwner& owner, bool awaited) {
  waiting_.push_back(put);
  Put& added = waiting_.back();
  added.number = next_;
  ++unreported_;
  added.reports = awaited || !port_->limits().ordered || unreported_ * 2 >= owners_.size();
  if (added.reports) unreported_ = 0;
  owner_of(next_++) = {owner, false};
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

bool PutQueue::carries_messages() const {
  for (std::uint64_t at = first_; at != next_; ++at) {
    const Owner& owner = owner_of(at);
    if (!owner.ended && owner.owner.kind == PutOwner::Kind::Message) return true;
  }
  return false;
}

void PutQueue::clear() {
  waiting_.clear();
  first_ = next_;
  unreported_ = 0;
}

}  // namespace wreath
