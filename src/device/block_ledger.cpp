// The ledger serves its callers in the order in which they came.
#include "src/device/block_ledger.hpp"

#include <algorithm>
#include <map>

namespace wreath {

BlockLedger& BlockLedger::of(const Device& device) {
  struct Ledgers {
    std::mutex mutex;
    std::map<const Device*, BlockLedger> of;
  };
  static auto* const all = new Ledgers;  // NOLINT(cppcoreguidelines-*): devices live as long as the process
  const std::lock_guard lock(all->mutex);
  return all->of[&device];
}

int BlockLedger::take(const Ring& who, int wanted, int capacity) {
  const std::lock_guard lock(mutex_);
  const int shared = capacity - reserved_;
  const int blocks = std::min(wanted, shared);
  const bool first = line_.empty() || line_.front() == &who;
  if (first && blocks <= shared - taken_) {
    if (!line_.empty()) line_.pop_front();
    taken_ += blocks;
    if (!line_.empty() && taken_ < shared) (*line_.front())();
    return blocks;
  }
  if (std::find(line_.begin(), line_.end(), &who) == line_.end()) line_.push_back(&who);
  return 0;
}

void BlockLedger::give_back(int blocks) {
  const std::lock_guard lock(mutex_);
  taken_ -= blocks;
  if (!line_.empty()) (*line_.front())();
}

bool BlockLedger::reserve(int blocks, int capacity) {
  const std::lock_guard lock(mutex_);
  if (blocks > capacity / 2 - reserved_) return false;
  reserved_ += blocks;
  return true;
}

void BlockLedger::yield(int blocks) {
  const std::lock_guard lock(mutex_);
  reserved_ -= blocks;
  if (!line_.empty()) (*line_.front())();
}

void BlockLedger::leave(const Ring& who) {
  const std::lock_guard lock(mutex_);
  std::erase(line_, &who);
  if (!line_.empty()) (*line_.front())();
}

bool BlockLedger::crowded() const {
  const std::lock_guard lock(mutex_);
  return !line_.empty();
}

}  // namespace wreath
