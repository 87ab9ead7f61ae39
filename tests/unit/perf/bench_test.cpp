// The checker passes right results and counts wrong results of every kind.
#include "perf/common/bench.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "kernels/kernels.hpp"
#include "perf/base/reference.hpp"
#include "perf/common/host_memory.hpp"
#include "perf/common/run.hpp"
#include "tests/support/processes.hpp"
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

// Returns the wrong elements over all ranks for one size.
Outcome measure(const CollectiveRow& row, int ranks, const Options& options, const Kind& kind, std::size_t elements,
                const Fault& fault = {}) {
  Outcome outcome;
  const Case work = make_case(row, ranks, elements * size_of(kind.dtype), kind);
  on_ranks(ranks, fault, work.count, [&](Member& member) {
    auto buffers = Buffers::make(work.bytes, options.offset, {});
    ASSERT_TRUE(buffers);
    Bench bench(member, row, options, *buffers);
    const auto out = combine(member, options, bench.out_of_place(work).value()).value();
    const auto in =
        row.has(kNothingToReuse) ? Timing{} : combine(member, options, bench.in_place(work).value()).value();
    if (member.rank() == 0) outcome = {out.wrong, in.wrong, out.out_of_bounds + in.out_of_bounds};
  });
  return outcome;
}

Outcome measure(int ranks, const Options& options, const Fault& fault = {}) {
  return measure(row_of("all_reduce_perf"), ranks, options, {options.dtypes[0], ReduceOp::Sum, 0}, kCount, fault);
}

TEST(Bench, TimesAsManyCallsAsTakeTheTimeOnEveryRank) {
  Options options = options_of(DataType::Float32, 20);
  options.time_ms = 5;
  const CollectiveRow& row = row_of("all_reduce_perf");
  const Case work = make_case(row, 2, 4096, {DataType::Float32, ReduceOp::Sum, 0});
  double longest_us = 0;
  // Other programs may slow the trials, and then fewer calls are timed: the longest of 5 attempts counts.
  for (int attempt = 0; attempt < 5; ++attempt) {
    std::array<Timing, 2> timings;
    on_ranks(2, {}, work.count, [&](Member& member) {
      auto buffers = Buffers::make(work.bytes, 0, {});
      ASSERT_TRUE(buffers);
      Bench bench(member, row, options, *buffers);
      timings[static_cast<std::size_t>(member.rank())] = bench.out_of_place(work).value();
    });
    EXPECT_EQ(timings[0].iterations, timings[1].iterations);
    EXPECT_GT(timings[0].iterations, 1);
    EXPECT_EQ(timings[0].wrong + timings[1].wrong, 0U);
    longest_us = std::max(longest_us, timings[0].time_us * timings[0].iterations);
  }
  EXPECT_GT(longest_us, options.time_ms * 1000 / 4);
}

class EveryRow : public testing::TestWithParam<CollectiveRow> {};

// The rows of one call that gives data: a fault can skip the call or spoil its output.
class EveryRowOfData : public EveryRow {};

std::vector<CollectiveRow> rows_of_data() {
  std::vector<CollectiveRow> rows;
  for (const CollectiveRow& row : collectives()) {
    if (!row.has(kNoData) && row.collective != Collective::Exchange) rows.push_back(row);
  }
  return rows;
}

// An ordinary run measures a third of the combinations. Each type still meets each operator and each number of ranks,
// and each operator meets each number of ranks.
TEST_P(EveryRow, PassesRightResultsForEveryRankCountTypeAndOperator) {
  const CollectiveRow& row = GetParam();
  const Options options = options_of(DataType::Float32, 5);
  const bool whole = !row.combines() || testing_support::takes_every_case();
  int turn = 0;
  for (const int ranks : {1, 2, 3, 4, 7, 8}) {
    ++turn;
    if (!check_group(row, options, ranks)) continue;
    for (const DataType dtype : all_dtypes()) {
      for (const ReduceOp op : all_ops()) {
        if (!row.combines() && op != ReduceOp::Sum) continue;
        if (!whole && (turn + static_cast<int>(dtype) + static_cast<int>(op)) % 3 != 0) continue;
        const Rank root = row.rooted() ? (static_cast<Rank>(dtype) + static_cast<Rank>(op)) % ranks : 0;
        const Outcome outcome = measure(row, ranks, options, {dtype, op, root}, 5003);
        EXPECT_EQ(outcome.out_of_place, 0U) << name(dtype) << " " << name(op) << " x " << ranks << " root " << root;
        EXPECT_EQ(outcome.in_place, 0U) << name(dtype) << " " << name(op) << " x " << ranks << " root " << root;
        EXPECT_EQ(outcome.out_of_bounds, 0U);
      }
    }
  }
}

