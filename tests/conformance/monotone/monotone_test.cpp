// Tests that no size is much slower than a larger one, so that rules, tiles and protocols meet without cliffs.
//
// Sizes rise by the factor 1.19 from 8 bytes on. The perf tools time them in turns, several rounds of all sizes, and
// medians are compared. A pair that looks like a cliff is measured again, its two sizes alone. Only a cliff that shows
// each time counts.
#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "src/base/cpu.hpp"
#include "tests/support/processes.hpp"

namespace wreath {
namespace {

constexpr double kStep = 1.19;
constexpr double kSlower = 1.3;
constexpr int kRounds = 5;
constexpr int kRoundsOfTwo = 9;
constexpr int kLooks = 5;  // looks at a possible cliff
constexpr std::size_t kElement = 8;

struct Tool {
  std::string program;
  std::string transport;
  std::size_t largest;
};

std::string name_of(const testing::TestParamInfo<Tool>& info) {
  return info.param.program + "_" + info.param.transport;
}

std::vector<std::size_t> sizes_up_to(std::size_t largest) {
  std::vector<std::size_t> sizes;
  for (double bytes = kElement; bytes <= static_cast<double>(largest); bytes *= kStep) {
    const std::size_t whole = static_cast<std::size_t>(std::lround(bytes / kElement)) * kElement;
    if (sizes.empty() || whole > sizes.back()) sizes.push_back(whole);
  }
  return sizes;
}

using Times = std::map<std::size_t, double>;

// Returns the median of each size, in us; empty where the tool fails.
Times measure(const Tool& tool, const std::vector<std::size_t>& sizes, int rounds) {
  const test::Folder folder;
  const std::string file = folder / "times.csv";
  std::string list;
  for (const std::size_t bytes : sizes) list += (list.empty() ? "" : ",") + std::to_string(bytes);
  const std::string command = std::string(WREATH_BINARY_DIR "/") + tool.program + " --ranks 2 --transport " +
                              tool.transport + " --sizes " + list + " --run_cycles " + std::to_string(rounds) +
                              " --time 1 --warmup_iters 4 --check 0 --place out --csv " + file + " > " + folder.path() +
                              "/output 2>&1";
  if (std::system(command.c_str()) != 0) return {};
  std::map<std::size_t, std::vector<double>> all;
  std::ifstream lines(file);
  std::string line;
  // The first line is the header. The first field of a row is the size, the seventh the time.
  std::getline(lines, line);
  while (std::getline(lines, line)) {
    std::vector<std::string> fields(1);
    for (const char c : line) c == ',' ? fields.emplace_back() : fields.back() += std::string(1, c);
    all[std::stoull(fields.at(0))].push_back(std::stod(fields.at(6)));
  }
  Times medians;
  for (auto& [bytes, times] : all) {
    std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
    medians[bytes] = times[times.size() / 2];
  }
  return medians;
}

struct Cliff {
  std::size_t smaller;
  std::size_t larger;
  double ratio;
};

// Returns a pair for each size that is slower than a larger one by more than kSlower. Its other size is the fastest of
// the larger ones.
std::vector<Cliff> cliffs_of(const Times& times) {
  std::vector<Cliff> cliffs;
  for (auto at = times.begin(); at != times.end(); ++at) {
    const auto fastest =
        std::min_element(std::next(at), times.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    if (fastest == times.end()) break;
    const double ratio = at->second / fastest->second;
    if (ratio > kSlower) cliffs.push_back({at->first, fastest->first, ratio});
  }
  return cliffs;
}

// Returns the least ratio of several looks.
double looked_at_again(const Tool& tool, const Cliff& cliff) {
  double least = cliff.ratio;
  for (int look = 0; look < kLooks && least > kSlower; ++look) {
    const Times again = measure(tool, {cliff.smaller, cliff.larger}, kRoundsOfTwo);
    if (again.size() == 2) least = std::min(least, again.at(cliff.smaller) / again.at(cliff.larger));
  }
  return least;
}

class Monotone : public testing::TestWithParam<Tool> {};

TEST_P(Monotone, NoSizeIsMuchSlowerThanALargerOne) {
  if (testing_support::kSanitized) GTEST_SKIP() << "times under a sanitizer say nothing: run it in the preset dev";
  const bool asked = testing_support::rounds(0, 1) > 0;
  if (!asked) GTEST_SKIP() << "times need a machine that does nothing else: run it there with WREATH_TEST_LONG=1";
  if (usable_cores() < 2) GTEST_SKIP() << "two ranks need two cores: run it on more";
  const std::vector<std::size_t> sizes = sizes_up_to(GetParam().largest);
  const Times times = measure(GetParam(), sizes, kRounds);
  ASSERT_EQ(times.size(), sizes.size()) << GetParam().program << " failed";
  for (const Cliff& cliff : cliffs_of(times)) {
    const double ratio = looked_at_again(GetParam(), cliff);
    EXPECT_LE(ratio, kSlower) << GetParam().program << " over " << GetParam().transport << ": " << cliff.smaller
                              << " bytes take " << ratio << " times as long as " << cliff.larger << ", in each of "
                              << kLooks << " looks";
  }
}

constexpr std::size_t kMiB = std::size_t{1} << 20;
INSTANTIATE_TEST_SUITE_P(
    Tools, Monotone,
    testing::Values(Tool{"all_reduce_perf", "shm", 64 * kMiB}, Tool{"all_reduce_perf", "tcp", 64 * kMiB},
                    Tool{"reduce_scatter_perf", "shm", 16 * kMiB}, Tool{"reduce_scatter_perf", "tcp", 16 * kMiB},
                    Tool{"all_gather_perf", "shm", 16 * kMiB}, Tool{"all_gather_perf", "tcp", 16 * kMiB},
                    Tool{"broadcast_perf", "shm", 16 * kMiB}, Tool{"broadcast_perf", "tcp", 16 * kMiB},
                    Tool{"alltoall_perf", "shm", 16 * kMiB}, Tool{"alltoall_perf", "tcp", 16 * kMiB},
                    Tool{"sendrecv_perf", "shm", 16 * kMiB}, Tool{"sendrecv_perf", "tcp", 16 * kMiB}),
    name_of);

TEST(Cliffs, AreFoundAndOnlyThose) {
  const std::vector<Cliff> found = cliffs_of({{8, 1.0}, {16, 5.0}, {24, 1.2}, {32, 1.1}, {40, 4.0}, {48, 3.9}});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].smaller, 16u);
  EXPECT_EQ(found[0].larger, 32u);
  EXPECT_NEAR(found[0].ratio, 5 / 1.1, 1e-9);
  EXPECT_TRUE(cliffs_of({{8, 1.0}, {16, 0.8}, {24, 1.0}}).empty());
  EXPECT_TRUE(cliffs_of({}).empty());
}

}  // namespace
}  // namespace wreath
