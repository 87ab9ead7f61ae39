// Tests errors where members meet as another communicator.
#include "src/membership/join.hpp"

#include <gtest/gtest.h>

namespace wreath {
namespace {

TEST(Join, AFailureOfAChildNamesTheRankOfTheParent) {
  const std::vector<Rank> members = {0, 3, 7};
  const Error error = error_of_child({ErrorCode::StartupFailed, "rank 2 left during start-up", 2}, members);
  EXPECT_EQ(error.code, ErrorCode::StartupFailed);
  EXPECT_EQ(error.failed_rank, 7);
  EXPECT_NE(error.message.find("the new communicator of 3 ranks: rank 2 left"), std::string::npos) << error.message;
}

TEST(Join, AFailureOfAChildThatNamesNobodyNamesNobody) {
  EXPECT_EQ(error_of_child({ErrorCode::System, "no memory", -1}, {1, 2}).failed_rank, -1);
  EXPECT_EQ(error_of_child({ErrorCode::System, "no memory", 2}, {1, 2}).failed_rank, -1);
}

}  // namespace
}  // namespace wreath
