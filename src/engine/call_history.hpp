// CallHistory keeps the calls of all ranks that a rank has made, as a chain of hashes. Ranks with equal hashes after
// equally many calls have, but for chance, made the same calls. Messages carry the hash in their signatures. So the
// first message after a call shows the difference even of a rank that only wrote in that call.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "src/base/hash.hpp"
#include "src/engine/call_shape.hpp"
#include "wreath/recording.hpp"

namespace wreath {

class CallHistory {
 public:
  explicit CallHistory(std::uint64_t communicator) : last_(mix(communicator, 1)) {}

  // Adds a call and returns its number. signature() is then the call's signature. One thread at a time may call this.
  std::uint64_t add(const Call& call, std::uint64_t elements) { return add_hash(mix_call(last_, call, elements)); }
  // Adds a call without counts of each rank.
  std::uint64_t add(const CallWords& words) { return add_hash(mix(last_, words.hash)); }
  // The signature covers the last call and all before it.
  std::uint32_t signature() const { return static_cast<std::uint32_t>(last_ >> 32); }

  // Any thread may call the functions below.
  std::uint64_t calls() const { return calls_.load(std::memory_order_acquire); }
  // Returns the hash after so many calls, or nothing where they have not been made or are too long ago.
  std::optional<std::uint64_t> after(std::uint64_t calls) const {
    if (calls == 0 || calls > this->calls()) return std::nullopt;
    const std::uint64_t hash = hashes_[calls % hashes_.size()].load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    const bool written_over = this->calls() - calls + 1 >= hashes_.size();
    return written_over ? std::nullopt : std::optional(hash);
  }

 private:
  std::uint64_t add_hash(std::uint64_t hash) {
    last_ = hash;
    const std::uint64_t number = calls_.load(std::memory_order_relaxed) + 1;
    hashes_[number % hashes_.size()].store(last_, std::memory_order_relaxed);
    calls_.store(number, std::memory_order_release);
    return number;
  }

  std::uint64_t last_;
  std::atomic<std::uint64_t> calls_{0};
  std::array<std::atomic<std::uint64_t>, kRecordedCalls> hashes_{};
};

}  // namespace wreath
