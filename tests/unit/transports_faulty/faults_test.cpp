// The setting of faults is read strictly, and a seed repeats its faults.
#include "transports/faulty/faults.hpp"

#include <gtest/gtest.h>

#include <string>

namespace wreath {
namespace {

TEST(Faults, ReadsWhatIsGivenAndKeepsTheRest) {
  const FaultRates rates = parse_faults("delay=0.25,delay_ms=7,close=1,seed=9").value();
  EXPECT_EQ(rates.delay, 0.25);
  EXPECT_EQ(rates.delay_ms, 7);
  EXPECT_EQ(rates.close, 1);
  EXPECT_EQ(rates.drop, 0);
  EXPECT_EQ(rates.seed, 9u);
}

TEST(Faults, RefusesWhatItDoesNotKnow) {
  for (const std::string text : {"lose=1", "drop", "drop=2", "drop=-0.1", "delay=x", "delay_ms=0", "seed=1,,drop=1",
                                 "drop=0.5x", "delay_ms=2s", "seed=1.5"}) {
    const auto rates = parse_faults(text);
    ASSERT_FALSE(rates) << text;
    EXPECT_EQ(rates.error().code, ErrorCode::InvalidArgument);
    EXPECT_NE(rates.error().message.find("faults: '"), std::string::npos) << rates.error().message;
  }
}

TEST(Faults, ComeAsOftenAsAskedAndRepeatBySeed) {
  const FaultRates rates = parse_faults("delay=0.1,drop=0.2,truncate=0.3,seed=5").value();
  FaultSource first(rates, 0, 1);
  FaultSource again(rates, 0, 1);
  FaultSource other(rates, 1, 0);
  int counts[5] = {};
  int differ = 0;
  for (int i = 0; i < 20'000; ++i) {
    const LinkFault fault = first.next();
    ASSERT_EQ(fault, again.next());
    differ += fault != other.next() ? 1 : 0;
    ++counts[static_cast<int>(fault)];
  }
  EXPECT_NEAR(counts[static_cast<int>(LinkFault::Delay)], 2'000, 300);
  EXPECT_NEAR(counts[static_cast<int>(LinkFault::Drop)], 4'000, 400);
  EXPECT_NEAR(counts[static_cast<int>(LinkFault::Truncate)], 6'000, 500);
  EXPECT_EQ(counts[static_cast<int>(LinkFault::Close)], 0);
  EXPECT_GT(differ, 1'000);
}

}  // namespace
}  // namespace wreath
