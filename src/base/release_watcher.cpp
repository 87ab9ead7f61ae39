// Keeps the watchers that get a call before memory is released.
#include "src/base/release_watcher.hpp"

#include <algorithm>
#include <mutex>
#include <vector>

namespace wreath {
namespace {

struct Watchers {
  std::mutex mutex;
  std::vector<ReleaseWatcher*> all;
};

// Returns an object that stays reachable until the process ends, because late objects still free memory.
Watchers& watchers() {
  static Watchers* const instance = new Watchers;  // NOLINT(cppcoreguidelines-*): never deleted
  return *instance;
}

}  // namespace

void add_release_watcher(ReleaseWatcher& watcher) {
  const std::lock_guard lock(watchers().mutex);
  watchers().all.push_back(&watcher);
}

void remove_release_watcher(ReleaseWatcher& watcher) {
  const std::lock_guard lock(watchers().mutex);
  std::erase(watchers().all, &watcher);
}

void tell_release(const std::byte* begin) {
  const std::lock_guard lock(watchers().mutex);
  for (ReleaseWatcher* const watcher : watchers().all) watcher->before_release(begin);
}

}  // namespace wreath
