// Tests how many cores a process may really use, and the scale of the cycle counter.
#include "src/base/cpu.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "src/base/clock.hpp"
#include "tests/support/on_one_core.hpp"
#include "tests/support/surroundings.hpp"

namespace wreath {
namespace {

// Makes a file tree that stands for the root folder.
class FakeRoot : public ::testing::Test {
 protected:
  void file(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ + path).substr(0, (root_ + path).rfind('/')));
    std::ofstream(root_ + path) << text;
  }
  int cores(int affinity) const { return usable_cores(root_.c_str(), affinity); }

  const test::Folder folder_;
  const std::string& root_ = folder_.path();
};

TEST_F(FakeRoot, WithoutControlGroupsGivesTheAffinityMask) { EXPECT_EQ(cores(8), 8); }

TEST_F(FakeRoot, VersionTwoQuotaLimitsAndRoundsUp) {
  file("/proc/self/cgroup", "0::/a/b\n");
  file("/sys/fs/cgroup/a/b/cpu.max", "150000 100000\n");
  EXPECT_EQ(cores(8), 2);
  EXPECT_EQ(cores(1), 1);
}

TEST_F(FakeRoot, VersionTwoQuotaOfAParentCounts) {
  file("/proc/self/cgroup", "0::/a/b\n");
  file("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  file("/sys/fs/cgroup/a/cpu.max", "300000 100000\n");
  EXPECT_EQ(cores(8), 3);
}

TEST_F(FakeRoot, VersionTwoQuotaOfAContainersMountCounts) {
  file("/proc/self/cgroup", "0::/\n");
  file("/sys/fs/cgroup/cpu.max", "50000 100000\n");
  EXPECT_EQ(cores(8), 1);
}

TEST_F(FakeRoot, VersionOneQuotaLimits) {
  file("/proc/self/cgroup", "5:memory:/x\n4:cpu,cpuacct:/docker/1\n");
  file("/sys/fs/cgroup/cpu/docker/1/cpu.cfs_quota_us", "400000\n");
  file("/sys/fs/cgroup/cpu/docker/1/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cores(8), 4);
  file("/sys/fs/cgroup/cpu/docker/1/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(cores(8), 8);
}

TEST_F(FakeRoot, NonsenseIsNoQuota) {
  file("/proc/self/cgroup", "0::/a\nnonsense\n::\n1:cpu:\n");
  for (const char* text : {"", "max", "x y", "-5 100000", "100000 0", "100000"}) {
    file("/sys/fs/cgroup/a/cpu.max", text);
    EXPECT_EQ(cores(8), 8) << text;
  }
}

TEST(Cpu, UsableCoresFollowTheAffinityMask) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  EXPECT_GE(usable_cores(), 1);
  EXPECT_LE(usable_cores(), CPU_COUNT(&before));
  const test::OnOneCore on_one_core;
  EXPECT_EQ(usable_cores(), 1);
}

TEST(Cpu, SetsOfCoresAreCountedTogether) {
  CoreSet cores;
  EXPECT_EQ(count_cores(cores), 0);
  add_cores(cores, std::string("\x81\x01", 2));
  EXPECT_EQ(count_cores(cores), 3);
  add_cores(cores, std::string("\x83", 1));
  EXPECT_EQ(count_cores(cores), 4) << "two are in both";
}

TEST(Cpu, CycleCountsBecomeTimes) {
  const TickPair start = TickPair::now();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const std::uint64_t ticks = cycle_count();
  const std::int64_t ns = now_ns();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const TickScale scale(start, TickPair::now());
  EXPECT_NEAR(static_cast<double>(scale.to_ns(ticks) - ns), 0, 2e6);
  EXPECT_EQ(scale.to_ns(start.ticks), start.ns);
}

TEST(Cpu, AScaleOfNoLengthGivesItsStart) {
  const TickScale scale({100, 5}, {100, 5});
  EXPECT_EQ(scale.to_ns(1000), 5);
}

TEST(SpinBudget, FollowsTheSettingElseTheCores) {
  setenv("WREATH_SPIN_US", "7", 1);
  EXPECT_EQ(spin_budget_ns({1'000'000, 1}), 7'000);
  unsetenv("WREATH_SPIN_US");
  EXPECT_EQ(spin_budget_ns({1, 1}), 50'000);
  EXPECT_EQ(spin_budget_ns({1'000'000, 999'999}), 0);
}

}  // namespace
}  // namespace wreath
