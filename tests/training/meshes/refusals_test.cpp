// What a user gets wrong: refused before the first step, on all ranks, by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "examples/train_gpt/data/text.hpp"
#include "examples/train_gpt/run/command_line.hpp"
#include "examples/train_gpt/run/session.hpp"
#include "tests/support/local_ranks.hpp"
#include "tests/support/surroundings.hpp"

namespace wreath::gpt {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using wreath::test::Folder;
using wreath::test::LocalRanks;

// What parse() says of these words on standard error; "accepted".
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
  EXPECT_THAT(told({"--log-every", "-1"}), HasSubstr("--log-every -1: must be at least 0"));
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

TEST(Refusals, TextsThatCannotBeReadSayWhy) {
  const Folder folder;
  EXPECT_THAT(Text::from_file(folder / "none", 8).error().message,
              AllOf(HasSubstr(folder / "none"), HasSubstr("No such file")));
  EXPECT_THAT(Text::from_file(folder.path(), 8).error().message,
              AllOf(HasSubstr(folder.path()), HasSubstr("Is a directory")));
  std::ofstream(folder / "text") << std::string(1000, 'a') << "b";
  EXPECT_EQ(Text::from_file(folder / "text", 8).value().vocabulary(), 2);
}

// A small run of two replicas; its errors by rank.
std::vector<std::string> errors_of(const CommandLine& line) {
  LocalRanks ranks(line.train.mesh.ranks(), {});
  std::vector<std::string> errors(static_cast<std::size_t>(line.train.mesh.ranks()));
  ranks.run([&](Communicator& of_rank) {
    const auto world = std::make_shared<Communicator>(std::move(of_rank));
    const int rank = world->rank();
    const Status done = train(world, line);
    errors[static_cast<std::size_t>(rank)] = done ? "" : done.error().message;
  });
  return errors;
}

TEST(Refusals, ResultsThatCannotBeWrittenEndTheRunBeforeItsFirstStep) {
  const Folder folder;
  std::ofstream(folder / "text") << std::string(2000, 'a') << std::string(2000, 'b');
  CommandLine line;
  line.data = folder / "text";
  line.train.mesh.dp = 2;
  line.train.batch = 2;
  line.train.model = {.layers = 1, .heads = 1, .width = 8, .context = 8};
  line.train.steps = 1'000'000;  // not made
  const std::vector<std::string CommandLine::*> files = {&CommandLine::html, &CommandLine::csv, &CommandLine::jsonl,
                                                         &CommandLine::checkpoint};
  for (const auto file : files) {
    CommandLine wrong = line;
    wrong.*file = folder / "text/x";  // below a file
    EXPECT_THAT(errors_of(wrong), Each(AllOf(HasSubstr("rank 0: "), HasSubstr(folder / "text"))));
  }
  line.data = folder / "none";
  EXPECT_THAT(errors_of(line), Each(HasSubstr(folder / "none")));
}

}  // namespace
}  // namespace wreath::gpt