TEST_P(EveryRow, TakesFewerElementsThanRanks) {
  for (const std::size_t elements : {0u, 1u, 2u, 3u, 5u}) {
    for (const int ranks : {1, 4}) {
      const Outcome outcome = measure(GetParam(), ranks, options_of(DataType::Int64, 4), {DataType::Int64}, elements);
      EXPECT_EQ(outcome.out_of_place + outcome.in_place + outcome.out_of_bounds, 0U) << elements << " x " << ranks;
    }
  }
}

// All ranks skip one call: each rank that should get data then keeps other data, or none, in its output.
TEST_P(EveryRowOfData, CatchesOneSkippedCallOfEveryRank) {
  const CollectiveRow& row = GetParam();
  const int out_of_place = 1 + 1 + 20;
  for (const int skipped : {0, 2, 9, out_of_place - 1}) {
    Fault fault;
    fault.skip = [&](int, int number) { return number == skipped; };
    EXPECT_GT(measure(row, 4, options_of(DataType::Int32, 20), {DataType::Int32}, kCount, fault).out_of_place, 0U)
        << "call " << skipped;
    fault.skip = [&](int, int number) { return number == skipped + out_of_place; };
    if (row.has(kNothingToReuse)) continue;
    EXPECT_GT(measure(row, 4, options_of(DataType::Int32, 20), {DataType::Int32}, kCount, fault).in_place, 0U)
        << "call " << skipped;
  }
}

TEST_P(EveryRowOfData, CatchesPartsThatChangedPlaces) {
  Fault fault;
  fault.spoil = [](int, int, std::byte* output, std::size_t bytes) {
    if (bytes > 0) std::swap_ranges(output, output + bytes / 2, output + bytes / 2);
  };
  const Outcome outcome = measure(GetParam(), 4, options_of(DataType::Int32, 4), {DataType::Int32}, 1 << 12, fault);
  EXPECT_GT(outcome.out_of_place, 0U);
}

INSTANTIATE_TEST_SUITE_P(Rows, EveryRow, testing::ValuesIn(collectives().begin(), collectives().end()),
                         [](const auto& row) { return std::string(row.param.title()); });
INSTANTIATE_TEST_SUITE_P(Rows, EveryRowOfData, testing::ValuesIn(rows_of_data()),
                         [](const auto& row) { return std::string(row.param.title()); });

TEST(Checker, PassesRightResultsOnMisalignedBuffersAndWithRewrites) {
  Options options = options_of(DataType::Float32, 5);
  options.offset = 3;
  options.rewrite = true;
  options.per_iteration = true;
  const Outcome outcome = measure(3, options);
  EXPECT_EQ(outcome.out_of_place + outcome.in_place, 0U);
}

// Notes the counts and roots of another member's broadcasts.
class Recorder final : public Member {
 public:
  explicit Recorder(Member& member) : member_(member) {}
  int rank() const override { return member_.rank(); }
  int ranks() const override { return member_.ranks(); }
  Status run(const Call& call) override {
    if (call.collective == Collective::Broadcast) calls.emplace_back(call.count, call.root);
    return member_.run(call);
  }
  Status exchange(std::span<const Transfer> transfers, DataType dtype) override {
    return member_.exchange(transfers, dtype);
  }
  std::string plan_for(Collective collective, std::size_t bytes) const override {
    return member_.plan_for(collective, bytes);
  }
  std::vector<std::pair<std::size_t, Rank>> calls;

