// Keeps the watchers that get a call before memory is released.
#include "src/base/release_watcher.hpp"

#include <algorithm>
#include <mutex>
#include <vector>

#include "src/base/fd.hpp"

namespace wreath {
namespace {

struct Entry {
  ReleaseWatcher* watcher;
  std::uint32_t generation;  // of the process that made it
};

struct Watchers {
  std::mutex mutex;
  std::vector<Entry> all;
};

// Returns an object that stays reachable until the process ends, because late objects still free memory.
Watchers& watchers() {
  static Watchers* const instance = new Watchers;  // NOLINT(cppcoreguidelines-*): never deleted
  return *instance;
}

}  // namespace

void add_release_watcher(ReleaseWatcher& watcher) {
  const std::lock_guard lock(watchers().mutex);
  watchers().all.push_back({&watcher, fork_generation()});
}

void remove_release_watcher(ReleaseWatcher& watcher) {
  const std::lock_guard lock(watchers().mutex);
  std::erase_if(watchers().all, [&](const Entry& entry) { return entry.watcher == &watcher; });
}

void tell_release(const std::byte* begin) {
  const std::lock_guard lock(watchers().mutex);
  for (const Entry& entry : watchers().all) {
    if (entry.generation == fork_generation()) entry.watcher->before_release(begin);
  }
}

}  // namespace wreath
