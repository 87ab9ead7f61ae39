// The links lose or cut every message, or close at the first one. Each call then ends with an error that fits.
#include <gmock/gmock.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/local_ranks.hpp"
#include "tests/support/surroundings.hpp"

namespace wreath::test {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

// This time is longer than the second in which a peer may report its error.
constexpr std::int64_t kLongStallMs = 20'000;

class FaultyLinks : public ::testing::TestWithParam<std::string> {
 protected:
  // Returns the status of each of two ranks after an all_reduce over links with those faults.
  std::vector<Status> sums(const std::string& faults, std::int64_t stall_ms) const {
    CommunicatorOptions options;
    options.transports = {GetParam()};
    options.debug.faults = faults;
    options.timeouts.stall_ms = stall_ms;
    options.timeouts.arrival_ms = 5'000;
    LocalRanks ranks(2, options);
    std::vector<Status> statuses(2);
    ranks.run([&](Communicator& communicator) {
      std::vector<std::int32_t> values(100'000, communicator.rank() + 1);
      statuses[static_cast<std::size_t>(communicator.rank())] = communicator.all_reduce(std::span(values));
    });
    return statuses;
  }

  const RecordingsFolder recordings_{};
};

TEST_P(FaultyLinks, ThatLoseMessagesStallTheCall) {
  for (const Status& status : sums("drop=1", 500)) {
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::Timeout) << status.error().message;
    EXPECT_THAT(status.error().message, HasSubstr("nothing moved for"));
  }
}

TEST_P(FaultyLinks, ThatCloseLoseThePeer) {
  for (const Status& status : sums("close=1", kLongStallMs)) {
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::PeerLost) << status.error().message;
    EXPECT_THAT(status.error().message, HasSubstr("faulty link from rank"));
    EXPECT_THAT(status.error().message, HasSubstr("closed"));
  }
}

TEST_P(FaultyLinks, ThatCutMessagesAreNoticed) {
  for (const Status& status : sums("truncate=1", kLongStallMs)) {
    ASSERT_FALSE(status);
    EXPECT_THAT(status.error().code, AnyOf(ErrorCode::Mismatch, ErrorCode::PeerLost)) << status.error().message;
  }
}

INSTANTIATE_TEST_SUITE_P(Over, FaultyLinks, ::testing::Values("inproc", "tcp"),
                         [](const auto& row) { return row.param; });

}  // namespace
}  // namespace wreath::test
