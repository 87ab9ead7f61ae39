// Tests files of results where the disk is full: a file that was there stays whole, and the exit code says that nothing
// was written.
#include <gmock/gmock.h>
#include <unistd.h>

#include <string>

#include "tests/unit/commands/command.hpp"

namespace wreath {
namespace {

using testing::HasSubstr;
using testing_support::Outcome;
using testing_support::run_line;

// Runs the tool in a mount namespace of its own, on a disk of 16 KiB that the file `kept` half fills.
Outcome run_on_full_disk(const std::string& tool) {
  return run_line(
      "d=$(mktemp -d); unshare -m sh -c 'mount -t tmpfs -o size=16k none $0 && cd $0 && head -c 9000 /dev/zero >kept "
      "&& "
      "cp kept /dev/shm/kept-$$ && " WREATH_BINARY_DIR "/" +
      tool +
      "; code=$?; cmp kept /dev/shm/kept-$$ && echo whole; rm /dev/shm/kept-$$; ls; exit $code' $d; code=$?; rmdir $d; "
      "exit "
      "$code");
}

class FullDisk : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (::geteuid() != 0 || run_line("unshare -m true").exit_code != 0)
      GTEST_SKIP() << "it mounts a disk: run it as root";
  }
};

constexpr const char* kTools[] = {
    "all_reduce_perf -t 2 -b 8 -e 32M -f 2 -n 1 -w 0 --json kept",
    "all_reduce_perf -t 2 -b 8 -e 32M -f 2 -n 1 -w 0 --html kept",
    "wreath topo --svg kept",
};

INSTANTIATE_TEST_SUITE_P(Tools, FullDisk, testing::ValuesIn(kTools));

TEST_P(FullDisk, KeepsWhatWasThere) {
  const Outcome outcome = run_on_full_disk(GetParam());
  EXPECT_EQ(outcome.exit_code, 6) << outcome.text;
  // The tool leaves no other file beside it.
  EXPECT_THAT(outcome.text, HasSubstr("whole\nkept\n"));
  EXPECT_THAT(outcome.text, HasSubstr("No space left on device"));
}

}  // namespace
}  // namespace wreath
