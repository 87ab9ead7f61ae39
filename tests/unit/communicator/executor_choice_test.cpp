// Tests the choice between steps and handwritten loops: who asks for which, and what plans say.
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
  options.overrides.executor = executor;
  options.overrides.algorithm = algorithm;
  options.tuning = "none";
  return options;
}

std::string plan(const CommunicatorOptions& options, Collective collective) {
  return Communicator::create_local(2, options).value().at(1).plan_for(collective, 1 << 20);
}

TEST(ExecutorChoice, IsStepsWhereNothingIsAsked) {
  EXPECT_THAT(plan(asking("", "ring"), Collective::AllReduce), Not(HasSubstr("executor")));
}

TEST(ExecutorChoice, IsMadeByTheOptionAlone) {
  EXPECT_THAT(plan(asking("handwritten", "ring"), Collective::AllReduce), HasSubstr(" executor=handwritten"));
  const Environment variable({{"WREATH_EXECUTOR", std::string("handwritten")}});
  EXPECT_THAT(plan(asking("", "ring"), Collective::AllReduce), Not(HasSubstr("executor")));
  EXPECT_THAT(plan(asking("steps", "ring"), Collective::AllReduce), Not(HasSubstr("executor")));
}

TEST(ExecutorChoice, LeavesRowsWithoutALoopToTheirSteps) {
  EXPECT_THAT(plan(asking("handwritten"), Collective::Broadcast), Not(HasSubstr("executor")));
  EXPECT_THAT(plan(asking("handwritten", "ring"), Collective::Broadcast), Not(HasSubstr("executor")));
}

TEST(ExecutorChoice, RefusesWhatDoesNotExist) {
  EXPECT_THAT(complete_options(asking("fast")).error().message, HasSubstr("executor 'fast' does not exist"));
  EXPECT_THAT(complete_options(asking("straight")).error().message, HasSubstr("('straight' is 'handwritten' now)"));
  EXPECT_THAT(complete_options(asking("auto")).error().message, HasSubstr("('auto' is 'steps' now)"));
  EXPECT_THAT(complete_options(asking("handwritten", "bruck")).error().message,
              HasSubstr("the algorithm 'bruck' has no handwritten loop; these have one: ring two_shot"));
}

}  // namespace
}  // namespace wreath::test
