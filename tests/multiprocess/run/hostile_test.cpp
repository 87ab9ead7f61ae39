// Tests `wreath run` in hostile surroundings: variables of another job, children of another program, and output that
// nobody reads.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include "tests/multiprocess/run/launcher.hpp"

namespace wreath::testing_support {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Runs a shell's script, where $W is `wreath`, and returns its exit code.
int shell_code(const std::string& script, const Folder& folder) {
  const std::string path = folder / "script";
  std::ofstream(path) << "W=" WREATH_BINARY_DIR "/wreath\n" << script << '\n';
  return ::system(("timeout 20 bash " + path).c_str()) >> 8;  // NOLINT(cert-env33-c)
}

// A variable must not come twice, because getenv finds the first one.
TEST(HostileRun, ReplacesTheNumbersOfAnotherJob) {
  Launcher run({"-n", "2", "env"}, {{"WREATH_RANK", "7"},
                                    {"WREATH_RANKS", "9"},
                                    {"RANK", "7"},
                                    {"WORLD_SIZE", "9"},
                                    {"LOCAL_RANK", "7"},
                                    {"WREATH_LOCAL_RANK", "7"},
                                    {"LOCAL_WORLD_SIZE", "9"}});
  EXPECT_EQ(run.join(), 0) << run.err();
  for (const char* part : {"=7\n", "SIZE=9\n", "WREATH_RANKS=9\n"}) EXPECT_THAT(run.out(), Not(HasSubstr(part)));
  EXPECT_THAT(run.out(), HasSubstr("[1] WREATH_RANK=1\n"));
}

TEST(HostileRun, LeavesChildrenOfWhoBecameItAlone) {
  const Folder folder;
  EXPECT_EQ(shell_code("exec > >(sleep 0.5; cat >" + (folder / "out") + "); exec $W run -n 2 echo heard", folder), 0);
  EXPECT_TRUE(eventually(5000 * kSlower, [&] { return text_of(folder / "out").size() == 20; }));
}

TEST(HostileRun, DoesNotTakeClosedStreamsForItsOwn) {
  const Folder folder;
  EXPECT_EQ(shell_code("$W run -n 2 sh -c 'echo hi; echo hi >&2; sleep 0.2; exit 4' <&- >&- 2>&-", folder), 4);
  EXPECT_EQ(shell_code("$W run -n 2 sh -c 'echo $RANK >>" + (folder / "ranks") + "' <&- >&-", folder), 0);
  EXPECT_EQ(text_of(folder / "ranks").size(), 4u);
}

TEST(HostileRun, SaysThatItsOutputCannotBeWritten) {
  const Folder folder;
  EXPECT_EQ(shell_code("$W run -n 2 sh -c 'echo hi; sleep 30' >/dev/full 2>" + (folder / "err"), folder), 6);
  EXPECT_THAT(text_of(folder / "err"), HasSubstr("standard output: No space left on device"));
  EXPECT_EQ(shell_code("$W run -n 2 sh -c 'exit 4' 2>/dev/full", folder), 4);
  EXPECT_EQ(shell_code("$W run --verbose -n 2 sh -c 'exit 4' 2>/dev/full", folder), 4);
}

TEST(HostileRun, SaysThatAFileOfItsOutputCannotBeWritten) {
  const Folder folder;
  std::filesystem::create_directories(folder / "logs/rank-0.out");
  std::filesystem::create_symlink("/dev/full", folder / "logs/rank-1.out");
  Launcher run({"-n", "2", "--output", folder / "logs", "echo", "hi"});
  EXPECT_EQ(run.join(), 0);
  EXPECT_THAT(run.err(), HasSubstr("/rank-0.out: Is a directory"));
  EXPECT_THAT(run.err(), HasSubstr("/rank-1.out: No space left on device"));
}

TEST(HostileRun, EndsOnASignalWhileNobodyTakesItsOutput) {
  const Folder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  const std::string script = "sleep 20 <" + (folder / "pipe") + " & reader=$!\n$W run -n 2 yes >" + (folder / "pipe") +
                             " & run=$!\nsleep 1; kill -TERM $run; wait $run; code=$?; kill $reader; exit $code";
  EXPECT_EQ(shell_code(script, folder), 128 + SIGTERM);
}

// The agent sends a greeting and its last message, but no message about its ranks.
TEST(HostileRun, DoesNotTakeSilenceAboutRanksForSuccess) {
  const Folder folder;
  std::ofstream(folder / "ssh") << R"(printf '\nwreath-agent 1\n\6\0\0\0\377\377\377\377\0\0\0\0\0\0\0\0')" << '\n';
  Launcher run({"-n", "1", "--hosts", "h1", "--ssh", "sh " + (folder / "ssh"), "--address", "127.0.0.1", "true"});
  EXPECT_EQ(run.join(), 6);
  EXPECT_THAT(run.err(), HasSubstr("host h1: `sh "));
}

TEST(HostileRun, RefusesArgumentsThatSayNothing) {
  for (const char* name : {"--hosts", "--hostfile", "--output", "--ssh", "--address", "--remote-wreath"}) {
    Launcher run({"-n", "2", name, "", "true"});
    EXPECT_EQ(run.join(), 2) << name;
    EXPECT_THAT(run.err(), HasSubstr(std::string(name) + ": it is empty"));
  }
  const Folder folder;
  const std::string twice = folder / "twice";
  std::ofstream(twice) << "a\nb\nb:2\n";
  for (const auto& [arguments, words] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--grace", "nan", "true"}, "--grace nan"},
           {{"-n", "2", "--hostfile", "/", "true"}, "--hostfile /: "},
           {{"-n", "2", "--hostfile", "/dev/zero", "true"}, "--hostfile /dev/zero: "},
           {{"-n", "2", "--hostfile", twice, "true"}, twice + ":3: b: this host comes twice"},
           {{"-n", "2", "--hosts", "a,,b", "true"}, "'': this is no name of a host"}}) {
    Launcher run(arguments);
    EXPECT_EQ(run.join(), 2) << run.err();
    EXPECT_THAT(run.err(), HasSubstr(words));
  }
}

}  // namespace
}  // namespace wreath::testing_support
