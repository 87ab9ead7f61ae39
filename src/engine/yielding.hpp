// Yielding decides how a driver that waits lets the other ranks of its core run.
//
// Ranks that yield to each other hand over a core in less than a microsecond. A program that does not yield keeps the
// core for milliseconds. A thread that sleeps and is woken runs before such a program. So after a long yield the driver
// sleeps instead for a while. Each further meeting with such a program doubles this time. Ranks with work keep the core
// for long, too. A sleeper would be woken for each message of theirs where one that yields finds several at its turn.
#pragma once

#include <cstdint>
#include <utility>

#include "src/base/cpu.hpp"
#include "src/engine/turns.hpp"

namespace wreath {

class Yielding {
 public:
  // Yields of at least `long_ticks` of cycle_count() count as long, but where `turns` says that ranks fill the core.
  explicit Yielding(std::uint64_t long_ticks = ~std::uint64_t{0}, Turns turns = {})
      : long_ticks_(long_ticks), turns_(std::move(turns)) {}
  // Returns a Yielding for which a millisecond is so long, by the rate of ticks since `earlier`.
  static Yielding since(TickPair earlier, Turns turns);

  // Lets other threads run. Returns false, and does nothing, where the caller should sleep.
  bool yield();
  // Says whether to yield. Each false answer uses up one refusal.
  bool may();
  // Notes how long a yield took, which is over now.
  void took(std::uint64_t ticks);
  // The caller says when it sleeps, and when it has slept.
  void sleep() { turns_.end(cycle_count()); }
  void wake() { turns_.wake(cycle_count()); }

 private:
  std::uint64_t long_ticks_;
  Turns turns_;
  // The number of refusals after the next long yield.
  std::uint32_t rest_ = 0;
  std::uint32_t refused_ = 0;  // refusals yet to come
  std::uint32_t short_ = 0;    // short yields in a row
};

}  // namespace wreath
