// Processes are killed while they save. The checkpoint before always loads, and the next save removes the files of the
// dead one.
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "tests/support/local_ranks.hpp"
#include "tests/support/processes.hpp"
#include "tests/training/checkpoint/model.hpp"
#include "training/checkpoint/checkpoint.hpp"

namespace wreath::training {
namespace {

using test::Division;
using test::RankState;
using test::state_of;
using testing_support::kSlower;
using testing_support::RankProcess;
using testing_support::rounds;
using wreath::test::Folder;
using wreath::test::LocalRanks;

constexpr Division kDivision{2, 1, 1, true};

// Saves every step from the step `from` on, until the process is killed.
WREATH_ROLE(saves) {
  const std::string folder = child.text("folder");
  LocalRanks ranks(kDivision.ranks(), {});
  ranks.run([&](Communicator& world) {
    RankState rank(kDivision, world.rank());
    MemoryAccounting memory;
    CheckpointOptions options;
    options.file_bytes = 700;
    options.keep = 3;
    auto checkpointer = std::move(Checkpointer::create(world, folder, rank.shard(), memory, options)).value();
    for (std::int64_t step = child.number("from");; ++step) {
      rank.fill(step);
      checkpointer->save(state_of(step), rank.shard()).value();
      checkpointer->wait().value();
      if (world.rank() == 0) child.report("saved " + std::to_string(step));
    }
  });
  return 0;
}

// Loads the latest checkpoint, expects that it is whole, and returns its step.
std::int64_t load_latest(const std::string& folder) {
  const std::optional<std::string> latest = latest_checkpoint(folder).value();
  if (!latest) return 0;
  RankState rank(Division{}, 0);
  Communicator none;
  const Result<TrainingState> state = load_checkpoint(none, *latest, rank.shard());
  if (!state) {
    ADD_FAILURE() << state.error().message;
    return 0;
  }
  EXPECT_EQ(*state, state_of(state->step));
  EXPECT_EQ(rank.difference(state->step), "");
  return state->step;
}

std::int64_t last_saved(const RankProcess& process) {
  std::int64_t step = 0;
  for (const std::string& line : process.lines()) {
    if (line.starts_with("saved ")) step = std::stoll(line.substr(6));
  }
  return step;
}

TEST(CheckpointCrash, ThePreviousCheckpointLoadsWheneverASaveIsKilled) {
  const Folder folder;
  std::mt19937 random(11);
  const int kills = rounds(20, 200);
  std::int64_t step = 0;
  int left_behind = 0;
  for (int kill = 0; kill < kills; ++kill) {
    RankProcess process =
        RankProcess::start("saves", {{"folder", folder / "c"}, {"from", std::to_string(step + 1)}}, {}, folder / "log");
    ASSERT_TRUE(process.wait_for("saved ", 30'000 * kSlower)) << process.log();
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 120'000));
    process.signal(SIGKILL);
    ASSERT_TRUE(process.join(10'000 * kSlower));
    const std::int64_t reported = last_saved(process);
    ASSERT_GT(reported, step);
    int hidden = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder / "c")) {
      hidden += entry.path().filename().string().starts_with(".") ? 1 : 0;
    }
    EXPECT_LE(hidden, 2) << "what earlier saves left is not removed";
    left_behind += hidden;
    step = load_latest(folder / "c");
    ASSERT_GE(step, reported);
    ASSERT_LE(step, reported + 1);
  }
  std::printf("%d kills up to step %lld; %d half-written folders were left behind\n", kills,
              static_cast<long long>(step), left_behind);
  EXPECT_GT(left_behind, 0) << "no kill met a save";
}

}  // namespace
}  // namespace wreath::training
