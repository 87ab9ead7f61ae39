// Tests `wreath plan`: it refuses by name what it cannot show, prove or time, and does not pass over it.
#include <gmock/gmock.h>

#include <string>

#include "tests/unit/commands/command.hpp"

namespace wreath {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing_support::kUsage;
using testing_support::Outcome;
using testing_support::run_command;

void expect_refused(const std::string& arguments, const std::string& words) {
  const Outcome outcome = run_command(arguments);
  EXPECT_EQ(outcome.exit_code, kUsage) << arguments;
  EXPECT_NE(outcome.text.find(words), std::string::npos) << arguments << ": " << outcome.text;
}

TEST(PlanCommand, ShowsProvesAndTimes) {
  EXPECT_EQ(run_command("plan show broadcast 1M --root 3").exit_code, 0);
  EXPECT_EQ(run_command("plan show gather 1M --root 3 --ranks 2..4").exit_code, 0);
  EXPECT_EQ(run_command("plan verify broadcast 64K --ranks 3 --root 2").exit_code, 0);
  EXPECT_EQ(run_command("plan simulate all_reduce 64K --latency 0").exit_code, 0);
}

TEST(PlanCommand, RefusesARootThatIsNoRank) {
  for (const std::string command : {"plan show broadcast 1M", "plan verify broadcast 1M", "plan simulate reduce 1M"}) {
    expect_refused(command + " --ranks 2..4 --root 4", "--root 4");
  }
  expect_refused("plan show broadcast 1M --root 4", "--root 4");
}

TEST(PlanCommand, RefusesTilesAndLanesOfNothing) {
  for (const std::string command : {"plan show all_reduce 1M", "plan verify all_reduce 1M --ranks 2"}) {
    expect_refused(command + " --tile 0", "--tile 0");
    expect_refused(command + " --lanes 0", "--lanes");
    expect_refused(command + " --lanes -1", "--lanes");
  }
}

TEST(PlanCommand, RefusesAMachineThatIsNoNumber) {
  expect_refused("plan simulate all_reduce 1M --bandwidth nan", "--bandwidth nan: not a number of at least");
  expect_refused("plan simulate all_reduce 1M --latency nan", "--latency nan: not a number of at least 0");
}

TEST(PlanCommand, ExplainsWhatIsChosenAndWhyNotTheOthers) {
  const Outcome text = run_command("plan explain all_reduce 64MiB --ranks 4 --tuning none");
  EXPECT_EQ(text.exit_code, 0);
  for (const std::string word :
       {"algorithm  two_shot, 1 data lane, tiles of 256K", "chosen by  the library's rules", "sums in ring order",
        "sums in tree order", "run `wreath tune`", "predicted", "rabenseifner", "times as long"}) {
    EXPECT_NE(text.text.find(word), std::string::npos) << word << " is not in\n" << text.text;
  }
  EXPECT_NE(run_command("plan explain all_gather 1M --ranks 3 --tuning none").text.find("does not serve 3 ranks"),
            std::string::npos);
  EXPECT_EQ(
      run_command("plan explain all_reduce 1M --ranks 4 --tuning none --any-order").text.find("sums in ring order"),
      std::string::npos);
  EXPECT_NE(text.text.find("slots      messages above 2K and up to 128K use "), std::string::npos) << text.text;
  EXPECT_EQ(run_command("plan explain all_reduce 1M --transport tcp --tuning none").text.find("  slots  "),
            std::string::npos);
  const Outcome json = run_command("plan explain broadcast 1M --ranks 8 --transport tcp --tuning none --json");
  EXPECT_EQ(json.exit_code, 0);
  EXPECT_NE(json.text.find("\"algorithm\": \"chain\""), std::string::npos) << json.text;
  EXPECT_NE(json.text.find("\"ping_pong\": false"), std::string::npos) << json.text;
  EXPECT_NE(json.text.find("\"small\": false"), std::string::npos) << json.text;
}

TEST(PlanCommand, ExplainsTheWayOfMessagesThatArePut) {
  const auto explained = [](const std::string& call) {
    return run_command("plan explain all_reduce " + call + " --ranks 2 --tuning none", "WREATH_OFI_PROVIDER=tcp ").text;
  };
  EXPECT_THAT(explained("64M --transport tcp"), Not(HasSubstr("  messages  "))) << "all go alike";
  EXPECT_THAT(explained("64M --transport shm --json"), HasSubstr("\"message\": null"));
  const std::string large = explained("64M --transport ofi");
  if (large.find("in 1 part, then its header (tcp") == std::string::npos &&
      run_command("doctor").text.find("libfabric.so") == std::string::npos)
    GTEST_SKIP() << "no libfabric here: install libfabric-dev";
  EXPECT_THAT(large, HasSubstr("  messages   512K: staged by the step that sends it, or by reference where"));
  EXPECT_THAT(large, HasSubstr("in 1 part, then its header (tcp"));
  EXPECT_THAT(large, HasSubstr("costs its sender 2 puts, 1 doorbell, 2 completions, 0 registrations, 0 copied bytes"));
  const std::string json = explained("4K --transport ofi --json");
  EXPECT_THAT(json, HasSubstr("\"way\": \"staged: copied beside its header"));
  EXPECT_THAT(json, HasSubstr("\"puts\": 1"));
}

TEST(PlanCommand, RefusesWhatItCannotExplain) {
  expect_refused("plan explain all_produce 1M", "all_produce");
  expect_refused("plan explain all_reduce 1Q", "1Q");
  expect_refused("plan explain all_reduce 1M --ranks 2..3", "--ranks 2..3");
  expect_refused("plan explain all_reduce 1M --transport pigeon", "pigeon");
  EXPECT_NE(run_command("plan explain all_reduce 1M --tuning no/such/file").exit_code, 0);
}

TEST(PlanCommand, ExplainsWithTheTuningThatCommunicatorsTake) {
  const Outcome refused = run_command("plan explain all_reduce 1M", "WREATH_TUNING=no/such/file ");
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_NE(refused.text.find("no/such/file"), std::string::npos) << refused.text;
}

// From 258 ranks on, the rows of the rules once did not serve, and their replacement sent 9 S. The explanation for 257
// ranks took a minute.
TEST(PlanCommand, ExplainsCallsOfAnyNumberOfRanks) {
  for (const char* const ranks : {"250", "257", "258", "260", "4096", "65536"}) {
    const Outcome large =
        run_command(std::string("plan explain all_reduce 64M --transport tcp --tuning none --ranks ") + ranks);
    EXPECT_EQ(large.exit_code, 0) << large.text;
    const bool all_at_once = std::stoi(ranks) <= 257;
    EXPECT_THAT(large.text, HasSubstr(all_at_once ? "algorithm  two_shot" : "algorithm  rabenseifner"));
    EXPECT_THAT(large.text, HasSubstr("not simulated beyond 64 ranks"));
  }
}

// A proof of nothing is no proof.
TEST(PlanCommand, RefusesToProveNothing) {
  expect_refused("plan verify all_reduce --algorithm two_shot --ranks 300", "nothing to prove");
  expect_refused("plan simulate all_reduce 1M --algorithm two_shot --ranks 300", "nothing to simulate: none of these");
}

}  // namespace
}  // namespace wreath
