// Tests checksums of messages over all wires: rank 0 asks for them on behalf of all ranks.
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/bootstrap/bootstrap.hpp"
#include "src/communicator/options.hpp"
#include "src/communicator/rank_communicator.hpp"
#include "tests/support/surroundings.hpp"
#include "tests/support/transports.hpp"
#include "wreath/communicator.hpp"

namespace wreath::checked_wires {
namespace {

CommunicatorOptions over(const std::string& wire, bool check) {
  CommunicatorOptions options;
  options.transports = {wire};
  options.check_wires = check;
  return options;
}

TEST(CheckedWiresOptions, AreAskedForByTheEnvironment) {
  EXPECT_FALSE(complete_options({})->check_wires);
  const test::Environment environment{{{"WREATH_CHECK", "1"}}};
  EXPECT_TRUE(complete_options({})->check_wires);
  EXPECT_TRUE(decode_options(encode_options(complete_options({}).value()))->check_wires);
}

// The wires read the setting in the shape of their FIFOs.
TEST(CheckedWiresOptions, ReachTheShapeOfTheFifos) {
  for (const bool check : {false, true}) {
    CommunicatorOptions options;
    options.check_wires = check;
    auto memberships = join_local(2, encode_options(options)).value();
    std::vector<std::jthread> ranks;
    for (Membership& membership : memberships) {
      ranks.emplace_back([&] {
        const auto communicator = RankCommunicator::create(std::move(membership));
        ASSERT_TRUE(communicator) << communicator.error().message;
        EXPECT_EQ((*communicator)->engine()->shape().checked, check);
        (*communicator)->leave();
      });
    }
  }
}

class CheckedWires : public testing::TestWithParam<std::string> {};

// A peer would refuse a rank that did otherwise than rank 0.
TEST_P(CheckedWires, AreAsRankZeroSays) {
  for (const bool check : {false, true}) {
    const UniqueId id = UniqueId::create().value();
    const auto rank = [&](int me) {
      Communicator communicator = Communicator::create(id, me, 2, over(GetParam(), me == 0 ? check : !check)).value();
      Communicator child = communicator.duplicate().value();
      for (const std::size_t count : {1U, 1000U, 5000U, 300'000U}) {
        std::vector<float> values(count, 1.5F);
        const Status status = child.all_reduce(std::span(values));
        ASSERT_TRUE(status) << status.error().message;
        EXPECT_EQ(values, std::vector<float>(count, 3.0F));
      }
    };
    const std::jthread other([&] { rank(1); });
    rank(0);
  }
}

INSTANTIATE_TEST_SUITE_P(Over, CheckedWires, testing::ValuesIn(test::usable_wires()),
                         [](const auto& wire) { return wire.param; });

}  // namespace
}  // namespace wreath::checked_wires
