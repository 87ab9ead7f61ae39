// The memory that a machine and its control groups leave is read from folders made for the test.
#include "src/base/available_memory.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

namespace wreath {
namespace {

class AvailableMemory : public testing::Test {
 protected:
  AvailableMemory() : root_(std::filesystem::path(testing::TempDir()) / ("wreath-" + std::to_string(::getpid()))) {
    write("/proc/meminfo", "MemTotal: 9000 kB\nMemAvailable: 1000 kB\nSwapFree: 24 kB\n");
  }
  ~AvailableMemory() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file(root_.string() + path);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  std::uint64_t available() const { return available_memory(root_.string()); }

  std::filesystem::path root_;
};

TEST_F(AvailableMemory, IsTheMachinesWithoutGroups) { EXPECT_EQ(available(), 1024U * 1024); }

TEST_F(AvailableMemory, IsUnlimitedWhereNothingCanBeRead) {
  EXPECT_EQ(available_memory("/no such folder"), std::numeric_limits<std::uint64_t>::max());
}

TEST_F(AvailableMemory, OfAMachineThatCannotBeIsNotLittle) {
  write("/proc/meminfo", "MemAvailable: 18014398509481985 kB\nSwapFree: 18014398509481985 kB\n");
  EXPECT_GT(available(), std::numeric_limits<std::uint64_t>::max() / 4);
}

TEST_F(AvailableMemory, FollowsTheOwnGroupsLimit) {
  write("/proc/self/cgroup", "0::/job/step\n");
  write("/sys/fs/cgroup/job/step/memory.max", "500000\n");
  write("/sys/fs/cgroup/job/step/memory.current", "300000\n");
  EXPECT_EQ(available(), 200000U);
  write("/sys/fs/cgroup/job/step/memory.stat", "anon 7\ninactive_file 100000\n");
  EXPECT_EQ(available(), 300000U);
  write("/sys/fs/cgroup/job/step/memory.current", "700000\n");
  EXPECT_EQ(available(), 0U);
}

TEST_F(AvailableMemory, FollowsTheLimitsOfGroupsAbove) {
  write("/proc/self/cgroup", "0::/job/step\n");
  write("/sys/fs/cgroup/job/step/memory.max", "max\n");
  write("/sys/fs/cgroup/job/step/memory.current", "1\n");
  write("/sys/fs/cgroup/job/memory.max", "4000\n");
  write("/sys/fs/cgroup/job/memory.current", "1000\n");
  EXPECT_EQ(available(), 3000U);
  write("/sys/fs/cgroup/memory.max", "900\n");
  write("/sys/fs/cgroup/memory.current", "0\n");
  EXPECT_EQ(available(), 900U);
}

TEST_F(AvailableMemory, FollowsVersionOne) {
  write("/proc/self/cgroup", "5:cpu,cpuacct:/a\n4:hugetlb,memory:/a\nnonsense\n");
  write("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "5000\n");
  write("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "2000\n");
  EXPECT_EQ(available(), 3000U);
}

}  // namespace
}  // namespace wreath
