// How a driver that waits lets the other ranks of its core run.
//
// Ranks that yield to each other pass a core on in less than a microsecond. A program that does not yield keeps it for
// milliseconds; but who sleeps and is woken goes before it. So after a yield that took long the driver sleeps instead
// for a while, twice as long each time that it meets such a program again.
#pragma once

#include <cstdint>

#include "src/base/cpu.hpp"

namespace wreath {

class Yielding {
 public:
  // Yields of `long_ticks` of cycle_count() and more are long.
  explicit Yielding(std::uint64_t long_ticks = ~std::uint64_t{0}) : long_ticks_(long_ticks) {}
  // Those of a millisecond are, by the rate since `earlier`.
  static Yielding since(TickPair earlier);

  // Lets other threads run. False, and nothing done: sleep.
  bool yield();
  // Whether to yield, and what a yield has taken.
  bool may();
  void took(std::uint64_t ticks);

 private:
  std::uint64_t long_ticks_;
  std::uint32_t rest_ = 0;     // of the next long yield
  std::uint32_t refused_ = 0;  // yet to come
  std::uint32_t short_ = 0;    // yields since the last long one
};

}  // namespace wreath
