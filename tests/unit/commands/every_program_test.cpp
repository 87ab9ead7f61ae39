// Tests every program that was built: its --help, and its answer to what it does not know.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/commands/command.hpp"

namespace wreath {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;
using testing_support::kUsage;
using testing_support::Outcome;
using testing_support::run_program;

std::vector<std::string> programs() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(WREATH_BINARY_DIR)) {
    const std::string name = entry.path().filename().string();
    const bool of_tests = name.ends_with("_test") || name.ends_with("_fuzz") || name.starts_with("peer_");
    if (entry.is_regular_file() && !of_tests) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Returns whether the program that a line begins with exists.
bool was_built(const std::string& line) {
  return std::filesystem::exists(std::string(WREATH_BINARY_DIR "/") + line.substr(0, line.find(' ')));
}

// Returns the programs that exist, and the subcommands of `wreath` as if they were programs.
std::vector<std::string> ways_to_start() {
  std::vector<std::string> all = programs();
  for (const char* command : {"doctor", "key", "plan", "plan explain", "plan show", "plan simulate", "plan table",
                              "plan verify", "run", "topo", "trace", "tune", "why"})
    all.push_back(std::string("wreath ") + command);
  return all;
}

TEST(EveryProgram, HasHelpThatNamesIt) {
  for (const std::string& program : ways_to_start()) {
    const Outcome outcome = run_program(program + " --help </dev/null");
    EXPECT_EQ(outcome.exit_code, 0) << program << ": " << outcome.text;
    EXPECT_THAT(outcome.text, HasSubstr(program)) << program;
    EXPECT_THAT(outcome.text, AnyOf(HasSubstr("sage"), HasSubstr("OPTIONS"), HasSubstr("benchmark"))) << program;
  }
}

// To look at a line must not open adapters: that takes long on some machines, and ranks may be forked afterwards.
TEST(EveryProgram, LoadsNoNetworkToReadItsLine) {
  for (const std::string& program : ways_to_start()) {
    const Outcome outcome = run_program(program + " --help </dev/null", "WREATH_OFI_PROVIDER=tcp LD_DEBUG=files ");
    EXPECT_THAT(outcome.text, HasSubstr("calling init")) << program;
    EXPECT_THAT(outcome.text, AllOf(Not(HasSubstr("libibverbs")), Not(HasSubstr("libfabric")))) << program;
  }
}

TEST(EveryProgram, RefusesAFlagThatItDoesNotKnow) {
  for (const std::string& program : ways_to_start()) {
    const Outcome outcome = run_program(program + " --no-such-flag </dev/null");
    EXPECT_EQ(outcome.exit_code, kUsage) << program << ": " << outcome.text;
    EXPECT_THAT(outcome.text, HasSubstr("--no-such-flag")) << program;
  }
}

TEST(EveryProgram, OfShellDoesTheSame) {
  for (const char* script : {"links", "two_hosts"}) {
    const std::string path = std::string(WREATH_SOURCE_DIR "/perf/hosts/") + script;
    const Outcome help = testing_support::run_line(path + " --help");
    EXPECT_EQ(help.exit_code, 0) << help.text;
    EXPECT_THAT(help.text, AllOf(HasSubstr(script), HasSubstr("Exit code"))) << script;
    const Outcome refused = testing_support::run_line(path + " --no-such-flag");
    EXPECT_EQ(refused.exit_code, kUsage) << refused.text;
    EXPECT_THAT(refused.text, HasSubstr("--no-such-flag")) << script;
  }
}

struct Mistake {
  const char* line;
  const char* words;
};

// In each line a value is missing, no number, out of range, or in conflict with another flag.
constexpr Mistake kMistakes[] = {
    {"alternate_perf --ranks 1", "--ranks 1: not a whole number from 2 to 64"},
    {"all_reduce_perf -b", "--minbytes: 1 required SIZE missing"},
    {"all_reduce_perf -b x", "-b x: not a size"},
    {"all_reduce_perf -n 99999999999", "-n 99999999999: not a whole number from 1 to 2147483647"},
    {"all_reduce_perf -b 16 -e 8", "-b 16: larger than -e 8"},
    {"barrier_perf --limits", "--limits: it moves no data"},
    {"compare --ranks 1", "--ranks 1: not a whole number from 2 to 256"},
    {"compare --time nan", "--time nan: not a number from 0.1 to 1000000"},
    {"compare --find-settings", "--find-settings needs --settings"},
    {"limits extra", "not expected: extra"},
    {"overlap_perf --ranks x", "--ranks x: not a whole number from 1 to 4096"},
    {"overlap_perf --size 0", "--size 0: a float32 has 4 bytes"},
    {"start_perf --ranks 0", "--ranks 0: not a whole number from 1 to 4096"},
    {"start_perf --ranks 1,x", "--ranks x: not a whole number from 1 to 4096"},
    {"train_gpt --dp x", "--dp x: not a whole number of at least 1"},
    {"train_gpt --clip 1,5", "--clip 1,5: not a number of at least 0"},
    {"wreath_check --ranks 2,x", "--ranks x: not a whole number from 1 to 256"},
    {"wreath_check --only foo", "'foo' is unknown; known are all_reduce"},
    {"wreath no-such-command", "not expected: no-such-command"},
    {"wreath plan no-such-command", "not expected: no-such-command"},
    {"wreath plan show all_reduce 1K --lanes 0", "--lanes 0: not a whole number of at least 1"},
    {"wreath plan show all_reduce 1K --root 1", "--root 1: all_reduce has no root"},
    {"wreath plan show all_reduce 1K --rank 9", "rank 9: there are 4 ranks"},
    {"wreath plan simulate all_reduce 1K --latency x", "--latency x: not a number of at least 0"},
    {"wreath plan explain all_reduce 64Q", "64Q"},
    {"wreath run", "which program?"},
    {"wreath run -n 0 true", "-n 0: not a whole number from 1 to 4096"},
    {"wreath run -n 2 --grace nan true", "--grace nan: not a number from 0 to 3600"},
    {"wreath run --elastic --min x true", "--min x: not a whole number from 1 to 4096"},
    {"wreath doctor --memory --ranks x", "--ranks x: not a whole number from 1 to 1024"},
    {"wreath run --elastic --min 4 --max 2 true", "--min 4 is above --max 2"},
    {"wreath doctor --ranks 3", "--ranks requires --memory"},
    {"wreath topo --ranks x", "--ranks x: not a whole number from 1 to"},
    {"wreath topo --ranks 2 --job", "one of them"},
    {"wreath tune --ranks 4 65", "--ranks 65: not a whole number from 2 to 64"},
    {"wreath tune --seconds 0", "--seconds 0: not a number from 1 to 36000"},
    {"wreath tune --smallest 1M --largest 1K", "in this order"},
    {"wreath why abc", "cannot open abc"},
};

TEST(EveryProgram, NamesTheFlagAndTheMistake) {
  for (const Mistake& mistake : kMistakes) {
    const std::string line = mistake.line;
    if (!was_built(line)) continue;
    const Outcome outcome = run_program(line + " </dev/null");
    EXPECT_EQ(outcome.exit_code, kUsage) << line << ": " << outcome.text;
    EXPECT_THAT(outcome.text, HasSubstr(mistake.words)) << line;
    EXPECT_THAT(outcome.text, Not(HasSubstr("00000000"))) << line;
  }
}

TEST(EveryProgram, SaysWhereItsResultsCannotBeWritten) {
  for (const char* each : {"all_reduce_perf --ranks 2 --sizes 8 -n 1", "barrier_perf -t 2 -n 1",
                           "overlap_perf --ranks 2 --rounds 1 --size 4K", "start_perf --ranks 1 --rounds 1",
                           "alternate_perf --rounds 1 --calls 1", "wreath topo", "all_reduce_perf --help",
                           "train_gpt --help", "compare --help"}) {
    const std::string line = each;
    if (!was_built(line)) continue;
    const Outcome outcome = run_program(line + " </dev/null >/dev/full");
    EXPECT_EQ(outcome.exit_code, 6) << line << ": " << outcome.text;
    EXPECT_THAT(outcome.text, HasSubstr("wreath: error: standard output: ")) << line;
  }
}

// The name of a file, a host or a peer must not steer the terminal.
TEST(EveryProgram, ShowsNoControlCharacterOfANameThatItQuotes) {
  for (const std::string line : {"all_reduce_perf --ranks 2 --baseline", "wreath trace", "wreath why", "wreath"}) {
    const Outcome outcome = run_program(line + " \"$(printf '/no/\\033[31mred')\"");
    EXPECT_NE(outcome.exit_code, 0) << line;
    EXPECT_EQ(outcome.text.find('\033'), std::string::npos) << line << ": " << outcome.text;
    EXPECT_THAT(outcome.text, HasSubstr("?[31mred")) << line;
  }
}

TEST(EveryProgram, TrainingSaysWhichLinesAreMissing) {
  if (!was_built("train_gpt")) GTEST_SKIP() << "this build has no train_gpt: run it in the preset dev";
  for (const std::string flag : {"--csv", "--jsonl"}) {
    const Outcome outcome = run_program("train_gpt --steps 2 --layers 1 --width 32 --heads 2 --context 16 --batch 2 " +
                                        flag + " /dev/full");
    EXPECT_EQ(outcome.exit_code, 6) << outcome.text;
    EXPECT_THAT(outcome.text, HasSubstr("/dev/full: a line could not be written: No space left on device"));
  }
}

TEST(EveryProgram, OfWhichOnlyTheBeginningIsReadSaysNothing) {
  const Outcome outcome = run_program("all_reduce_perf --ranks 2 --sizes 8,64 -n 1 | head -n 1");
  EXPECT_EQ(std::count(outcome.text.begin(), outcome.text.end(), '\n'), 1) << outcome.text;
}

TEST(EveryProgram, NamesWordsInTheirOrder) {
  EXPECT_THAT(run_program("limits --ranks x").text, HasSubstr("not expected: --ranks x"));
}

TEST(EveryProgram, HasHelpThatFitsATerminal) {
  for (const std::string& program : ways_to_start()) {
    // The help of `micro` is not ours, and the help of the _perf programs has examples of whole lines.
    if (program == "micro" || program.ends_with("_perf")) continue;
    std::string text = run_program(program + " --help </dev/null").text;
    const std::string folder = WREATH_BINARY_DIR "/";
    for (auto at = text.find(folder); at != std::string::npos; at = text.find(folder)) text.erase(at, folder.size());
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 120u) << program << ": " << line;
  }
}

