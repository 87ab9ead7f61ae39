// Tests ranks that make different calls under one number: both learn the difference.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/support/local_ranks.hpp"
#include "tests/support/surroundings.hpp"

namespace wreath::test {
namespace {

class Disagree : public testing::TestWithParam<std::string> {
 protected:
  // Expects that all ranks end with a Mismatch, and that their messages together contain each of `says`.
  void expect(const std::function<Status(Communicator&)>& call, const std::vector<std::string>& says) {
    CommunicatorOptions options;
    options.transports = {GetParam()};
    options.timeouts.stall_ms = 20'000;
    LocalRanks ranks(2, options);
    std::vector<std::string> said(2);
    ranks.run([&](Communicator& it) {
      const Status status = call(it);
      // A rank that needs nothing of the other is done, and its next call reports the mismatch.
      const Status ended = status ? it.barrier() : status;
      ASSERT_FALSE(ended);
      EXPECT_EQ(ended.error().code, ErrorCode::Mismatch) << ended.error().message;
      said[static_cast<std::size_t>(it.rank())] = ended.error().message;
    });
    for (const std::string& words : says) {
      EXPECT_NE((said[0] + said[1]).find(words), std::string::npos) << said[0] << "\n" << said[1];
    }
  }

  RecordingsFolder recordings_;
  std::vector<std::vector<std::int32_t>> input_{2, std::vector<std::int32_t>(1000)};
  std::vector<std::vector<std::int32_t>> output_{2, std::vector<std::int32_t>(1000)};
  const std::int32_t* input(const Communicator& it) { return input_[static_cast<std::size_t>(it.rank())].data(); }
  std::int32_t* output(const Communicator& it) { return output_[static_cast<std::size_t>(it.rank())].data(); }
};

TEST_P(Disagree, OnTheCollective) {
  expect(
      [&](Communicator& it) {
        return it.rank() == 0 ? it.all_gather(input(it), output(it), 100, DataType::Int32)
                              : it.all_to_all(input(it), output(it), 100, DataType::Int32);
      },
      {"called all_gather #1 int32 x 100", "called all_to_all #1 int32 x 100"});
}

TEST_P(Disagree, OnTheRoot) {
  expect([&](Communicator& it) { return it.reduce(input(it), output(it), 100, DataType::Int32, it.rank()); },
         {"reduce #1 int32 x 100 root 0", "reduce #1 int32 x 100 root 1"});
}

TEST_P(Disagree, OnTheOperator) {
  expect(
      [&](Communicator& it) {
        const Reduction reduction = it.rank() == 0 ? ReduceOp::Sum : ReduceOp::Max;
        return it.reduce_scatter(input(it), output(it), 100, DataType::Int32, reduction);
      },
      {"reduce_scatter #1 int32 x 100 sum", "reduce_scatter #1 int32 x 100 max"});
}

TEST_P(Disagree, OnWhetherBlocksVary) {
  expect(
      [&](Communicator& it) {
        const std::vector<std::size_t> counts(2, 100);
        return it.rank() == 0 ? it.all_gather(input(it), output(it), 100, DataType::Int32)
                              : it.all_gather_v(input(it), output(it), {counts}, DataType::Int32);
      },
      {"all_gather #1 int32 x 100", "all_gather_v #1 int32 x 200"});
}

TEST_P(Disagree, OnTheCountsOfBlocks) {
  expect(
      [&](Communicator& it) {
        const std::vector<std::size_t> counts{100, it.rank() == 0 ? std::size_t{100} : std::size_t{101}};
        return it.all_gather_v(input(it), output(it), {counts}, DataType::Int32);
      },
      {"all_gather_v #1 int32 x 200", "all_gather_v #1 int32 x 201"});
}

// Only the two ends know how much data goes from one to the other.
TEST_P(Disagree, OnWhatGoesFromOneToTheOther) {
  expect(
      [&](Communicator& it) {
        const std::vector<std::size_t> sent{10, 10};
        const std::vector<std::size_t> received{10, it.rank() == 0 ? std::size_t{11} : std::size_t{10}};
        return it.all_to_all_v(input(it), {sent}, output(it), {received}, DataType::Int32);
      },
      {"sends another count of elements than is expected by rank "});
}

INSTANTIATE_TEST_SUITE_P(Over, Disagree, testing::Values("inproc", "tcp"),
                         [](const auto& transport) { return transport.param; });

}  // namespace
}  // namespace wreath::test
