// Decides which faults a link has, and when. They are drawn from a seed, so that a run can be repeated.
#pragma once

#include <cstdint>
#include <random>
#include <string_view>

#include "wreath/result.hpp"
#include "wreath/types.hpp"

namespace wreath {

// Holds probabilities per message.
struct FaultRates {
  double delay = 0;
  double drop = 0;
  double close = 0;
  double truncate = 0;
  // A delayed message waits at most so long.
  std::int64_t delay_ms = 2;
  std::uint64_t seed = 1;
};

// Reads "delay=0.1,delay_ms=5,drop=0.001,close=0.001,truncate=0.001,seed=7". A field that is absent is 0 or as above.
// InvalidArgument names what is wrong.
Result<FaultRates> parse_faults(std::string_view text);

enum class LinkFault : std::uint8_t { None, Delay, Drop, Close, Truncate };

// Draws the faults of the messages that `from` sends to `to`, in order.
class FaultSource {
 public:
  FaultSource(const FaultRates& rates, Rank from, Rank to);
  LinkFault next();
  // Returns how long the message that next() said to delay is held, in milliseconds.
  std::int64_t delay_ms();

 private:
  FaultRates rates_;
  std::mt19937_64 random_;
};

}  // namespace wreath
