// A run shows its progress line only on terminals, and erases it before it prints anything else. It gives each rank a
// core.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <memory>

#include "perf/base/machine.hpp"
#include "perf/common/run.hpp"
#include "tests/unit/perf/threads.hpp"

namespace wreath::perf {
namespace {

using testing::IsEmpty;

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Close>;

// The text that stands for a host on which /dev/pts is not mounted.
constexpr const char* kNoTerminal = "no terminal";

// Returns the bytes that a terminal gets from a display's progress, and a dot at the end.
std::string shown_on_terminal(const std::vector<std::string>& lines) {
  int master = -1;
  int slave = -1;
  if (openpty(&master, &slave, nullptr, nullptr, nullptr) != 0) return kNoTerminal;
  const File out(std::tmpfile());
  std::string text;
  {
    const File errors(fdopen(slave, "w"));
    const Display display = stream_display(out.get(), errors.get());
    for (const std::string& line : lines) display.progress(line);
    std::fputc('.', errors.get());
    std::fflush(errors.get());
    for (char byte = 0; byte != '.' && read(master, &byte, 1) == 1;) text += byte;
  }
  close(master);
  return text;
}

TEST(Progress, IsErasedOnATerminal) {
  unsetenv("NO_COLOR");
  const std::string shown = shown_on_terminal({"1 of 2", "2 of 2", ""});
  if (shown == kNoTerminal) GTEST_SKIP() << shown << ": run it where /dev/pts is mounted";
  EXPECT_EQ(shown, "\r\033[K1 of 2\r\033[K2 of 2\r\033[K.");
}

TEST(Progress, IsNotShownWhereNobodyWantsEscapes) {
  setenv("NO_COLOR", "1", 1);
  const std::string shown = shown_on_terminal({"1 of 2", ""});
  if (shown == kNoTerminal) GTEST_SKIP() << shown << ": run it where /dev/pts is mounted";
  EXPECT_EQ(shown, ".");
  setenv("NO_COLOR", "", 1);
  EXPECT_EQ(shown_on_terminal({""}), "\r\033[K.") << "an empty value says nothing";
  unsetenv("NO_COLOR");
}

TEST(Progress, IsNotWrittenToFiles) {
  const File out(std::tmpfile());
  const File errors(std::tmpfile());
  const Display display = stream_display(out.get(), errors.get());
  display.progress("1 of 2");
  display.print("row\n");
  EXPECT_EQ(std::ftell(errors.get()), 0);
  EXPECT_EQ(std::ftell(out.get()), 4);
}

// Returns the texts that rank 0's display got, one entry a call; texts of progress are in brackets.
std::vector<std::string> told(const Options& options) {
  std::vector<std::string> calls;
  on_ranks(2, {}, 0, [&](Member& member) {
    const bool first = member.rank() == 0;
    const Display display{[&, first](const std::string& text) { first ? calls.push_back(text) : void(); },
                          [&, first](const std::string& text) { first ? calls.push_back("[" + text + "]") : void(); }};
    EXPECT_TRUE(run_rank(member, row_of("all_reduce_perf"), options, {"shm", {}}, display));
  });
  return calls;
}

TEST(Transport, OfLinksThatDifferHasAllTheirNames) {
  EXPECT_EQ(transport_words({}), "self");
  EXPECT_EQ(transport_words({"shm, single copy", "shm, single copy"}), "shm, single copy");
  EXPECT_EQ(transport_words({"shm, single copy", "tcp over eth0", "tcp over eth1"}),
            "shm+tcp (shm, single copy to rank 1; tcp over eth0 to rank 2)");
}

TEST(Peer, RefusesWhatIsNoTool) {
  on_ranks(1, {}, 0, [](Member& member) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(run_peer(member, "MPI", {"--nope"}), 2);
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              "wreath: error: --nope: give a perf tool's name first, and its flags after it\n");
  });
}

TEST(Progress, SaysWhatIsMeasuredAndIsGoneBeforeEachRow) {
  Options options;
  options.sizes.list = {8, 1024};
  options.iterations = 2;
  options.pin = false;
  options.repeats = 2;
  const auto calls = told(options);
  ASSERT_EQ(calls.size(), 12U);
  EXPECT_EQ(calls[1], "[all_reduce 1 of 2: 8 float, repeat 1 of 2]");
  EXPECT_EQ(calls[3], "[all_reduce 2 of 2: 1K float, repeat 1 of 2]");
  EXPECT_EQ(calls[8], "[all_reduce 2 of 2: 1K float, repeat 2 of 2]");
  for (const std::size_t erased : {2U, 4U, 6U, 9U}) EXPECT_EQ(calls[erased], "[]");
  for (const std::size_t row : {7U, 10U}) EXPECT_THAT(calls[row], testing::HasSubstr("     float     sum      -1 "));
}

TEST(Rows, AreGivenAwayOneByOne) {
  Options options;
  options.sizes = {8, 1024, 0, 128};
  options.pin = false;
  std::vector<std::size_t> kept;
  on_ranks(2, {}, 0, [&](Member& member) {
    const Display display{[](const std::string&) {}, [](const std::string&) {},
                          [&](const Report& report) { kept.push_back(report.rows.size()); }};
    EXPECT_TRUE(run_rank(member, row_of("all_reduce_perf"), options, {"shm", {}}, display));
  });
  EXPECT_THAT(kept, testing::ElementsAre(1, 2));
}

// Returns the cores to which two ranks of this host are bound; rank i may run on core `allowed[i]` only.
std::array<int, 2> bound(const std::array<int, 2>& allowed) {
  std::array<int, 2> cores{};
  on_ranks(2, {}, 0, [&](Member& member) {
    const auto rank = static_cast<std::size_t>(member.rank());
    pin_thread(allowed[rank]);
    cores[rank] = choose_core(member, true).value();
  });
  return cores;
}

TEST(Cores, ThatALauncherHasSharedOutAreKept) {
  const std::vector<int> all = allowed_cores();
  if (all.size() < 2) GTEST_SKIP() << "needs two cores: run it on more";
  EXPECT_THAT(bound({all[1], all[0]}), testing::ElementsAre(all[1], all[0]));
  EXPECT_THAT(bound({all[0], all[0]}), testing::ElementsAre(-1, -1)) << "two ranks on one core";
}

}  // namespace
}  // namespace wreath::perf