TEST(EveryProgram, OfTheResultsSaysWhichElementsItLooksAt) {
  EXPECT_THAT(
      run_program("all_reduce_perf --help").text,
      HasSubstr("#wrong is about all elements of the calls before the timed ones (-c) and of the last timed call "
                "of each half"));
  EXPECT_THAT(run_program("all_reduce_perf -t 2 -b 8 -e 8").text,
              HasSubstr("# Checked              : all of 1 call before the timed ones"));
}

// The sizes are more than addresses reach. The system would refuse them to a program that does not check, so the test
// takes no memory from others.
TEST(EveryProgram, ThatMeasuresRefusesAtOnceWhatDoesNotFitIntoMemory) {
  for (const std::string line :
       {"all_reduce_perf --ranks 2 -b 1024T -e 1024T", "alltoall_perf -t 2 --sizes 1024T --limits",
        "overlap_perf --ranks 2 --size 1024T", "wreath tune --ranks 2 --largest 1024T"}) {
    if (!was_built(line)) continue;
    const Outcome outcome = run_program(line);
    EXPECT_EQ(outcome.exit_code, 6) << line << ": " << outcome.text;
    EXPECT_THAT(outcome.text, HasSubstr(" buffers of each of 2 ranks need ")) << line;
    EXPECT_EQ(std::count(outcome.text.begin(), outcome.text.end(), '\n'), 1) << outcome.text;
  }
}