 private:
  Member& member_;
};

TEST(Bench, LetsOtherCallsTakeTurns) {
  Options options = options_of(DataType::Int32, 5);
  options.alternate = options.only_out_of_place = true;
  options.warmup = 1;
  const CollectiveRow& row = row_of("broadcast_perf");
  const Case work = make_case(row, 3, 400, {DataType::Int32, ReduceOp::Sum, 1});
  on_ranks(3, {}, work.count, [&](Member& member) {
    auto buffers = Buffers::make(work.bytes, 0, {});
    ASSERT_TRUE(buffers);
    Recorder recorder(member);
    Bench bench(recorder, row, options, *buffers);
    EXPECT_EQ(bench.out_of_place(work).value().wrong, 0U);
    const std::pair<std::size_t, Rank> own{100, 1};
    const std::pair<std::size_t, Rank> other{97, 2};
    // A checked call, two to warm up, and halves of three and two calls.
    EXPECT_THAT(recorder.calls, testing::ElementsAre(own, own, other, own, other, own, other, own));
  });
}

// All rows, since each has other buffers at the root.
TEST_P(EveryRow, TakesTurnsWithOtherCalls) {
  for (const int iterations : {1, 7, 8}) {
    Options options = options_of(DataType::Int32, iterations);
    options.alternate = options.only_out_of_place = true;
    for (const std::size_t elements : {3u, 5003u}) {
      const Outcome outcome = measure(GetParam(), 4, options, {DataType::Int32, ReduceOp::Sum, 1}, elements);
      EXPECT_EQ(outcome.out_of_place + outcome.out_of_bounds, 0U) << iterations << " calls of " << elements;
    }
  }
}

TEST_P(EveryRowOfData, CatchesASkippedLastCallBetweenOthers) {
  Options options = options_of(DataType::Int32, 20);
  options.alternate = options.only_out_of_place = true;
  // A fault counts the calls of the case alone, but for blocks that differ in size.
  const int half = GetParam().has(kVarying) ? 10 : 5;
  const int warm = GetParam().has(kVarying) ? 2 : 1;
  for (const int skipped : {warm + half, warm + 2 * half}) {
    Fault fault;
    fault.skip = [&](int, int number) { return number == skipped; };
    EXPECT_GT(measure(GetParam(), 4, options, {DataType::Int32}, kCount, fault).out_of_place, 0U) << skipped;
  }
}

// A size has 1 checked call, 1 call to warm up and 20 timed calls out of place, then as many in place. Rank 1 skips one
// of the calls out of place.
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

