// The checker: right results pass, and every kind of wrong one is counted.
#include "perf/common/bench.hpp"

#include <gtest/gtest.h>

#include "tests/unit/perf/threads.hpp"

namespace wreath::perf {
namespace {

constexpr std::size_t kCount = 20'000;  // more than one period of the data

struct Outcome {
  std::uint64_t out_of_place = 0;
  std::uint64_t in_place = 0;
  std::uint64_t out_of_bounds = 0;
};

Options options_of(DataType dtype, int iterations) {
  Options options;
  options.dtypes = {dtype};
  options.iterations = iterations;
  return options;
}

// Wrong elements over all ranks for one size.
Outcome measure(int ranks, const Options& options, const Fault& fault = {}) {
  Outcome outcome;
  on_ranks(ranks, fault, kCount, [&](Member& member) {
    const Case work{kCount * 4, options.dtypes[0], ReduceOp::Sum};
    auto buffers = Buffers::make(work.bytes, options.offset, false);
    ASSERT_TRUE(buffers);
    Bench bench(member, row_of(Collective::AllReduce), options, *buffers);
    const auto out = combine(member, options, bench.out_of_place(work).value()).value();
    const auto in = combine(member, options, bench.in_place(work).value()).value();
    if (member.rank() == 0) outcome = {out.wrong, in.wrong, out.out_of_bounds + in.out_of_bounds};
  });
  return outcome;
}

TEST(Checker, PassesRightResultsForEveryRankCountAndType) {
  for (const DataType dtype : all_dtypes()) {
    for (const int ranks : {1, 2, 3, 4, 5, 7}) {
      const Outcome outcome = measure(ranks, options_of(dtype, 33));
      EXPECT_EQ(outcome.out_of_place, 0U) << name(dtype) << " x " << ranks;
      EXPECT_EQ(outcome.in_place, 0U) << name(dtype) << " x " << ranks;
      EXPECT_EQ(outcome.out_of_bounds, 0U);
    }
  }
}

TEST(Checker, PassesRightResultsOnMisalignedBuffersAndWithRewrites) {
  Options options = options_of(DataType::Float32, 5);
  options.offset = 3;
  options.rewrite = true;
  options.per_iteration = true;
  const Outcome outcome = measure(3, options);
  EXPECT_EQ(outcome.out_of_place + outcome.in_place, 0U);
}

// Calls of a size: 1 checked, 1 to warm up, 20 timed, out of place; then the same in place.
TEST(Checker, CatchesOneSkippedCallAmongTheTimedOnes) {
  for (const int skipped : {2, 3, 9, 12, 20, 21}) {
    Fault fault;
    fault.skip = [&](int rank, int number) { return rank == 1 && number == skipped; };
    EXPECT_GT(measure(2, options_of(DataType::Float32, 20), fault).out_of_place, 0U) << "call " << skipped;
  }
}

TEST(Checker, CatchesACallInPlaceSkippedByAllRanks) {
  for (const int skipped : {22, 24, 33, 43}) {
    Fault fault;
    fault.skip = [&](int, int number) { return number == skipped; };
    EXPECT_GT(measure(2, options_of(DataType::Int32, 20), fault).in_place, 0U) << "call " << skipped;
  }
}

TEST(Checker, CatchesAllCallsSkipped) {
  Fault fault;
  fault.skip = [](int, int) { return true; };
  const Outcome outcome = measure(2, options_of(DataType::Float32, 1), fault);
  EXPECT_GT(outcome.out_of_place, 0U);
  EXPECT_GT(outcome.in_place, 0U);
}

TEST(Checker, CatchesOneWrongElementInTheLastCall) {
  Fault fault;
  fault.spoil = [](int rank, int number, std::byte* output, std::size_t bytes) {
    if (rank == 0 && (number == 21 || number == 43)) output[bytes / 2] ^= std::byte{1};
  };
  const Outcome outcome = measure(2, options_of(DataType::Int32, 20), fault);
  EXPECT_EQ(outcome.out_of_place, 1U);
  EXPECT_EQ(outcome.in_place, 1U);
}

TEST(Checker, CountsBytesWrittenOutOfBounds) {
  Fault fault;
  fault.spoil = [](int rank, int, std::byte* output, std::size_t bytes) {
    if (rank == 0) output[-1] = output[static_cast<std::ptrdiff_t>(bytes)] = std::byte{0};
  };
  EXPECT_EQ(measure(2, options_of(DataType::Float32, 4), fault).out_of_bounds, 4U);  // two bytes, twice
}

TEST(Checker, SaysNothingWhenAskedNotToCheck) {
  Options options = options_of(DataType::Float32, 4);
  options.check = 0;
  Fault fault;
  fault.skip = [](int, int) { return true; };
  EXPECT_EQ(measure(2, options, fault).out_of_place, 0U);
}

TEST(Pattern, SumsStayExactForAsManyCallsInPlaceAsItSays) {
  for (const DataType dtype : all_dtypes()) {
    for (int ranks = 2; ranks <= 17; ++ranks) {
      const SumPatterns data(dtype, 0, ranks);
      std::vector<std::byte> now(kPeriod * 4);
      data.in_place_after(1).fill(now);
      for (int call = 2; call <= data.exact_in_place_calls(); ++call) {
        for (std::size_t at = 0; at < now.size(); at += 4) {
          float single, single_sum = 0;
          std::int32_t whole, whole_sum = 0;
          std::memcpy(&single, &now[at], 4);
          std::memcpy(&whole, &now[at], 4);
          for (int rank = 0; rank < ranks; ++rank) {
            dtype == DataType::Float32 ? void(single_sum += single) : void(whole_sum += whole);
          }
          std::memcpy(&now[at], dtype == DataType::Float32 ? static_cast<void*>(&single_sum) : &whole_sum, 4);
        }
        ASSERT_EQ(data.in_place_after(call).count_wrong(now), 0U) << ranks << " ranks, call " << call;
      }
    }
  }
}

TEST(Exchange, GathersNumbersAndTextsInRankOrder) {
  on_ranks(3, {}, kCount, [](Member& member) {
    const double mine[] = {member.rank() + 0.5, -1e-9 * member.rank()};
    const auto numbers = gather(member, mine).value();
    EXPECT_EQ(numbers, (std::vector<double>{0.5, 0, 1.5, -1e-9, 2.5, -2e-9}));
    const auto texts = gather_text(member, "rank" + std::to_string(member.rank())).value();
    EXPECT_EQ(texts, (std::vector<std::string>{"rank0", "rank1", "rank2"}));
  });
}

}  // namespace
}  // namespace wreath::perf
