// Decides how long a thread of a block waits for others.
#pragma once

#include <cstdint>

#include "src/base/memory_order.hpp"
#include "wreath/fifo.hpp"

namespace wreath {

// The limits of a wait. A word that lies on the host may be far, so it is read only at every kLooks-th look. The time
// of a stall counts from the first of these.
struct WaitLimits {
  // The thread gives up where this is not zero.
  const std::uint32_t* stop;
  // The thread gives up after so many nanoseconds without anything moving. 0 means never.
  std::uint64_t stall_ns;
  // The thread gives up after so many looks. 0 means any number.
  std::uint32_t look_limit;
  // The counter of each block says what it has done so far, for the host and the others. Null means no counters.
  Counter* moved = nullptr;
  std::uint32_t blocks = 0;  // of `moved`
};

template <typename Block>
class Patience {
 public:
  WREATH_HOST_DEVICE Patience(Block& block, const WaitLimits& limits) : block_(block), limits_(limits) {}
  WREATH_HOST_DEVICE void moved() {
    waits_ = 0;
    if (limits_.moved != nullptr) store_relaxed(limits_.moved[block_.block()].value, ++own_);
  }
  // Waits a little after a look that found nothing. Returns false to give up.
  WREATH_HOST_DEVICE bool wait() {
    if (++waits_ == limits_.look_limit) return false;
    if (waits_ % kLooks == 0 && !goes_on()) return false;
    block_.pause();
    return true;
  }

 private:
  static constexpr std::uint32_t kLooks = 64;

  WREATH_HOST_DEVICE bool goes_on() {
    if (load_relaxed(*limits_.stop) != 0) return false;
    if (limits_.stall_ns == 0) return true;
    const std::uint64_t now = block_.clock_ns();
    if (waits_ == kLooks) begin(now);
    return now - since_ns_ <= limits_.stall_ns || others_moved(now);
  }
  WREATH_HOST_DEVICE void begin(std::uint64_t now) {
    since_ns_ = now;
    seen_ = all_moved();
  }
  WREATH_HOST_DEVICE bool others_moved(std::uint64_t now) {
    const std::uint32_t before = seen_;
    begin(now);
    return seen_ != before;
  }
  WREATH_HOST_DEVICE std::uint32_t all_moved() const {
    std::uint32_t all = 0;
    for (std::uint32_t i = 0; i < limits_.blocks; ++i) all += load_relaxed(limits_.moved[i].value);
    return all;
  }

  Block& block_;
  WaitLimits limits_;
  std::uint32_t own_ = 0;
  std::uint32_t seen_ = 0;  // all_moved() at since_ns_
  std::uint64_t waits_ = 0;
  std::uint64_t since_ns_ = 0;
};

}  // namespace wreath
