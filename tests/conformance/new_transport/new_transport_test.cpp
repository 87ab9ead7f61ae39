// A stream transport is one folder (foo/) and one row (registry.cpp). Everything runs over it alone.
#include <gmock/gmock.h>

#include <numeric>

#include "tests/support/row_matrix.hpp"

namespace wreath::test {
namespace {

using testing::HasSubstr;
using testing_support::Job;
using testing_support::kSlower;

constexpr std::size_t kElements = 300'000;

Status sums_right(Communicator& communicator) {
  std::vector<std::int32_t> values(kElements, communicator.rank() + 1);
  WREATH_TRY(communicator.all_reduce(std::span(values)));
  const std::int32_t sum = communicator.ranks() * (communicator.ranks() + 1) / 2;
  const auto right = std::count(values.begin(), values.end(), sum);
  if (static_cast<std::size_t>(right) == values.size()) return {};
  return Error{ErrorCode::Mismatch, fmt::format("{} of {} sums are right", right, values.size())};
}

// Runs a rank that is a process of its own.
WREATH_ROLE(sums_over_foo) {
  auto communicator = child.create();
  if (!communicator) return child.failed(communicator.error());
  child.report("transport " + communicator->transport_to((child.rank() + 1) % child.ranks()));
  const Status status = sums_right(*communicator);
  return status ? 0 : child.failed(status.error());
}

TEST(NewTransport, LinksProcessesAlone) {
  constexpr int kRanks = 3;
  Job job("sums_over_foo", kRanks, {}, {{"WREATH_TRANSPORT", "foo"}});
  ASSERT_TRUE(job.share_id()) << job.logs();
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(job[rank].join(20'000 * kSlower), 0) << job.logs();
    EXPECT_THAT(job[rank].lines(), testing::Contains(HasSubstr("transport foo"))) << job.logs();
  }
}

TEST(NewTransport, IsPassedOverWhereItCannotBeUsed) {
  EXPECT_THAT(transports_between_processes(), testing::ElementsAre("foo"));
  CommunicatorOptions options;
  options.transports = {"unusable"};
  const auto none = Communicator::create_local(2, options);
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("no transport links ranks"));
  EXPECT_THAT(none.error().message, HasSubstr("unusable: no adapter is here"));
  options.transports = {"unusable", "foo"};
  EXPECT_THAT(Communicator::create_local(2, options).value()[0].transport_to(1), testing::StartsWith("foo"));
}

class NewTransportRows : public testing::TestWithParam<Way> {};

TEST_P(NewTransportRows, GiveRightResults) {
  static const RowSuite suite({shapes_of_ranks({1, 2, 3, 5}), {elements(1), elements(37), elements(1500)}, 0, 3});
  static DataStore store;
  EXPECT_EQ(suite.expect_right_by(GetParam(), store), GetParam().algorithm != "dissemination");
}

std::vector<Way> ways_over_foo() {
  std::vector<Way> ways = all_ways();
  std::erase_if(ways, [](const Way& way) { return way.transport != "foo"; });
  return ways;
}

INSTANTIATE_TEST_SUITE_P(Ways, NewTransportRows, testing::ValuesIn(ways_over_foo()), test_name);

TEST(NewTransport, LinksThreadsAndChildren) {
  LocalRanks ranks(4, {});
  ranks.run([](Communicator& communicator) {
    ASSERT_TRUE(communicator.barrier());
    auto half = communicator.split(communicator.rank() % 2, 0);
    ASSERT_TRUE(half) << half.error().message;
    const Status status = sums_right(*half);
    EXPECT_TRUE(status) << status.error().message;
    EXPECT_THAT(half->transport_to(1 - half->rank()), HasSubstr("foo"));
  });
}

}  // namespace
}  // namespace wreath::test
