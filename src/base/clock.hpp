// Measures monotonic time.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>

namespace wreath {

// A wait that is longer than these 31 years lasts for ever: sums of such times fit 64 bits of nanoseconds.
inline constexpr std::int64_t kLongestMs = 1'000'000'000'000;

inline constexpr std::int64_t kNsPerMs = 1'000'000;

inline std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Holds a point in time, or "never" for a duration that is negative or above kLongestMs.
class Deadline {
 public:
  static Deadline after_ms(std::int64_t ms) {
    return Deadline(ms < 0 || ms > kLongestMs ? -1 : now_ns() + ms * 1'000'000);
  }
  bool passed() const { return at_ns_ >= 0 && now_ns() >= at_ns_; }
  // Returns the milliseconds left for poll(): -1 for never, 0 when passed, else rounded up, at most what an int holds.
  int left_ms() const {
    if (at_ns_ < 0) return -1;
    const std::int64_t left = at_ns_ - now_ns();
    constexpr std::int64_t kMost = std::numeric_limits<int>::max();
    return left <= 0 ? 0 : static_cast<int>(std::min((left + 999'999) / 1'000'000, kMost));
  }

 private:
  explicit Deadline(std::int64_t at_ns) : at_ns_(at_ns) {}
  std::int64_t at_ns_;
};

}  // namespace wreath
