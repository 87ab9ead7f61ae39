// Tests `wreath doctor`: what it finds here and elsewhere, and that ranks hold no more memory than the budget says.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/support/fake_devices.hpp"
#include "tests/support/processes.hpp"
#include "tests/unit/commands/command.hpp"
#include "wreath/memory_budget.hpp"

namespace wreath {
namespace {

using testing::HasSubstr;
using testing_support::Outcome;
using testing_support::run_command;

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

void expect_within_budget(int ranks) {
  const Outcome outcome = run_command("doctor --memory --json --ranks " + std::to_string(ranks));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.text;
  // On a busy machine a warning about connections with a late proof may come first.
  const std::size_t start = outcome.text.find("{\n");
  ASSERT_NE(start, std::string::npos) << outcome.text;
  const nlohmann::json report = nlohmann::json::parse(outcome.text.substr(start), nullptr, false);
  ASSERT_FALSE(report.is_discarded()) << outcome.text;
  const nlohmann::json& held = report.at("held");
  const nlohmann::json& budget = report.at("budget");
  for (const char* name : {"rank_bytes", "host_bytes", "descriptors", "threads"}) {
    EXPECT_GT(held.at(name).get<std::int64_t>(), 0) << name;
    EXPECT_LE(held.at(name).get<std::int64_t>(), budget.at(name).get<std::int64_t>()) << name;
  }
  // Without staging the test of the budget would be an empty one.
  EXPECT_GT(held.at("rank_bytes").get<std::int64_t>(), budget.at("staging_bytes").get<std::int64_t>() / 2);
  EXPECT_LT(held.at("host_bytes").get<std::int64_t>(), 12 * kGiB);
}

TEST(DoctorCommand, RanksHoldNoMoreMemoryThanTheBudget) {
  if (testing_support::kSanitized) GTEST_SKIP() << "sanitizers hold memory of their own: run it in the preset dev";
  for (const int ranks : {1, 2, 16}) expect_within_budget(ranks);
  expect_within_budget(testing_support::rounds(64, 256));
}

// The test does not know what is wrong with this machine itself.
TEST(DoctorCommand, LooksAtThisMachineAndItsVariables) {
  const test::Environment environment{{{"WREATH_LANE", "8"}}};
  const Outcome outcome = run_command("doctor");
  EXPECT_EQ(outcome.exit_code, 1) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("WREATH_LANE is not a setting; did you mean WREATH_LANES?"));
  EXPECT_THAT(outcome.text, HasSubstr("fix: unset WREATH_LANE; export WREATH_LANES=..."));
  EXPECT_EQ(outcome.text.find('\x1b'), std::string::npos) << "colours are for terminals";
}

TEST(DoctorCommand, LooksAtACopyOfAnotherMachine) {
  const test::FakeMachine machine;
  test::make_gpu_server(machine);
  const Outcome outcome = run_command("doctor --json --root " + machine.root());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.text;
  const nlohmann::json report = nlohmann::json::parse(outcome.text, nullptr, false);
  ASSERT_FALSE(report.is_discarded()) << outcome.text;
  EXPECT_EQ(report.at("problems"), 0);
  EXPECT_GT(report.at("notes"), 0);
  for (const nlohmann::json& finding : report.at("findings")) {
    EXPECT_EQ(finding.at("fix").get<std::string>().empty(), finding.at("verdict") == "ok") << finding.dump();
  }
}

TEST(DoctorCommand, RefusesWhatItCannotLookAt) {
  EXPECT_EQ(run_command("doctor --memory --root /").exit_code, 2);
  EXPECT_EQ(run_command("doctor --memory --ranks 0").exit_code, 2);
  EXPECT_EQ(run_command("doctor --nccl /bin/sh --root /").exit_code, 2);
  EXPECT_EQ(run_command("doctor --nccl /bin/sh --memory").exit_code, 2);
  EXPECT_EQ(run_command("doctor --nccl ''").exit_code, 2);
  EXPECT_EQ(run_command("doctor --memory --ranks 100000").exit_code, 2);
}

TEST(MemoryBudget, OfSlotsIsSharedByTheRanksOfAProcess) {
  const MemoryBudget alone = memory_budget(16).value();
  const MemoryBudget together = memory_budget(16, 16).value();
  EXPECT_LE(alone.staging, std::size_t{32} << 20);
  EXPECT_LE(16 * together.staging, std::size_t{32} << 20);
  EXPECT_FALSE(memory_budget(0));
  EXPECT_FALSE(memory_budget(4, 5));
}

// A whole job of 256 ranks on one machine fits into less than 12 GiB.
TEST(MemoryBudget, OfManyRanksFitsAHost) {
  const MemoryBudget budget = memory_budget(256).value();
  EXPECT_LT(256 * budget.bytes(), static_cast<std::size_t>(12 * kGiB));
}

}  // namespace
}  // namespace wreath