// One bit of one element is wrong on one rank. The checker sees it in exactly the calls that docs/benchmarking.md
// names.
TEST(Checker, SeesAFlippedBitInTheCallsThatItSaysItComparesWhole) {
  // Out of place the checker looks at call 0, call 1 warms up, and the halves of the timed calls end with 11 and 21. In
  // place it looks at call 22, and call 23 warms up. It compares results after 39 and 43 where calls combine, else
  // after 43 alone.
  constexpr std::array kFlipped{0, 1, 2, 5, 10, 11, 12, 20, 21, 22, 23, 24, 30, 39, 40, 43};
  using Calls = std::vector<int>;
  for (const auto& [program, seen_in_place] :
       {std::pair("all_reduce_perf", Calls{22, 24, 30, 39, 40, 43}), std::pair("all_gather_perf", Calls{22, 43})}) {
    Calls out_of_place;
    Calls in_place;
    for (const int flipped : kFlipped) {
      Fault fault;
      fault.spoil = [flipped](int rank, int number, std::byte* output, std::size_t bytes) {
        if (rank == 0 && number == flipped) output[bytes / 2 + 4004] ^= std::byte{16};
      };
      const Outcome outcome =
          measure(row_of(program), 2, options_of(DataType::Int32, 20), {DataType::Int32}, kCount, fault);
      if (outcome.out_of_place > 0) out_of_place.push_back(flipped);
      if (outcome.in_place > 0) in_place.push_back(flipped);
    }
    EXPECT_EQ(out_of_place, (Calls{0, 11, 21})) << program;
    EXPECT_EQ(in_place, seen_in_place) << program;
  }
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

// Returns all ranks' inputs combined one after the other, in Partial form between the ranks, as a ring combines them.
Bytes combined_in_a_row(DataType dtype, ReduceOp op, std::span<const std::byte* const> inputs, int first) {
  const int ranks = static_cast<int>(inputs.size());
  Bytes partial(kPeriod * size_of(accumulator_of(dtype)));
  Bytes next(partial.size());
  for (int i = 0; i < ranks; ++i) {
    const int rank = (first + i) % ranks;
    const Arithmetic own = arithmetic(dtype, reduction_of(op, rank), ranks);
    const std::byte* input = inputs[static_cast<std::size_t>(rank)];
    combine_reference(own, next.data(), Form::Partial, &input, 1, {Form::Data, 0, Form::Data}, kPeriod);
    const std::byte* both[] = {partial.data(), next.data()};
    if (i == 0) {
      partial = next;
    } else {
      combine_reference(own, partial.data(), Form::Partial, both, 2, {Form::Partial, -1, Form::Data}, kPeriod);
    }
  }
  Bytes result(kPeriod * size_of(dtype));
  const std::byte* last = partial.data();
  combine_reference(arithmetic(dtype, reduction_of(op, 0), ranks), result.data(), Form::Data, &last, 1,
                    {Form::Partial, -1, Form::Data}, kPeriod);
  return result;
}

TEST(Pattern, IsExactInEveryOrderForAsManyCallsInPlaceAsItSays) {
  for (const DataType dtype : all_dtypes()) {
    for (const ReduceOp op : all_ops()) {
      for (const int ranks : {1, 2, 3, 5, 8, 17}) {
        PatternSet data(dtype, op, ranks);
        for (const Rank replaced : {kEveryRank, ranks - 1}) {
          std::vector<const std::byte*> inputs;
          for (Rank rank = 0; rank < ranks; ++rank) inputs.push_back(data.input(PatternSet::kInPlace, rank).data());
          Bytes now;
          for (int call = 1; call <= data.exact_in_place_calls(); ++call) {
            const Bytes next = combined_in_a_row(dtype, op, inputs, call % ranks);
            ASSERT_EQ(data.combined_in_place(call, replaced).count_wrong(next), 0U)
                << name(dtype) << " " << name(op) << " x " << ranks << ", call " << call << ", replaced " << replaced;
            now = next;
            for (Rank rank = 0; rank < ranks; ++rank) {
              if (replaced == kEveryRank || replaced == rank) inputs[static_cast<std::size_t>(rank)] = now.data();
            }
          }
        }
      }
    }
  }
}

TEST(Pattern, BeginsAtAnyElement) {
  const PatternSet data(DataType::Int32, std::nullopt, 2);
  Bytes bytes(4 * (kPeriod + 3));
  data.input(0, 1).fill(bytes, kPeriod - 2);
  EXPECT_EQ(data.input(0, 1).count_wrong(bytes, kPeriod - 2), 0U);
  EXPECT_GT(data.input(0, 1).count_wrong(bytes, kPeriod - 1), kPeriod - 3);
  EXPECT_EQ(bytes[8], data.input(0, 1).byte_at(0));
}

constexpr double kGiB = 1 << 30;

Status fits(const Options& options, std::size_t bytes, int ranks, double available_gib) {
  return check_host_memory(need_of(options, {bytes, 4}), {"h1", ranks, available_gib * kGiB});
}

TEST(HostMemory, IsComparedWithTheBuffersOfAllRanks) {
  const Options options = options_of(DataType::Float32, 20);
  const std::size_t size = std::size_t{4} << 30;
  EXPECT_TRUE(fits(options, size, 2, 24));
  const Status refused = fits(options, size, 2, 23.9);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::System);
  EXPECT_EQ(
      refused.error().message,
      "size 4G: 3 buffers of each of 2 ranks of host h1 need 24.0 GiB of memory, of which 23.9 GiB are available; "
      "ask for a smaller size, or for fewer ranks");
  EXPECT_FALSE(fits(options, std::size_t{1} << 50, kMaximumRanks, 1e6)) << "more bytes than 64 bits count";
  Options on_gpu = options;
  on_gpu.memory = MemoryPlace::Device;
  EXPECT_TRUE(fits(on_gpu, size, 2, 1));
}

