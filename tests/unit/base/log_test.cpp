// Tests the log: the form of its lines, its levels, and that each line arrives whole.
#include "src/base/log.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "tests/support/surroundings.hpp"

namespace wreath {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

// Returns what `body` writes to stderr in a process of its own, with one variable set.
template <typename Body>
std::string stderr_of(const char* name, const std::string& value, Body body) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    setenv(name, value.c_str(), 1);
    body();
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t got = 0; (got = read(ends[0], buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(got));
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return text;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

void say_one_of_each() {
  log_error("an error {}", 1);
  log_warning("a warning");
  log_info("an information");
  log_trace("a trace");
}

TEST(Log, WritesLevelRankHostAndPid) {
  const std::string text = stderr_of("WREATH_DEBUG", "WARN", [] {
    const LogRank named(3);
    log_warning("late: {} ms", 17);
  });
  EXPECT_THAT(text, MatchesRegex("wreath: warning: rank 3 \\(host [^,]+, pid [0-9]+\\): late: 17 ms\n"));
}

TEST(Log, LeavesOutARankThatIsNotKnown) {
  const std::string text = stderr_of("WREATH_DEBUG", "WARN", [] { log_error("x"); });
  EXPECT_THAT(text, MatchesRegex("wreath: error: host [^,]+, pid [0-9]+: x\n"));
}

TEST(Log, SaysMoreAtHigherLevels) {
  EXPECT_EQ(lines_of(stderr_of("WREATH_DEBUG", "WARN", say_one_of_each)).size(), 2u);
  EXPECT_EQ(lines_of(stderr_of("WREATH_DEBUG", "INFO", say_one_of_each)).size(), 3u);
  EXPECT_EQ(lines_of(stderr_of("WREATH_DEBUG", "TRACE", say_one_of_each)).size(), 4u);
}

TEST(Log, NamesALevelThatDoesNotExistOnce) {
  const std::vector<std::string> lines = lines_of(stderr_of("WREATH_DEBUG", "LOUD", say_one_of_each));
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_THAT(lines[1], HasSubstr("WREATH_DEBUG=LOUD must be WARN, INFO or TRACE"));
}

TEST(Log, KeepsAMessageOnOneLine) {
  EXPECT_EQ(lines_of(stderr_of("WREATH_DEBUG", "WARN", [] { log_error("two\nlines"); })).size(), 1u);
}

TEST(Log, KeepsLinesOfManyThreadsWhole) {
  const std::string text = stderr_of("WREATH_DEBUG", "INFO", [] {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 4; ++rank) {
      threads.emplace_back([rank] {
        const LogRank named(rank);
        for (int i = 0; i < 100; ++i) log_info("{}", std::string(100, static_cast<char>('a' + rank)));
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
  const std::vector<std::string> lines = lines_of(text);
  ASSERT_EQ(lines.size(), 400u);
  for (const std::string& line : lines) EXPECT_THAT(line, MatchesRegex("wreath: info: rank . \\(.*\\): (a+|b+|c+|d+)"));
}

TEST(Log, WritesToAFileNamedByHostAndPid) {
  const test::Folder folder;
  EXPECT_EQ(stderr_of("WREATH_DEBUG_FILE", folder / "%p-100%", [] { log_error("into the file"); }), "");
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) paths.push_back(entry.path());
  ASSERT_EQ(paths.size(), 1u);
  EXPECT_THAT(paths[0].filename().string(), MatchesRegex("[0-9]+-100%"));
  std::ostringstream text;
  text << std::ifstream(paths[0]).rdbuf();
  EXPECT_THAT(text.str(), HasSubstr("into the file"));
}

TEST(Log, FallsBackToStderrWhenTheFileCannotBeOpened) {
  const std::string text = stderr_of("WREATH_DEBUG_FILE", "/nowhere/log", [] { log_error("still said"); });
  EXPECT_THAT(text, HasSubstr("WREATH_DEBUG_FILE=/nowhere/log cannot be opened"));
  EXPECT_THAT(text, HasSubstr("still said"));
}

TEST(Log, RestoresTheRankOfTheThread) {
  const std::string text = stderr_of("WREATH_DEBUG", "WARN", [] {
    const LogRank named(1);
    {
      const LogRank other(2);
      log_error("inner");
    }
    log_error("outer");
  });
  const std::vector<std::string> lines = lines_of(text);
  EXPECT_THAT(lines.at(0), HasSubstr("rank 2 "));
  EXPECT_THAT(lines.at(1), HasSubstr("rank 1 "));
}

}  // namespace
}  // namespace wreath