TEST(EveryProgram, ThatMeasuresNamesWhatIsSetForNcclTests) {
  const std::string line = "all_reduce_perf -t 2 -b 8 -e 8 -n 1";
  EXPECT_THAT(run_program(line, "NCCL_TESTS_MIN_BW=5 NCCL_TESTS_DEVICE=1 ").text,
              HasSubstr("# Note: NCCL_TESTS_DEVICE, NCCL_TESTS_MIN_BW: set for nccl-tests, not read here\n"));
  EXPECT_THAT(run_program(line).text, Not(HasSubstr("NCCL_TESTS")));
}

// The launchers of MPI set these variables in each of their processes. The error contains the second text.
constexpr std::pair<const char*, const char*> kMpi[] = {
    {"OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_RANK=1 PMIX_RANK=1 ", "OMPI_COMM_WORLD_SIZE=3, but Wreath does not meet"},
    {"PMI_SIZE=3 PMI_RANK=1 ", "PMI_SIZE=3, but Wreath does not meet"},
    {"PMIX_RANK=1 PMIX_NAMESPACE=prterun-7 ", "PMIX_RANK=1, but Wreath does not meet"}};

TEST(EveryProgram, OfTheExamplesIsNoWorldOfOneUnderMpirun) {
  for (const std::string line : {"01_hello_all_reduce", "02_overlap", "04_send_recv", "train_gpt --steps 1"}) {
    if (!was_built(line)) continue;
    for (const auto& [variables, words] : kMpi) {
      const Outcome outcome = run_program(line + " </dev/null", variables);
      EXPECT_EQ(outcome.exit_code, kUsage) << variables << line << ": " << outcome.text;
      EXPECT_THAT(outcome.text, HasSubstr(words)) << variables << line;
    }
  }
}

