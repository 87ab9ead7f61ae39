// Tests child processes and threads that a program starts: a refusal is reported by name, and nothing is left.
#include "src/process/child_process.hpp"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <new>
#include <string>

#include "src/command_line/threads.hpp"
#include "tests/support/processes.hpp"
#include "tests/support/surroundings.hpp"
#include "tests/unit/commands/command.hpp"

namespace wreath {
namespace {

using process::ChildProgram;
using testing::HasSubstr;
using testing_support::Outcome;
using testing_support::run_line;

// Returns what the child printed, and its exit code.
Outcome run_child(ChildProgram child) {
  auto output = process::make_pipe().value();
  child.output = child.errors = output.write.get();
  const pid_t pid = process::start_child(child).value();
  output.write = Fd();
  Outcome outcome;
  char piece[256];
  for (ssize_t got = 0; (got = ::read(output.read.get(), piece, sizeof piece)) > 0;) {
    outcome.text.append(piece, static_cast<std::size_t>(got));
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

TEST(ChildProcess, GetsWhatItsStarterNames) {
  const test::Folder folder;
  const Outcome outcome = run_child({.command = {"sh", "-c", "echo $HERE $(pwd) $(cat)"},
                                     .environment = {"HERE=x", "PATH=/usr/bin:/bin"},
                                     .folder = folder.path()});
  EXPECT_EQ(outcome.text, "x " + folder.path() + "\n");
  EXPECT_EQ(outcome.exit_code, 0);
}

TEST(ChildProcess, IsFoundInThePathThatItGets) {
  const test::Folder folder;
  std::ofstream(folder / "a_tool") << "#!/bin/sh\necho found\n";
  std::filesystem::permissions(folder / "a_tool", std::filesystem::perms::owner_all);
  const Outcome outcome = run_child({.command = {"a_tool"}, .environment = {"PATH=/nowhere:" + folder.path()}});
  EXPECT_EQ(outcome.text, "found\n");
  const auto missing = process::start_child({.command = {"sh"}, .environment = {"PATH=" + folder.path()}});
  ASSERT_FALSE(missing) << "it was found in another PATH";
  EXPECT_EQ(missing.error().message, "cannot run 'sh': No such file or directory");
}

// The signal is ignored in this process. A shell that inherited this would write on, but the shell must die of the
// signal.
TEST(ChildProcess, BlocksAndIgnoresNoSignal) {
  const auto before = ::signal(SIGPIPE, SIG_IGN);
  const Outcome outcome = run_child({.command = {"sh", "-c", "kill -PIPE $$; echo lives"}});
  ::signal(SIGPIPE, before);
  EXPECT_EQ(outcome.exit_code, -1) << outcome.text;
}

TEST(ChildProcess, ThatCannotBeStartedIsNamed) {
  const auto missing = process::start_child({.command = {"/no/such/program"}});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::StartupFailed);
  EXPECT_EQ(missing.error().message, "cannot run '/no/such/program': No such file or directory");
  const auto folder = process::start_child({.command = {"true"}, .folder = "/no/such/folder"});
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().message, "cannot go to folder '/no/such/folder': No such file or directory");
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child is left";
}

TEST(ChildProcess, ThatNeverEndsWritingIsSaidToDoSo) {
  const auto endless = process::output_of({.command = {"sh", "-c", "yes"}}, 60'000);
  ASSERT_FALSE(endless);
  EXPECT_EQ(endless.error().code, ErrorCode::System) << endless.error().message;
  EXPECT_EQ(endless.error().message, "writes more than 64 MiB");
  const auto late = process::output_of({.command = {"sh", "-c", "exec sleep 60"}}, 50);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::Timeout);
}

TEST(Threads, ReturnWhatTheFirstThatFailedSaid) {
  std::atomic<int> ran = 0;
  EXPECT_TRUE(command_line::run_threads(4, [&](int) { return ++ran, Status(); }));
  EXPECT_EQ(ran, 4);
  const Status failed = command_line::run_threads(3, [](int i) {
    return i == 1 ? Status(Error{ErrorCode::PeerLost, "gone", 1}) : Status();
  });
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "gone");
  const Status thrown = command_line::run_threads(2, [](int) -> Status { throw std::bad_alloc(); });
  ASSERT_FALSE(thrown);
  EXPECT_EQ(thrown.error().code, ErrorCode::System);
}

[[noreturn]] void run_without_room() {
  constexpr rlim_t kLittle = 1 << 28;
  const rlimit little{kLittle, kLittle};
  ::setrlimit(RLIMIT_AS, &little);
  std::atomic<int> ran = 0;
  const Status refused = command_line::run_threads(200, [&](int) { return ++ran, Status(); });
  std::fprintf(stderr, "%d: %s\n", ran.load(), refused ? "none" : refused.error().message.c_str());
  ::_exit(refused ? 0 : exit_code(refused.error().code));
}

// The address space has no room for the stacks. The test runs in a process of its own, since the limit stays.
TEST(Threads, RunAllOrNone) {
  if (testing_support::kSanitized) GTEST_SKIP() << "a sanitizer needs more address space: run it in the preset dev";
  EXPECT_EXIT(run_without_room(), testing::ExitedWithCode(6),
              "0: cannot start thread [0-9]+ of 200: Resource temporarily unavailable; raise");
}

// Programs start ranks also without /proc.
TEST(PerfTools, StartRanksWithoutProc) {
  if (testing_support::kSanitized) GTEST_SKIP() << "a sanitizer reads /proc: run it in the preset dev";
  if (::geteuid() != 0 || run_line("unshare -m true").exit_code != 0) GTEST_SKIP() << "it hides /proc: run it as root";
  const Outcome outcome = run_line("unshare -m sh -c 'mount -t tmpfs none /proc && " WREATH_BINARY_DIR
                                   "/all_reduce_perf --ranks 2 -b 8 -e 8 -n 5'");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.text;
}

// A rank that cannot be started is an error, and so is one that ends at once.
TEST(PerfTools, SayThatAThreadWasRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "it becomes another user: run it as root";
  for (const char* const most : {"1", "3", "5", "7", "9"}) {
    const Outcome outcome =
        run_line(std::string("setpriv --reuid 65534 --clear-groups sh -c 'ulimit -u ") + most +
                 "; exec " WREATH_BINARY_DIR "/all_reduce_perf --ranks 3 -b 8 -e 8 -n 5' </dev/null");
    // The limit was high enough.
    if (outcome.exit_code == 0) continue;
    EXPECT_NE(outcome.exit_code, 1) << most << ": " << outcome.text;
    EXPECT_THAT(outcome.text, testing::AnyOf(HasSubstr("cannot "), HasSubstr("rank "))) << most;
  }
}

}  // namespace
}  // namespace wreath
