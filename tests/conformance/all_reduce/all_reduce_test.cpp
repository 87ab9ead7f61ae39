// Tests promises of all_reduce beside right results, over any algorithm and transport: order, memory that peers map,
// leaving.
#include "tests/support/collective_matrix.hpp"
#include "tests/support/pairwise.hpp"
#include "tests/support/processes.hpp"
#include "tests/support/surroundings.hpp"

namespace wreath::test {
namespace {

CollectiveCase sums(DataType dtype, int ranks, std::size_t count) {
  return {Collective::AllReduce, dtype, ReduceOp::Sum, ranks, 0, count, {}, false};
}

// Makes one call of one rank and compares every byte.
void expect_right(Communicator& communicator, const CollectiveCase& work, const CollectiveData& data,
                  const Placement& placement, const Way& way) {
  const CollectiveRun run(work, data, communicator.rank(), placement);
  const Status status = run_case(communicator, way, run);
  ASSERT_TRUE(status) << text_of(way) << ": " << status.error().message;
  EXPECT_EQ(run.wrong(), "") << text_of(way);
}

std::vector<Way> all_reduce_ways() {
  std::vector<Way> ways = all_ways();
  std::erase_if(ways, [](const Way& way) { return find_algorithm(Collective::AllReduce, way.algorithm) == nullptr; });
  return ways;
}

// Returns the ways of one of two suites. A suite has all ways or, under a sanitizer, its part of a pairwise choice of
// algorithm, transport and suite.
std::vector<Way> ways_of_suite(int suite) {
  const std::vector<Way> ways = all_reduce_ways();
  if (!testing_support::kSanitized) return ways;
  const int links = static_cast<int>(transport_ways().size());
  const int names = static_cast<int>(ways.size()) / links;  // ways of each transport, one after the other
  std::vector<Way> some;
  for (const Choice& choice : pairwise({{links, names, 2}, {}, {}})) {
    if (choice[2] == suite) some.push_back(ways[static_cast<std::size_t>(choice[0] * names + choice[1])]);
  }
  return some;
}

class ReadingAllReduce : public testing::TestWithParam<Way> {};

TEST_P(ReadingAllReduce, ReadsMemoryThatPeersMap) {
  LocalRanks ranks(3, options_of(GetParam()));
  const CollectiveCase work = sums(DataType::Int32, 3, (std::size_t{3} << 20) / 4 + 5);
  const CollectiveData data(work.dtype, work.op, 3, work.count, Values::Exact);
  for (const bool in_place : {false, true}) {
    ranks.run([&](Communicator& communicator) {
      const bool shared = communicator.rank() != 1;  // ranks differ in memory kind
      expect_right(communicator, work, data, {0, 0, in_place, shared}, GetParam());
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, ReadingAllReduce, testing::ValuesIn(ways_of_suite(0)), test_name);

class QueuedAllReduces : public testing::TestWithParam<Way> {};

TEST_P(QueuedAllReduces, RunInOrder) {
  LocalRanks ranks(3, options_of(GetParam()));
  ranks.run([&](Communicator& communicator) {
    constexpr int kCalls = 20;
    std::vector<std::vector<std::int32_t>> buffers;
    std::vector<Work> works;
    for (int call = 0; call < kCalls; ++call) {
      buffers.emplace_back(static_cast<std::size_t>(call * 997 + 1), communicator.rank() + call);
      std::vector<std::int32_t>& buffer = buffers.back();
      works.push_back(
          communicator.all_reduce_async(buffer.data(), buffer.data(), buffer.size(), DataType::Int32).value());
    }
    for (Work& work : works) work.wait().value();
    for (int call = 0; call < kCalls; ++call) {
      for (const std::int32_t value : buffers[static_cast<std::size_t>(call)]) ASSERT_EQ(value, 3 + 3 * call);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ways, QueuedAllReduces, testing::ValuesIn(ways_of_suite(1)), test_name);

// A rank whose part is done may leave while others still read the data that it sent.
TEST(AllReduceThenLeave, LosesNothing) {
  const CollectiveCase work = sums(DataType::Int32, 3, 300'000);
  const CollectiveData data(work.dtype, work.op, 3, work.count, Values::Exact);
  for (const Way& way : transport_ways()) {
    for (int repeat = 0; repeat < 10 / testing_support::kSlower; ++repeat) {
      LocalRanks ranks(3, options_of(way));
      ranks.run([&](Communicator& communicator) {
        Communicator mine = std::move(communicator);
        expect_right(mine, work, data, {0, 0, false, repeat % 2 == 0}, way);
      });
    }
  }
}

TEST(AllReduceByDefault, LinksThreadsInProcessAndSums) {
  const Environment environment{{{"WREATH_TRANSPORT", ""}}};
  LocalRanks ranks(4, {});
  EXPECT_EQ(ranks.communicators()[0].transport_to(3).substr(0, 6), "inproc");  // with or without single copy
  for (const std::size_t count : std::initializer_list<std::size_t>{1, 4, 5, 10'000, 100'000}) {
    const CollectiveCase work = sums(DataType::Int32, 4, count);
    const CollectiveData data(work.dtype, work.op, 4, count, Values::Exact);
    ranks.run([&](Communicator& communicator) { expect_right(communicator, work, data, {}, {"", "inproc"}); });
  }
}

}  // namespace
}  // namespace wreath::test