TEST(EveryProgram, OfTheExamplesJoinsItsPeersUnderSrun) {
  if (!was_built("01_hello_all_reduce")) GTEST_SKIP() << "this build has no examples: run it in the preset dev";
  const auto rank = [](const char* number) {
    return fmt::format(
        "SLURM_PROCID={} SLURM_STEP_NUM_TASKS=2 SLURM_STEP_ID=0 SLURM_JOB_ID={} SLURM_STEP_NODELIST=n0 "
        "PMI_SIZE=2 PMI_RANK={} PMIX_RANK={} {}/01_hello_all_reduce ",
        number, ::getpid(), number, number, WREATH_BINARY_DIR);
  };
  const Outcome outcome = testing_support::run_line(rank("0") + "& " + rank("1") + "; wait");
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("rank 0 of 2: 3 3 3 3"), HasSubstr("rank 1 of 2: 3 3 3 3")));
}

// Each of the processes that mpiexec starts would start ranks of its own.
TEST(EveryProgram, ThatStartsRanksSaysWhereMpiexecStartedIt) {
  for (const char* each :
       {"all_reduce_perf --ranks 2 -b 8 -e 8", "barrier_perf -t 2", "sendrecv_perf",
        "overlap_perf --ranks 2 --rounds 1", "start_perf --ranks 2 --rounds 1", "alternate_perf", "compare",
        "train_gpt --preset tiny --dp 2 --steps 1", "wreath_check --ranks 1", "wreath tune --seconds 1"}) {
    const std::string line = each;
    if (!was_built(line)) continue;
    const Outcome outcome = run_program(line + " </dev/null", "PMI_RANK=0 PMI_SIZE=3 MPI_LOCALRANKID=0 ");
    EXPECT_EQ(outcome.exit_code, kUsage) << line << ": " << outcome.text;
    EXPECT_THAT(outcome.text, HasSubstr("PMI_SIZE=3, but Wreath does not meet")) << line;
  }
  for (const char* line : {"wreath run -n 1 true", "wreath topo --ranks 1"}) {
    const Outcome outcome = run_program(line, "PMI_RANK=1 PMI_SIZE=3 ");
    EXPECT_EQ(outcome.exit_code, 0) << line << ": " << outcome.text;
    EXPECT_THAT(outcome.text, HasSubstr("warning: PMI_SIZE=3, but Wreath does not meet")) << line;
  }
}

