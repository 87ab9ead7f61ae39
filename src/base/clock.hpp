// Monotonic time.
#pragma once

#include <chrono>
#include <cstdint>

namespace wreath {

inline std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// A point in time that may be "never" (negative duration).
class Deadline {
 public:
  static Deadline after_ms(std::int64_t ms) { return Deadline(ms < 0 ? -1 : now_ns() + ms * 1'000'000); }
  bool passed() const { return at_ns_ >= 0 && now_ns() >= at_ns_; }
  // Milliseconds left for poll(): -1 for never, 0 when passed, else rounded up.
  int left_ms() const {
    if (at_ns_ < 0) return -1;
    const std::int64_t left = at_ns_ - now_ns();
    return left <= 0 ? 0 : static_cast<int>((left + 999'999) / 1'000'000);
  }

 private:
  explicit Deadline(std::int64_t at_ns) : at_ns_(at_ns) {}
  std::int64_t at_ns_;
};

}  // namespace wreath
