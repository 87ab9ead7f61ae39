// The host device keeps the promises that a real one makes: separate memory, order in a stream, events between streams.
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "src/device/device_memory.hpp"
#include "tests/support/timer.hpp"
#include "wreath/device.hpp"

namespace wreath {
namespace {

std::vector<int> counting(std::size_t count) {
  std::vector<int> values(count);
  std::iota(values.begin(), values.end(), 1);
  return values;
}

TEST(DeviceMemory, HoldsWhatWasCopiedToIt) {
  const std::vector<int> source = counting(10'000);
  const std::size_t bytes = source.size() * sizeof(int);
  const DeviceMemory first = host_device().allocate(bytes).value();
  const DeviceMemory second = host_device().allocate(bytes).value();
  std::vector<int> target(source.size());
  host_device().copy(first.data(), source.data(), bytes).value();
  host_device().copy(second.data(), first.data(), bytes).value();
  host_device().copy(target.data(), second.data(), bytes).value();
  EXPECT_EQ(target, source);
}

TEST(DeviceMemory, StartsAsZeros) {
  const DeviceMemory memory = host_device().allocate(100).value();
  std::vector<char> target(100, 'x');
  host_device().copy(target.data(), memory.data(), 100).value();
  EXPECT_EQ(target, std::vector<char>(100, 0));
}

TEST(DeviceMemoryDeathTest, CannotBeTouchedByTheHost) {
  const DeviceMemory memory = host_device().allocate(64).value();
  EXPECT_DEATH(memory.data()[0] = std::byte{1}, "");
}

TEST(DeviceMemory, IsReachedWhereARangeIsWhollyInIt) {
  constexpr std::size_t kBytes = 2 * 65'536;  // whole pages, whatever a page is
  std::byte* data = nullptr;
  {
    const DeviceMemory memory = host_device().allocate(kBytes).value();
    data = memory.data();
    std::byte* const first = reachable(data, kBytes);
    EXPECT_NE(first, data);
    first[kBytes - 1] = std::byte{7};
    EXPECT_EQ(reachable(data + 100, kBytes - 100), first + 100);
    EXPECT_EQ(*reachable(data + kBytes - 1, 1), std::byte{7});
    EXPECT_EQ(reachable(data, kBytes + 1), data);
    EXPECT_EQ(reachable(data + 100, kBytes - 99), data + 100);
    std::byte host{};
    EXPECT_EQ(reachable(&host, 1), &host);
  }
  EXPECT_EQ(reachable(data, 1), data);
}

TEST(DeviceMemory, RefusesNothingAndNull) {
  EXPECT_EQ(host_device().allocate(0).error().code, ErrorCode::InvalidArgument);
  int value = 0;
  EXPECT_EQ(host_device().copy(&value, nullptr, 4).error().code, ErrorCode::InvalidArgument);
}

TEST(DeviceMemory, BeyondTheMachinesIsAnError) {
  for (const std::size_t bytes : {std::size_t{1} << 46, std::size_t{1} << 62, ~std::size_t{0}}) {
    const auto memory = host_device().allocate(bytes);
    ASSERT_FALSE(memory);
    EXPECT_EQ(memory.error().code, ErrorCode::System);
    EXPECT_NE(memory.error().message.find("device memory"), std::string::npos) << memory.error().message;
  }
}

TEST(DeviceMemory, IsMadeInSpiteOfSignalsThatComeFaster) {
  const test::Timer timer(1'000);
  const auto memory = host_device().allocate(std::size_t{128} << 20);
  ASSERT_TRUE(memory) << memory.error().message;
}

TEST(Stream, WorksInOrder) {
  const auto stream = host_device().make_stream().value();
  std::vector<int> seen;
  for (int i = 0; i < 100; ++i) {
    stream->run([&seen, i] { return seen.push_back(i), Status(); }).value();
  }
  stream->synchronize().value();
  EXPECT_TRUE(stream->idle());
  std::vector<int> wanted(100);
  std::iota(wanted.begin(), wanted.end(), 0);
  EXPECT_EQ(seen, wanted);
}

TEST(Stream, SkipsWorkAfterAFailureAndKeepsTheFirstError) {
  const auto stream = host_device().make_stream().value();
  std::atomic<bool> go{false};
  std::atomic<bool> ran{false};
  const auto event = host_device().make_event().value();
  stream
      ->run([&] {
        while (!go) std::this_thread::yield();
        return Status(Error{ErrorCode::System, "first"});
      })
      .value();
  stream->run([&] { return ran = true, Status(); }).value();
  stream->record(*event).value();  // events fire all the same: others wait for them
  go = true;
  event->synchronize(10'000).value();
  EXPECT_EQ(stream->synchronize().error().message, "first");
  EXPECT_EQ(stream->run([] { return Status(); }).error().message, "first");
  EXPECT_FALSE(ran);
}

TEST(Stream, TakesNoWorkThatIsNone) {
  const auto stream = host_device().make_stream().value();
  const Status none = stream->run(nullptr);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::InvalidArgument);
  stream->synchronize().value();
}

TEST(Stream, FailsWithWhatItsWorkThrows) {
  const auto throws = [](const std::function<Status()>& work) {
    const auto stream = host_device().make_stream().value();
    stream->run(work).value();
    return stream->synchronize().error();
  };
  const Error own = throws([]() -> Status { throw Exception({ErrorCode::Mismatch, "own", 3}); });
  EXPECT_EQ(own.code, ErrorCode::Mismatch);
  EXPECT_EQ(own.message, "own");
  EXPECT_EQ(own.failed_rank, 3);
  const Error other = throws([]() -> Status { throw std::runtime_error("other"); });
  EXPECT_EQ(other.code, ErrorCode::System);
  EXPECT_NE(other.message.find("other"), std::string::npos) << other.message;
}

// The program's handlers run on the program's threads.
TEST(Stream, TakesNoSignals) {
  const auto stream = host_device().make_stream().value();
  bool blocked = false;
  stream
      ->run([&] {
        sigset_t mask;
        pthread_sigmask(SIG_SETMASK, nullptr, &mask);
        blocked = sigismember(&mask, SIGALRM) == 1 && sigismember(&mask, SIGINT) == 1;
        return Status();
      })
      .value();
  stream->synchronize().value();
  EXPECT_TRUE(blocked);
}

TEST(Stream, SynchronizeWaitsAsLongAsItMay) {
  const auto stream = host_device().make_stream().value();
  const auto event = host_device().make_event().value();
  for (const std::int64_t longest : {std::numeric_limits<std::int64_t>::max(), std::int64_t{1} << 50}) {
    std::atomic<bool> over{false};
    stream
        ->run([&] {
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
          return over = true, Status();
        })
        .value();
    stream->record(*event).value();
    event->synchronize(longest).value();
    EXPECT_TRUE(over);
    stream->synchronize(longest).value();
  }
}

TEST(Stream, SynchronizeGivesUpInTimeAndHarmsNothing) {
  const auto stream = host_device().make_stream().value();
  std::atomic<bool> go{false};
  stream
      ->run([&] {
        while (!go) std::this_thread::yield();
        return Status();
      })
      .value();
  EXPECT_EQ(stream->synchronize(1).error().code, ErrorCode::NotReady);
  EXPECT_FALSE(stream->idle());
  go = true;
  stream->synchronize().value();
}

TEST(Event, OrdersTwoStreams) {
  for (int repeat = 0; repeat < 50; ++repeat) {
    const auto first = host_device().make_stream().value();
    const auto second = host_device().make_stream().value();
    const auto event = host_device().make_event().value();
    int value = 0;  // a race, were the event not to order
    first->run([&] { return value = 7, Status(); }).value();
    first->record(*event).value();
    second->wait(*event).value();
    int seen = 0;
    second->run([&] { return seen = value, Status(); }).value();
    second->synchronize().value();
    EXPECT_EQ(seen, 7);
  }
}

// Who waits for a point does not go on because a later one was passed first, in another stream.
TEST(Event, RecordedAgainKeepsWhatEarlierWaitsMeant) {
  const auto slow = host_device().make_stream().value();
  const auto quick = host_device().make_stream().value();
  const auto waiting = host_device().make_stream().value();
  const auto event = host_device().make_event().value();
  std::atomic<bool> go{false};
  std::atomic<bool> over{false};
  slow->run([&] {
        while (!go) std::this_thread::yield();
        return over = true, Status();
      })
      .value();
  slow->record(*event).value();
  waiting->wait(*event).value();
  bool in_order = false;
  waiting->run([&] { return in_order = over, Status(); }).value();
  quick->record(*event).value();
  event->synchronize().value();  // the later point
  EXPECT_TRUE(event->done());
  EXPECT_EQ(waiting->synchronize(50).error().code, ErrorCode::NotReady);
  go = true;
  waiting->synchronize().value();
  EXPECT_TRUE(in_order);
}

TEST(Event, NeverRecordedIsDone) {
  const auto event = host_device().make_event().value();
  EXPECT_TRUE(event->done());
  event->synchronize(0).value();
}

}  // namespace
}  // namespace wreath
