// Each listener has one entry, for the work that it added last.
#include "src/device/stream_failures.hpp"

#include <algorithm>
#include <utility>

namespace wreath {

void StreamFailures::expect(const std::shared_ptr<StreamFailureListener>& listener, std::shared_ptr<Event> passed) {
  const std::lock_guard lock(mutex_);
  const auto same = std::find_if(each_.begin(), each_.end(), [&](const Expecting& other) {
    return !other.listener.owner_before(listener) && !listener.owner_before(other.listener);
  });
  if (same != each_.end()) {
    same->passed = std::move(passed);
    return;
  }
  std::erase_if(each_, [](const Expecting& other) { return other.listener.expired(); });
  each_.push_back({listener, std::move(passed)});
}

void StreamFailures::tell(const Error& error) {
  std::vector<Expecting> told;
  {
    const std::lock_guard lock(mutex_);
    told = each_;
  }
  for (const Expecting& each : told) {
    const auto listener = each.listener.lock();
    const bool over = each.passed != nullptr && each.passed->done();
    if (listener != nullptr && !over) listener->stream_failed(error);
  }
}

}  // namespace wreath