// The ranks come from a launcher and know of each other only when they have met. All ranks return the error, and no
// rank allocates.
TEST(HostMemory, IsLookedAtByAllRanksBeforeTheyAllocate) {
  Options options = options_of(DataType::Float32, 1);
  options.sizes.list = {std::size_t{1} << 50};  // more than addresses reach
  options.pin = false;
  on_ranks(2, {}, kCount, [&](Member& member) {
    const auto shown = [](const std::string& text) { EXPECT_EQ(text, "") << "before it is known whether it can be"; };
    const auto report = run_rank(member, row_of("all_reduce_perf"), options, {"shm", {}}, {shown, shown});
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().code, ErrorCode::System);
    EXPECT_THAT(report.error().message, testing::HasSubstr("size 1024T: 3 buffers of each of 2 ranks of host "));
  });
}

Counters counters_of(std::string_view transport, std::uint64_t bytes, std::uint64_t sends) {
  return {WireCounts{transport, bytes, {{"messages", 1}, {"sends", sends}}}};
}

// Ranks may have links over other transports than rank 0, and other ones first.
TEST(Counters, OfAllRanksAreAddedByTransport) {
  Options options;
  options.counters = true;
  on_ranks(3, {}, kCount, [&](Member& member) {
    const auto rank = static_cast<std::uint64_t>(member.rank());
    Timing mine;
    mine.iterations_us = {1, 2};
    if (rank == 2) mine.counters = counters_of("verbs", 7, 9);
    add_counters(mine.counters, counters_of("tcp", 1000 + rank, 10 + rank));
    const Timing all = combine(member, options, mine).value();
    ASSERT_EQ(all.counters.size(), rank == 2 ? 2U : 1U);
    const WireCounts& entry = all.counters.back();
    EXPECT_EQ(entry.transport, "tcp");
    EXPECT_EQ(entry.bytes, 3003U);
    EXPECT_EQ(entry.counts[0].number, 3U);
    EXPECT_EQ(entry.counts[1].number, 33U);
    EXPECT_EQ(all.iterations_us, (std::vector<double>{1, 2}));
  });
}

TEST(Counters, AreWhatWasAddedBetweenTwoLooks) {
  Counters counted;
  add_counters(counted, counters_of("tcp", 100, 8), -1);
  add_counters(counted, counters_of("tcp", 350, 9));
  EXPECT_EQ(counted[0].bytes, 250U);
  EXPECT_EQ(counted[0].counts[1].number, 1U);
}

TEST(Counters, AreOfTheTimedCallsAlone) {
  Options options = options_of(DataType::Float32, 6);
  options.sizes.list = {kCount * sizeof(float)};
  options.pin = false;
  options.counters = true;
  ASSERT_GT(options.warmup, 0);
  on_ranks(2, {}, kCount, [&](Member& member) {
    const auto ignore = [](const std::string&) {};
    const auto report = run_rank(member, row_of("all_reduce_perf"), options, {"tcp", {}}, {ignore, ignore});
    ASSERT_TRUE(report);
    if (member.rank() != 0) return;
    ASSERT_EQ(report->counters.size(), 1U);
    ASSERT_EQ(report->rows.size(), 1U);
    ASSERT_TRUE(report->rows[0].in_place);
    for (const Measurement& each : {report->rows[0].out_of_place, *report->rows[0].in_place}) {
      ASSERT_EQ(each.counters.size(), 1U);
      EXPECT_EQ(each.counters[0].counts[0].number, 12U) << "6 calls on 2 ranks";
      EXPECT_EQ(each.counters[0].bytes, std::uint64_t{12} << 20);
    }
  });
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
