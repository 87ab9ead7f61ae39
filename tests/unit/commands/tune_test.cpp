// Tests `wreath tune`: communicators read what it writes, explanations show it, and it refuses what it cannot do.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "tests/support/surroundings.hpp"
#include "tests/unit/commands/command.hpp"
#include "wreath/communicator.hpp"
#include "wreath/tuning.hpp"

namespace wreath {
namespace {

using testing::HasSubstr;
using testing_support::run_command;

TEST(TuneCommand, WritesWhatCommunicatorsReadAndExplanationsShow) {
  const test::Folder folder;
  const std::string path = folder / "cache/tuning.json";
  Tuning before = empty_tuning();
  before.device = "a GPU that is gone";
  before.times = {{Collective::AllReduce, 2, "", 8, "one_shot", 0, 0.5, true}};
  ASSERT_TRUE(write_tuning(before, path));
  const auto tuned = run_command(
      "tune --collective broadcast --collective all_reduce --smallest 2K --largest 32K "
      "--seconds 300 --output " +
      path);
  ASSERT_EQ(tuned.exit_code, 0) << tuned.text;
  EXPECT_THAT(tuned.text, testing::AllOf(HasSubstr("broadcast"), HasSubstr("all_reduce"), HasSubstr(path)));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder / "cache"), {}), 1) << "no part is left";
  const Tuning tuning = read_tuning(path).value();
  EXPECT_TRUE(check_origin(tuning, path));
  EXPECT_TRUE(std::none_of(tuning.times.begin(), tuning.times.end(), [](const auto& time) { return time.device; }));
  // The file has a time for each collective, kind of links and size, among others for the library's own choice.
  for (const Collective collective : {Collective::Broadcast, Collective::AllReduce}) {
    for (const std::string wire : {"", "tcp"}) {
      for (const std::size_t bytes : {2048u, 8192u, 32768u}) {
        const PlanCandidate own = explain_plan({collective, bytes, 2, wire, true}, nullptr).value().chosen;
        const PlanCandidate known = explain_plan({collective, bytes, 2, wire, true}, &tuning).value().chosen;
        EXPECT_TRUE(known.measured_us) << name(collective) << " of " << bytes << " over " << wire;
        EXPECT_TRUE(std::any_of(tuning.times.begin(), tuning.times.end(),
                                [&](const TuningTime& time) {
                                  return time.collective == collective && time.wire == wire && time.bytes == bytes &&
                                         time.algorithm == own.algorithm->name &&
                                         time.tile_bytes == (own.small ? 0 : own.tile_bytes);
                                }))
            << own.algorithm->name << " of " << name(collective) << " of " << bytes;
      }
    }
  }
  CommunicatorOptions options;
  options.tuning = path;
  EXPECT_TRUE(Communicator::create_local(2, options));
  const auto explained = run_command("plan explain all_reduce 8K --tuning " + path);
  EXPECT_EQ(explained.exit_code, 0);
  EXPECT_THAT(explained.text,
              testing::AllOf(HasSubstr("measurement: " + path), testing::Not(HasSubstr("not measured"))));
}

// The device is made of host threads. The entries of the host's memory stay in the file, and no communicator takes the
// new ones.
TEST(TuneCommand, MeasuresDevicesBesideTheHost) {
  const test::Folder folder;
  const std::string path = folder / "tuning.json";
  Tuning before = empty_tuning();
  before.device = "a GPU that is gone";
  before.times = {{Collective::AllReduce, 2, "", 8, "one_shot", 0, 0.25}};
  ASSERT_TRUE(write_tuning(before, path));
  const auto tuned = run_command(
      "tune --memory host-device --collective all_reduce --transport shm --smallest 256K --largest 256K --output " +
      path);
  ASSERT_EQ(tuned.exit_code, 0) << tuned.text;
  const Tuning tuning = read_tuning(path).value();
  EXPECT_EQ(tuning.times.front().time_us, 0.25);
  EXPECT_TRUE(std::any_of(tuning.times.begin(), tuning.times.end(), [&](const TuningTime& time) {
    return time.device && time.wire.empty() && time.algorithm == "two_shot";
  }));
  EXPECT_THAT(check_origin(tuning, path).error().message, HasSubstr("another GPU"));
}

TEST(TuneCommand, RefusesWhatItCannotTune) {
  const auto expect_refused = [](const std::string& arguments, const std::string& words) {
    const auto outcome = run_command("tune " + arguments);
    EXPECT_NE(outcome.exit_code, 0) << arguments;
    EXPECT_THAT(outcome.text, HasSubstr(words)) << arguments;
  };
  expect_refused("--collective barrier", "nothing to choose");
  expect_refused("--collective all_produce", "all_produce");
  expect_refused("--transport pigeon", "pigeon");
  expect_refused("--smallest 64K --largest 8", "in this order");
  expect_refused("--ranks 1", "--ranks");
  expect_refused("--memory pinned", "--memory");
  expect_refused("--memory host-device", "name a file");
  const test::Folder folder;
  std::ofstream(folder / "file") << "text";
  expect_refused("--output " + (folder / "file/tuning.json"), folder / "file");
}

}  // namespace
}  // namespace wreath
