// A user's mistake is refused before the first step, on all ranks, by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "examples/train_gpt/data/text.hpp"
#include "examples/train_gpt/run/command_line.hpp"
#include "examples/train_gpt/run/session.hpp"
#include "tests/support/local_ranks.hpp"
#include "tests/support/processes.hpp"
#include "tests/support/surroundings.hpp"

namespace wreath::gpt {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using wreath::test::Folder;
using wreath::test::LocalRanks;

// Returns the text that parse() writes to standard error for these words, or "accepted".
std::string told(std::vector<std::string> words) {
  words.insert(words.begin(), "train_gpt");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  CommandLine line;
  testing::internal::CaptureStderr();
  const std::optional<int> code = parse(static_cast<int>(words.size()), arguments.data(), line);
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(code.value_or(2), 2);
  return code ? text : "accepted";
}

TEST(Refusals, CommandLine) {
  EXPECT_EQ(told({"--preset", "tiny", "--checkpoint", "folder", "--save-every", "5"}), "accepted");
  EXPECT_THAT(told({"--log-every", "-1"}), HasSubstr("--log-every -1: not a whole number of at least 0"));
  EXPECT_THAT(told({"--sample", "-1"}), HasSubstr("--sample -1"));
  EXPECT_THAT(told({"--validate-every", "-1"}), HasSubstr("--validate-every -1"));
  EXPECT_THAT(told({"--validation-windows", "-1"}), HasSubstr("--validation-windows -1"));
  EXPECT_THAT(told({"--checkpoint", "folder", "--checkpoint-writers", "0"}), HasSubstr("--checkpoint-writers 0"));
  EXPECT_THAT(told({"--checkpoint", ""}), HasSubstr("--checkpoint: its value is empty"));
  EXPECT_THAT(told({"--data="}), HasSubstr("--data"));
  EXPECT_THAT(told({"--resume"}), HasSubstr("--resume: needs --checkpoint"));
  EXPECT_THAT(told({"--save-every", "5"}), HasSubstr("--save-every: needs --checkpoint"));
  EXPECT_THAT(told({"--learning-rate", "nan"}), HasSubstr("--learning-rate nan"));
}

TEST(Refusals, NumbersThatNoTypeHolds) {
  EXPECT_EQ(told({"--seed", "18446744073709551615"}), "accepted");
  EXPECT_THAT(told({"--seed", "-1"}), HasSubstr("--seed -1: not a whole number of at least 0"));
  EXPECT_THAT(told({"--seed", "18446744073709551616"}),
              HasSubstr("--seed 18446744073709551616: not a whole number from 0 to 18446744073709551615"));
  EXPECT_THAT(told({"--steps", "9223372036854775808"}),
              HasSubstr("--steps 9223372036854775808: not a whole number from 0 to 9223372036854775807"));
  EXPECT_THAT(told({"--steps", "-9223372036854775809"}), HasSubstr("--steps -9223372036854775809"));
  EXPECT_THAT(told({"--log-every", "99999999999999999999"}), HasSubstr("--log-every 99999999999999999999"));
  EXPECT_THAT(told({"--dp", "4294967297"}), HasSubstr("--dp"));
  EXPECT_EQ(told({"--data", "99999999999999999999"}), "accepted");  // a file's name
}

TEST(Refusals, TextsThatCannotBeReadSayWhy) {
  const Folder folder;
  EXPECT_THAT(Text::from_file(folder / "none", 8).error().message,
              AllOf(HasSubstr(folder / "none"), HasSubstr("No such file")));
  EXPECT_THAT(Text::from_file(folder.path(), 8).error().message,
              AllOf(HasSubstr(folder.path()), HasSubstr("Is a directory")));
  std::ofstream(folder / "text") << std::string(1000, 'a') << "b";
  EXPECT_EQ(Text::from_file(folder / "text", 8).value().vocabulary(), 2);
}

// Runs a small job of two replicas and returns its errors by rank.
std::vector<std::string> errors_of(const CommandLine& line) {
  LocalRanks ranks(line.train.mesh.ranks(), {});
  std::vector<std::string> errors(static_cast<std::size_t>(line.train.mesh.ranks()));
  ranks.run([&](Communicator& of_rank) {
    const auto world = std::make_shared<Communicator>(std::move(of_rank));
    const int rank = world->rank();
    const Status done = train(world, line).status;
    errors[static_cast<std::size_t>(rank)] = done ? "" : done.error().message;
  });
  return errors;
}

// Returns options for two replicas of a small model, and more steps than the run makes.
CommandLine small_line(const Folder& folder) {
  std::ofstream(folder / "text") << std::string(2000, 'a') << std::string(2000, 'b');
  CommandLine line;
  line.data = folder / "text";
  line.train.mesh.dp = 2;
  line.train.batch = 2;
  line.train.model = {.layers = 1, .heads = 1, .width = 8, .context = 8};
  line.train.steps = 1'000'000;
  line.log_every = 0;
  return line;
}

std::int64_t lines_of(const std::string& path) {
  std::ifstream file(path);
  return std::count(std::istreambuf_iterator<char>(file), {}, '\n');
}

TEST(Refusals, MemoryThatTheMachineLacksIsNamedBeforeTheFirstStep) {
  const Folder folder;
  CommandLine line = small_line(folder);
  line.train.batch = 800'000;
  line.train.model = {};
  EXPECT_THAT(errors_of(line), Each(AllOf(HasSubstr("its 2 ranks need at least 1855.5 GiB of memory"),
                                          HasSubstr("GiB for activations), of which "), HasSubstr("--batch"))));
}

TEST(Refusals, TrainingThatDivergesEndsOnAllRanks) {
  const Folder folder;
  CommandLine line = small_line(folder);
  line.csv = folder / "loss.csv";
  line.train.learning_rate = 1e30f;
  line.train.clip = 0;
  EXPECT_THAT(errors_of(line), Each(AllOf(HasSubstr("step "), HasSubstr("training has diverged"))));
  EXPECT_LT(lines_of(line.csv), 10);
  // The scale is halved first.
  line.train.precision = "float16";
  EXPECT_THAT(errors_of(line), Each(AllOf(HasSubstr("step "), HasSubstr("training has diverged"))));
}

// The folder becomes a file while the job trains. The run reports the failed save before the next one is due.
TEST(Refusals, ASaveThatFailsInTheBackgroundEndsTheRunAtOnce) {
  // This is long beside a save, however busy the cores are.
  constexpr std::int64_t kSaveEvery = 20'000;
  const Folder folder;
  CommandLine line = small_line(folder);
  line.csv = folder / "loss.csv";
  line.checkpoint = folder / "saved";
  line.save_every = kSaveEvery;
  std::jthread spoils([&](const std::stop_token& stop) {
    while (lines_of(line.csv) < 2 && !stop.stop_requested()) testing_support::sleep_ms(1);
    while (!std::filesystem::is_regular_file(line.checkpoint) && !stop.stop_requested()) {
      // A save makes files there meanwhile.
      std::error_code busy;
      std::filesystem::remove_all(line.checkpoint, busy);
      std::ofstream(line.checkpoint) << "in the way";
    }
  });
  EXPECT_THAT(errors_of(line), Each(HasSubstr(line.checkpoint)));
  const std::int64_t steps = lines_of(line.csv) - 1;
  EXPECT_GT(steps % kSaveEvery, 0) << steps << " steps: it was told at the next save";
}

TEST(Refusals, ResultsThatCannotBeWrittenEndTheRunBeforeItsFirstStep) {
  const Folder folder;
  const CommandLine line = small_line(folder);
  const std::vector<std::string CommandLine::*> files = {&CommandLine::html, &CommandLine::csv, &CommandLine::jsonl,
                                                         &CommandLine::checkpoint};
  for (const auto file : files) {
    CommandLine wrong = line;
    wrong.*file = folder / "text/x";  // below a file
    EXPECT_THAT(errors_of(wrong), Each(AllOf(HasSubstr("rank 0: "), HasSubstr(folder / "text"))));
  }
  CommandLine wrong = line;
  wrong.data = folder / "none";
  EXPECT_THAT(errors_of(wrong), Each(HasSubstr(folder / "none")));
}

}  // namespace
}  // namespace wreath::gpt
