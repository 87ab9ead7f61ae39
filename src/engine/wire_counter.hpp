// WireCounter counts the bytes that a communicator's calls moved, by collective.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "wreath/communicator.hpp"

namespace wreath {

// The driver alone writes it, once per operation. Any thread reads it.
class WireCounter {
 public:
  void add(Collective collective, const WireBytes& bytes) noexcept {
    Counts& counts = counts_[static_cast<std::size_t>(collective)];
    add(counts.sent, bytes.sent);
    add(counts.loaded, bytes.loaded);
  }
  WireBytes of(Collective collective) const noexcept {
    const Counts& counts = counts_[static_cast<std::size_t>(collective)];
    return {counts.sent.load(std::memory_order_relaxed), counts.loaded.load(std::memory_order_relaxed)};
  }

 private:
  struct Counts {
    std::atomic<std::uint64_t> sent{0};
    std::atomic<std::uint64_t> loaded{0};
  };

  // Adds without a locked instruction, since there is one writer.
  static void add(std::atomic<std::uint64_t>& count, std::uint64_t bytes) noexcept {
    count.store(count.load(std::memory_order_relaxed) + bytes, std::memory_order_relaxed);
  }

  std::array<Counts, static_cast<std::size_t>(Collective::Exchange) + 1> counts_;
};

}  // namespace wreath
