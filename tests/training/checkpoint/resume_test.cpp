// Runs go on from a checkpoint of another model, text or recipe. The difference is an error, or a warning.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "examples/train_gpt/run/session.hpp"
#include "tests/support/local_ranks.hpp"
#include "tests/support/surroundings.hpp"

namespace wreath::gpt {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::Not;
using wreath::test::Folder;

constexpr int kSteps = 3;

void write_file(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string letters(char a, char b) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += std::string(static_cast<std::size_t>(i % 7 + 1), a) + b;
  return text;
}

struct Told {
  std::vector<std::string> errors;  // by rank; empty: none
  std::string remarks;              // on standard error, of all ranks
};

class Resume : public testing::Test {
 protected:
  Resume() {
    write_file(folder_ / "text", letters('a', 'b'));
    line_.data = folder_ / "text";
    line_.checkpoint = folder_ / "saved";
    line_.train.mesh.dp = 2;
    line_.train.batch = 4;
    line_.train.model = {.layers = 2, .heads = 2, .width = 16, .context = 8};
    line_.train.steps = kSteps;
    line_.log_every = 0;
    line_.sample = 0;
    line_.validate_every = 0;
    line_.validate_at_end = false;
  }

  Told run(const CommandLine& line) {
    wreath::test::LocalRanks ranks(line.train.mesh.ranks(), {});
    Told told;
    told.errors.resize(static_cast<std::size_t>(line.train.mesh.ranks()));
    testing::internal::CaptureStderr();
    ranks.run([&](Communicator& of_rank) {
      const auto world = std::make_shared<Communicator>(std::move(of_rank));
      const int rank = world->rank();
      const Ending ended = train(world, line);
      if (!ended.status) told.errors[static_cast<std::size_t>(rank)] = ended.status.error().message;
      EXPECT_EQ(ended.code, ended.status ? 0 : exit_code(ended.status.error().code));
      EXPECT_EQ(ended.tells, ended.status || rank == 0) << "an error that all have is told once";
    });
    told.remarks = testing::internal::GetCapturedStderr();
    return told;
  }

  void save() { ASSERT_THAT(run(line_).errors, Each("")); }

  Told resume(const std::function<void(CommandLine&)>& change) {
    // This folder is what the run before has left.
    std::filesystem::remove_all(line_.checkpoint + "/step-000004");
    CommandLine line = line_;
    line.resume = true;
    line.train.steps = kSteps + 1;
    change(line);
    return run(line);
  }

  // Expects that a change is an error because it gives the weights or moments another meaning.
  void expect_refused(const std::function<void(CommandLine&)>& change, const std::string& what) {
    EXPECT_THAT(resume(change).errors, Each(AllOf(HasSubstr(line_.checkpoint + "/step-000003: "), HasSubstr(what))));
  }

  // Expects that one rank warns in one line of a change, because the user may mean it.
  void expect_said(const std::function<void(CommandLine&)>& change, const std::string& what) {
    const Told told = resume(change);
    EXPECT_THAT(told.errors, Each(""));
    EXPECT_EQ(told.remarks, "wreath: warning: " + line_.checkpoint + "/step-000003: " + what + "\n");
  }

