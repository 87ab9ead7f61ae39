// Tests the descriptors of a process and what happens to them in its children.
#include "src/base/fd.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <utility>

#include "tests/support/in_child.hpp"

namespace wreath {
namespace {

using test::in_child;

bool is_open(int descriptor) { return ::fcntl(descriptor, F_GETFD) >= 0; }

int open_null() { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); }

TEST(Fd, OfAProcessIsClosedInItsChildrenAndNoneThere) {
  Fd own = Fd::of_process(open_null());
  const int number = own.get();
  ASSERT_TRUE(own);
  EXPECT_EQ(0, in_child([&] { return is_open(number) || own || own.get() != -1 ? 1 : 0; }));
  EXPECT_TRUE(is_open(number));
  own = Fd();
  EXPECT_FALSE(is_open(number));
}

TEST(Fd, OfAnyOtherKindIsItsChildrensToo) {
  const Fd own(open_null());
  Fd released = Fd::of_process(open_null());
  const Fd handed_on(released.release());
  EXPECT_EQ(0, in_child([&] { return is_open(own.get()) && is_open(handed_on.get()) ? 0 : 1; }));
}

// A child closes its parent's descriptor, and the number then belongs to another file, which must stay open.
TEST(Fd, OfAProcessLeavesItsNumberAloneInChildren) {
  Fd own = Fd::of_process(open_null());
  const int number = own.get();
  EXPECT_EQ(0, in_child([&] {
              if (::dup2(STDIN_FILENO, number) != number) return 1;
              Fd moved = std::move(own);
              moved = Fd();
              if (!is_open(number)) return 2;
              // A grandchild does not close the other file either.
              if (in_child([&] { return is_open(number) ? 0 : 3; }) != 0) return 3;
              Fd childs = Fd::of_process(open_null());
              const int of_child = childs.get();
              if (in_child([&] { return is_open(of_child) ? 4 : 0; }) != 0) return 4;
              childs = Fd();
              return is_open(of_child) ? 5 : 0;
            }));
}

TEST(Fd, OfAProcessIsNotClosedTwiceWhileThreadsOpenAndClose) {
  std::atomic<bool> stop{false};
  std::array<std::thread, 2> threads;
  for (std::thread& thread : threads) {
    thread = std::thread([&] {
      while (!stop) Fd::of_process(open_null());
    });
  }
  for (int i = 0; i < 200; ++i) {
    const Fd kept(open_null());
    ASSERT_EQ(0, in_child([&] { return is_open(kept.get()) ? 0 : 1; }));
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

TEST(Fd, BeyondThoseThatAreNotedIsAnOrdinaryOne) {
  constexpr int kFar = 70'000;
  if (::dup2(STDIN_FILENO, kFar) != kFar) GTEST_SKIP() << "RLIMIT_NOFILE is too low: run it after `ulimit -n 70001`";
  { const Fd far = Fd::of_process(kFar); }
  EXPECT_FALSE(is_open(kFar));
}

}  // namespace
}  // namespace wreath
