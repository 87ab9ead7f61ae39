// `--limits` measures a limit for every tool that has one.
#include "perf/common/limit.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "perf/limits/machine.hpp"

namespace wreath::perf {
namespace {

Limits limits_of(const CollectiveRow& row, const char* transport, int ranks) {
  Options options;
  options.limits = true;
  options.sizes.list = {64, 4 << 20};
  options.communicator.transports = {transport};
  return why_no_limit(row, options).empty() ? measure_limits(row, options, ranks) : Limits{};
}

// Returns the limits of 64 bytes and of 4 MiB. Another program's turn on one of the two cores makes 64 bytes take
// milliseconds; the function then measures again, up to 8 times in all.
Limits growing_limits_of(const CollectiveRow& row, const char* transport) {
  constexpr int kTries = 8;
  Limits limits = limits_of(row, transport, 2);
  for (int i = 1; i < kTries && limits.time_us.size() == 2; ++i) {
    if (limits.time_us.at(4 << 20) > limits.time_us.at(64)) break;
    limits = limits_of(row, transport, 2);
  }
  return limits;
}

TEST(Limits, AreThoseOfEverySizeAndGrowWithIt) {
  if (pick_cores(2).empty()) GTEST_SKIP() << "a limit needs a core for each of two ranks: run it on more";
  int measured = 0;
  for (const CollectiveRow& row : collectives()) {
    for (const char* transport : {"shm", "tcp"}) {
      const Limits limits = growing_limits_of(row, transport);
      const bool expected =
          !row.has(kNoData) && !row.has(kVarying) && (transport == std::string_view("shm") || !row.rooted());
      EXPECT_EQ(limits.time_us.size(), expected ? 2U : 0U) << row.program << " " << transport;
      if (limits.time_us.size() != 2) continue;
      ++measured;
      EXPECT_FALSE(limits.name.empty());
      EXPECT_GT(limits.time_us.at(64), 0) << row.program << " " << transport;
      EXPECT_GT(limits.time_us.at(4 << 20), limits.time_us.at(64)) << row.program << " " << transport;
    }
  }
  EXPECT_EQ(measured, 16);
}

TEST(Limits, OfTwoRanksAreThoseOfSlotsToo) {
  if (pick_cores(2).empty()) GTEST_SKIP() << "a limit needs a core for each of two ranks: run it on more";
  const auto slots_of = [](const char* program, const char* transport) {
    Options options;
    options.limits = true;
    options.sizes.list = {4 << 10, 16 << 10, 4 << 20};
    options.communicator.transports = {transport};
    return measure_limits(row_of(program), options, 2).slots_us;
  };
  // An all_gather of 4 MiB receives 2 MiB, and one of 16 KiB 8.
  const auto gathered = slots_of("all_gather_perf", "shm");
  EXPECT_EQ(gathered.size(), 2U);
  EXPECT_GT(gathered.at(16 << 10), 0);
  EXPECT_GT(gathered.at(4 << 20), gathered.at(16 << 10));
  const auto sent = slots_of("broadcast_perf", "shm");
  EXPECT_EQ(sent.size(), 1U);
  EXPECT_TRUE(sent.contains(16 << 10));
  EXPECT_TRUE(slots_of("all_gather_perf", "tcp").empty());
}

TEST(Limits, AreNotThereWithFewerCoresThanRanks) {
  for (const CollectiveRow& row : collectives()) {
    for (const char* transport : {"shm", "tcp"}) {
      const Limits limits = limits_of(row, transport, 1024);
      EXPECT_TRUE(limits.time_us.empty() && limits.name.empty()) << row.program << " " << transport;
    }
  }
}

TEST(Limits, AreOfTheBytesThatRowsHave) {
  if (pick_cores(2).empty()) GTEST_SKIP() << "a limit needs a core for each of two ranks: run it on more";
  Options options;
  options.limits = true;
  options.sizes.list = {100};
  options.dtypes = {DataType::Float32, DataType::Float64};
  // The row rounds to whole blocks: 25 floats become 2 x 12, and 12 doubles become 2 x 6.
  const CollectiveRow& row = row_of("all_gather_perf");
  const Limits limits = measure_limits(row, options, 2);
  EXPECT_EQ(limits.time_us.size(), 1U);
  EXPECT_TRUE(limits.time_us.contains(make_case(row, 2, 100, {}).bytes));
}

}  // namespace
}  // namespace wreath::perf