  Folder folder_;
  CommandLine line_;
};

TEST_F(Resume, AnotherModelIsRefusedByNameAndBothValues) {
  save();
  expect_refused([](CommandLine& line) { line.train.model.heads = 4; },
                 "--heads is 2 in the checkpoint, 4 was asked for");
  expect_refused([](CommandLine& line) { line.train.model.layers = 1; },
                 "--layers is 2 in the checkpoint, 1 was asked for");
  expect_refused([](CommandLine& line) { line.train.model.width = 32; },
                 "--width is 16 in the checkpoint, 32 was asked for");
  expect_refused([](CommandLine& line) { line.train.model.context = 4; },
                 "--context is 8 in the checkpoint, 4 was asked for");
  expect_refused([](CommandLine& line) { line.train.model.bias = true; },
                 "--bias is off in the checkpoint, on was asked for");
  expect_refused([](CommandLine& line) { line.train.model.gelu = training::Gelu::Tanh; },
                 "the GELU is exact in the checkpoint, tanh was asked for");
  expect_refused([](CommandLine& line) { line.train.optimizer = OptimizerKind::Sgd; },
                 "the optimizer is AdamW in the checkpoint, plain descent (--sgd) was asked for");
  expect_refused([](CommandLine& line) { line.train.seed = 7; }, "--seed is 1337 in the checkpoint, 7 was asked for");
}

TEST_F(Resume, AnotherVocabularyIsRefused) {
  save();
  write_file(folder_ / "text", letters('a', 'c'));
  expect_refused([](CommandLine&) {},
                 R"(the vocabulary is "ab", 2 letters in the checkpoint, "ac", 2 letters was asked for)");
}

TEST_F(Resume, WhatMayBeMeantIsSaid) {
  line_.train.decay_steps = kSteps + 1;
  save();
  expect_said([](CommandLine& line) { line.train.learning_rate = 0.5f; },
              "--learning-rate was 0.001, and is 0.5 from here on");
  expect_said([](CommandLine& line) { line.train.batch = 8; }, "--batch was 4, and is 8 from here on");
  expect_said([](CommandLine& line) { line.train.model.dropout = 0.25f; }, "--dropout was 0, and is 0.25 from here on");
  expect_said([](CommandLine& line) { line.train.precision = "bfloat16"; },
              "--precision was float32, and is bfloat16 from here on");
  write_file(folder_ / "other", letters('b', 'a'));
  const Told told = resume([&](CommandLine& line) { line.data = folder_ / "other"; });
  EXPECT_THAT(told.remarks, AllOf(HasSubstr("the text was 4997 letters, fingerprint "), HasSubstr(", and is 4997 ")));
}

TEST_F(Resume, NothingIsSaidOfTheSameOrOfAnotherMesh) {
  save();
  const Told told = resume([](CommandLine& line) { line.train.mesh = {.pp = 2}; });
  EXPECT_THAT(told.errors, Each(""));
  EXPECT_EQ(told.remarks, "");
}

TEST_F(Resume, ACheckpointThatKeepsNoRecipeSaysSo) {
  save();
  const std::string path = line_.checkpoint + "/step-000003/training_state.json";
  const std::string text = read_file(path);
  const std::size_t begin = text.find("\"text\": {");
  ASSERT_NE(begin, std::string::npos);
  write_file(path, text.substr(0, begin) + "\"text\": {}}");
  const Told told = resume([](CommandLine& line) { line.train.model.heads = 4; });
  EXPECT_THAT(told.errors, Each(""));
  EXPECT_THAT(told.remarks, AllOf(HasSubstr("it does not keep, so that no difference shows: layers, heads, width"),
                                  Not(HasSubstr("seed"))));
}

TEST_F(Resume, AFileCannotSteerTheTerminal) {
  save();
  const std::string path = line_.checkpoint + "/step-000003/training_state.json";
  std::string text = read_file(path);
  const std::string heads = "\"heads\": \"2\"";
  ASSERT_NE(text.find(heads), std::string::npos);
  text.replace(text.find(heads), heads.size(), R"("heads": "\u001b[2J")");
  write_file(path, text);
  expect_refused([](CommandLine&) {}, R"(--heads is \x1b[2J in the checkpoint, 2 was asked for)");
}

// Transformers open these files; open_in_transformers.py tests that.
TEST_F(Resume, ConfigurationAndVocabularyLieBesideTheWeights) {
  line_.train.model.bias = true;
  line_.train.model.gelu = training::Gelu::Tanh;
  write_file(folder_ / "text", letters('"', '\n'));
  save();
  const std::string checkpoint = line_.checkpoint + "/step-000003/";
  EXPECT_THAT(read_file(checkpoint + "config.json"),
              AllOf(HasSubstr("\"model_type\": \"gpt2\""), HasSubstr("\"vocab_size\": 2"), HasSubstr("\"n_head\": 2"),
                    HasSubstr("\"n_positions\": 8"), HasSubstr("\"n_embd\": 16"), HasSubstr("\"n_layer\": 2"),
                    HasSubstr("\"activation_function\": \"gelu_new\"")));
  EXPECT_THAT(read_file(checkpoint + "tokenizer.json"),
              AllOf(HasSubstr("\"ByteLevel\""), HasSubstr("\"\u010a\": 0"), HasSubstr(R"("\"": 1)")));
  EXPECT_THAT(read_file(checkpoint + "tokenizer_config.json"), HasSubstr("PreTrainedTokenizerFast"));
}

}  // namespace
}  // namespace wreath::gpt