// Each rank of a job gets the same wrong line.
TEST(EveryProgram, OfAJobRefusesItsLineInWordsOnceAHost) {
  // Each launcher starts rank 2 of 4, which is the second of its host.
  const std::string second_of_its_host[] = {
      "WREATH_RANK=2 WREATH_RANKS=4 WREATH_LOCAL_RANK=1 ",
      "WREATH_RANK=2 WREATH_RANKS=4 ",
      "RANK=2 WORLD_SIZE=4 LOCAL_RANK=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 ",
      "SLURM_PROCID=2 SLURM_STEP_NUM_TASKS=4 SLURM_STEP_ID=0 SLURM_LOCALID=1 SLURM_JOB_ID=1 SLURM_STEP_NODELIST=n0 ",
      "OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=1 ",
      "PMI_SIZE=4 PMI_RANK=2 MPI_LOCALRANKID=1 "};
  const std::string first_or_unknown[] = {"WREATH_RANK=2 WREATH_RANKS=4 WREATH_LOCAL_RANK=0 ",
                                          "WREATH_RANK=0 WREATH_RANKS=4 ",
                                          "RANK=2 WORLD_SIZE=4 LOCAL_RANK=0 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 ",
                                          "OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=0 ",
                                          "PMI_SIZE=4 PMI_RANK=2 ",
                                          "PMIX_RANK=2 ",
                                          "RANK=2 "};
  ASSERT_TRUE(was_built("all_reduce_perf") && was_built("wreath"));
  for (const std::string line : {"all_reduce_perf --no-such-flag", "all_reduce_perf -b 3Q", "overlap_perf --ranks none",
                                 "wreath topo --no-such-flag", "wreath run --hosts a --hostfile b true",
                                 "train_gpt --preset none", "train_gpt --dp none"}) {
    if (!was_built(line)) continue;
    for (const std::string& variables : second_of_its_host) {
      const Outcome outcome = run_program(line + " </dev/null", variables);
      EXPECT_EQ(outcome.exit_code, kUsage) << variables << line;
      EXPECT_EQ(outcome.text, "") << variables << line;
    }
    for (const std::string& variables : first_or_unknown) {
      const Outcome outcome = run_program(line + " </dev/null", variables);
      EXPECT_EQ(outcome.exit_code, kUsage) << variables << line;
      EXPECT_THAT(outcome.text, HasSubstr("wreath: error: ")) << variables << line;
    }
  }
}

TEST(EveryProgram, ThatStartsRanksIsStartedOnce) {
  for (const char* line : {"overlap_perf --ranks 2 --rounds 1", "start_perf --ranks 2 --rounds 1", "alternate_perf",
                           "wreath_check --ranks 1", "wreath tune --seconds 1"}) {
    const Outcome outcome = run_program(line, "WREATH_RANK=0 WREATH_RANKS=2 ");
    EXPECT_EQ(outcome.exit_code, kUsage) << line << ": " << outcome.text;
    EXPECT_THAT(outcome.text, HasSubstr("say 2 ranks: this program starts ranks of its own")) << line;
  }
}

}  // namespace
}  // namespace wreath
