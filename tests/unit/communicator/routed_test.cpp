// Tests a whole communicator whose control messages all go through rank 0: its engine, links, split and shrink know
// ranks, and no connection.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "src/bootstrap/bootstrap.hpp"
#include "src/communicator/options.hpp"
#include "src/communicator/rank_communicator.hpp"
#include "tests/support/routed_members.hpp"

namespace wreath::routed_tests {
namespace {

using testing_support::Route;
using testing_support::RoutedMembers;

constexpr int kRanks = 4;
using One = std::shared_ptr<RankCommunicator>;

// Fills `values` with ones and replaces them by their sums over all ranks.
Status add_ones(RankCommunicator& communicator, std::span<float> values) {
  std::fill(values.begin(), values.end(), 1.0F);
  Call call;
  call.input = reinterpret_cast<const std::byte*>(values.data());
  call.output = reinterpret_cast<std::byte*>(values.data());
  call.count = values.size();
  const std::unique_lock guard(communicator.engine()->gate(), std::try_to_lock);
  return communicator.engine()->run(call);
}

void expect_sum(const One& communicator, std::size_t count) {
  std::vector<float> values(count);
  const Status status = add_ones(*communicator, values);
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(values.front(), static_cast<float>(communicator->engine()->ranks()));
  EXPECT_EQ(values.back(), static_cast<float>(communicator->engine()->ranks()));
}

// Runs `body` for each rank on a thread of its own. No rank leaves before the last is done, since rank 0 passes on the
// messages of the others.
void run(const char* transport, const std::function<void(const One&)>& body) {
  const auto route = std::make_shared<Route>(kRanks);
  CommunicatorOptions options;
  options.transports = {transport};
  auto members = join_local(kRanks, encode_options(options)).value();
  std::vector<One> all(kRanks);
  {
    std::vector<std::jthread> threads;
    for (Membership& one : members) {
      threads.emplace_back([&] {
        auto routed = std::make_unique<RoutedMembers>(one.rank, one.members, route);
        One& made = all[static_cast<std::size_t>(one.rank)];
        auto linked = RankCommunicator::create(std::move(routed), std::move(one));
        ASSERT_TRUE(linked) << linked.error().message;
        made = *std::move(linked);
        body(made);
      });
    }
  }
  EXPECT_GT(route->passed_on(), 0u);
  for (auto one = all.rbegin(); one != all.rend(); ++one) {
    if (*one) (*one)->leave();
  }
}

class RoutedCommunicator : public ::testing::TestWithParam<const char*> {};

TEST_P(RoutedCommunicator, RunsSmallAndLargeCalls) {
  run(GetParam(), [](const One& communicator) {
    expect_sum(communicator, 2);
    expect_sum(communicator, 3'000'000);
  });
}

TEST_P(RoutedCommunicator, SplitsAndShrinks) {
  run(GetParam(), [](const One& communicator) {
    const int rank = communicator->engine()->rank();
    const auto half = communicator->split(rank % 2, rank);
    ASSERT_TRUE(half) << half.error().message;
    EXPECT_EQ((*half)->engine()->ranks(), kRanks / 2);
    expect_sum(*half, 1000);
    (*half)->leave();
    if (rank == 3) {
      EXPECT_TRUE(communicator->abort());
      return;
    }
    std::vector<float> values(1000);
    const Status lost = add_ones(*communicator, values);
    ASSERT_FALSE(lost);
    EXPECT_EQ(lost.error().failed_rank, 3) << lost.error().message;
    const auto survivors = communicator->shrink(5'000, {});
    ASSERT_TRUE(survivors) << survivors.error().message;
    EXPECT_EQ((*survivors)->engine()->ranks(), kRanks - 1);
    expect_sum(*survivors, 1000);
    (*survivors)->leave();
  });
}

INSTANTIATE_TEST_SUITE_P(All, RoutedCommunicator, ::testing::Values("inproc", "shm"),
                         [](const auto& transport) { return std::string(transport.param); });

}  // namespace
}  // namespace wreath::routed_tests
