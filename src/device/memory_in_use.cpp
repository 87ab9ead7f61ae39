// Keeps the turns of all living MemoryInUse objects in order.
#include "src/device/memory_in_use.hpp"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>

namespace wreath {
namespace {

struct Users {
  std::mutex mutex;
  std::condition_variable gone;
  std::set<std::uint64_t> turns;
  std::uint64_t next = 0;
};

// Returns an object that stays reachable until the process ends, because destructors of late objects still use it.
Users& users() {
  static Users* const instance = new Users;  // NOLINT(cppcoreguidelines-*): never deleted
  return *instance;
}

}  // namespace

MemoryInUse::MemoryInUse() {
  const std::lock_guard lock(users().mutex);
  turn_ = users().next++;
  users().turns.insert(turn_);
}

MemoryInUse::~MemoryInUse() {
  {
    const std::lock_guard lock(users().mutex);
    users().turns.erase(turn_);
  }
  users().gone.notify_all();
}

void await_memory_in_use(std::int64_t timeout_ms) {
  std::unique_lock lock(users().mutex);
  const std::uint64_t now = users().next;
  const auto none = [&] { return users().turns.empty() || *users().turns.begin() >= now; };
  if (timeout_ms < 0) return users().gone.wait(lock, none);
  static_cast<void>(users().gone.wait_for(lock, std::chrono::milliseconds(timeout_ms), none));
}

}  // namespace wreath
