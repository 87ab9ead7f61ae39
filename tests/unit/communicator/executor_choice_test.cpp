// Steps or loops written by hand: who asks for what, and what plans say.
#include <gmock/gmock.h>

#include "src/communicator/options.hpp"
#include "tests/support/local_ranks.hpp"
#include "tests/support/surroundings.hpp"

namespace wreath::test {
namespace {

using testing::HasSubstr;
using testing::Not;

CommunicatorOptions asking(const std::string& executor, const std::string& algorithm = "") {
  CommunicatorOptions options;
  options.executor = executor;
  options.algorithm = algorithm;
  options.tuning = "none";
  return options;
}

std::string plan(const CommunicatorOptions& options, Collective collective) {
  return Communicator::create_local(2, options).value().at(1).plan_for(collective, 1 << 20);
}

TEST(ExecutorChoice, IsStepsWhereNothingWasMeasured) {
  EXPECT_EQ(complete_options(asking(""))->executor, "auto");
  EXPECT_THAT(plan(asking("", "ring"), Collective::AllReduce), Not(HasSubstr("executor")));
}

TEST(ExecutorChoice, IsMadeByOptionOrVariable) {
  EXPECT_THAT(plan(asking("straight", "ring"), Collective::AllReduce), HasSubstr(" executor=straight"));
  const Environment variable({{"WREATH_EXECUTOR", std::string("straight")}});
  EXPECT_THAT(plan(asking("", "ring"), Collective::AllReduce), HasSubstr(" executor=straight"));
  EXPECT_THAT(plan(asking("steps", "ring"), Collective::AllReduce), Not(HasSubstr("executor")));
  EXPECT_THAT(plan(asking("auto", "ring"), Collective::AllReduce), Not(HasSubstr("executor")));
}

TEST(ExecutorChoice, LeavesRowsWithoutALoopToTheirSteps) {
  EXPECT_THAT(plan(asking("straight"), Collective::Broadcast), Not(HasSubstr("executor")));
  EXPECT_THAT(plan(asking("straight", "ring"), Collective::Broadcast), Not(HasSubstr("executor")));
}

TEST(ExecutorChoice, RefusesWhatDoesNotExist) {
  EXPECT_THAT(complete_options(asking("fast")).error().message, HasSubstr("executor 'fast' does not exist"));
  EXPECT_THAT(complete_options(asking("straight", "bruck")).error().message,
              HasSubstr("no loop is written by hand for the algorithm 'bruck'; these have one: ring two_shot"));
}

}  // namespace
}  // namespace wreath::test
