// Tests what every device promises: memory of its own, order in a stream, events between streams. The tests run on the
// host device, and on CUDA's devices where there are some. A CUDA device may be a real one, or one of the driver that
// stands for CUDA's (test unit_device_fake_cuda).
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

#include "src/device/library_device.hpp"
#include "tests/unit/device/devices.hpp"
#include "wreath/device.hpp"

namespace wreath {
namespace {

class OnDevice : public testing::TestWithParam<LibraryDevice*> {
 protected:
  static LibraryDevice& device() { return *GetParam(); }
};
class Memory : public OnDevice {};
class Streams : public OnDevice {};
class Events : public OnDevice {};

INSTANTIATE_TEST_SUITE_P(Devices, Memory, testing::ValuesIn(test::devices()), test::name_of);
INSTANTIATE_TEST_SUITE_P(Devices, Streams, testing::ValuesIn(test::devices()), test::name_of);
INSTANTIATE_TEST_SUITE_P(Devices, Events, testing::ValuesIn(test::devices()), test::name_of);

std::vector<int> counting(std::size_t count) {
  std::vector<int> values(count);
  std::iota(values.begin(), values.end(), 1);
  return values;
}

TEST_P(Memory, HoldsWhatWasCopiedToIt) {
  const std::vector<int> source = counting(10'000);
  const std::size_t bytes = source.size() * sizeof(int);
  const DeviceMemory first = device().allocate(bytes).value();
  const DeviceMemory second = device().allocate(bytes).value();
  std::vector<int> target(source.size());
  device().copy(first.data(), source.data(), bytes).value();
  device().copy(second.data(), first.data(), bytes).value();
  device().copy(target.data(), second.data(), bytes).value();
  EXPECT_EQ(target, source);
}

TEST_P(Memory, StartsAsZeros) {
  const DeviceMemory memory = device().allocate(100).value();
  std::vector<char> target(100, 'x');
  device().copy(target.data(), memory.data(), 100).value();
  EXPECT_EQ(target, std::vector<char>(100, 0));
}

TEST_P(Memory, RefusesNothingAndNull) {
  EXPECT_EQ(device().allocate(0).error().code, ErrorCode::InvalidArgument);
  int value = 0;
  EXPECT_EQ(device().copy(&value, nullptr, 4).error().code, ErrorCode::InvalidArgument);
}

TEST_P(Memory, BeyondTheMachinesIsAnError) {
  for (const MemoryUse use : {MemoryUse::Plain, MemoryUse::Pinned, MemoryUse::Exportable}) {
    const auto memory = device().allocate(std::size_t{1} << 46, use);
    ASSERT_FALSE(memory);
    EXPECT_EQ(memory.error().code, ErrorCode::System);
    EXPECT_NE(memory.error().message.find("memory"), std::string::npos) << memory.error().message;
  }
}

TEST_P(Memory, PinnedIsTheHostsToo) {
  const DeviceMemory memory = device().allocate(64, MemoryUse::Pinned).value();
  EXPECT_EQ(memory.data()[63], std::byte{0});
  memory.data()[63] = std::byte{9};
  const DeviceMemory own = device().allocate(64).value();
  std::byte found{};
  device().copy(own.data(), memory.data(), 64).value();
  device().copy(&found, own.data() + 63, 1).value();
  EXPECT_EQ(found, std::byte{9});
  EXPECT_EQ(facts_of(memory.data() + 1).kind, MemoryKind::Pinned);
}

TEST_P(Memory, IsKnownByItsAddress) {
  const DeviceMemory memory = device().allocate(1'000).value();
  for (const std::size_t offset : {0u, 1u, 999u}) {
    const PointerFacts facts = facts_of(memory.data() + offset);
    EXPECT_EQ(facts.kind, MemoryKind::Device);
    EXPECT_EQ(facts.device, &device());
    EXPECT_EQ(facts.begin, memory.data());
    EXPECT_GE(facts.bytes, 1'000u);
  }
  int value = 0;
  EXPECT_EQ(facts_of(&value).kind, MemoryKind::Host);
  EXPECT_EQ(facts_of(nullptr).kind, MemoryKind::Host);
}

TEST_P(Memory, IsCopiedWithinItsBoundsOnly) {
  const DeviceMemory memory = device().allocate(64).value();
  const std::size_t all = facts_of(memory.data()).bytes;
  std::vector<std::byte> host(all + 1);
  device().copy(host.data(), memory.data(), all).value();
  const Status beyond = device().copy(host.data(), memory.data(), all + 1);
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().code, ErrorCode::InvalidArgument);
  EXPECT_NE(beyond.error().message.find("bytes are left"), std::string::npos) << beyond.error().message;
  const auto stream = device().make_stream().value();
  EXPECT_EQ(stream->copy(memory.data() + 1, host.data(), all).error().code, ErrorCode::InvalidArgument);
  // The copy that was refused has not harmed the stream.
  stream->synchronize().value();
}

// The test takes memory of every other device that is here, be it one or several.
TEST_P(Memory, OfAnotherDeviceIsRefusedByName) {
  for (LibraryDevice* const other : test::devices()) {
    if (other == &device()) continue;
    const DeviceMemory foreign = other->allocate(64).value();
    const DeviceMemory own = device().allocate(64).value();
    for (const auto& [target, source] : {std::pair(own.data(), foreign.data()), {foreign.data(), own.data()}}) {
      const Status refused = device().copy(target, source, 64);
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error().code, ErrorCode::InvalidArgument);
      EXPECT_NE(refused.error().message.find("memory of another device, " + std::string(other->name())),
                std::string::npos)
          << refused.error().message;
      EXPECT_EQ(device().make_stream().value()->copy(target, source, 64).error().code, ErrorCode::InvalidArgument);
    }
  }
}

TEST_P(Memory, OfADescriptorIsTheSameMemoryTwice) {
  const DeviceMemory memory = device().allocate(100'000, MemoryUse::Exportable).value();
  const MemoryExport exported = device().export_memory(memory.data() + 70'000).value();
  ASSERT_TRUE(exported.descriptor);
  EXPECT_EQ(exported.offset, 70'000u);
  const DeviceMemory again = device().import_memory(exported).value();
  EXPECT_NE(again.data(), memory.data());
  const std::vector<int> source = counting(100);
  std::vector<int> target(100);
  device().copy(memory.data() + 70'000, source.data(), 400).value();
  device().copy(target.data(), again.data() + exported.offset, 400).value();
  EXPECT_EQ(target, source);
}

TEST_P(Memory, ThatNobodyAllocatedIsNotExported) {
  int value = 0;
  EXPECT_EQ(device().export_memory(&value).error().code, ErrorCode::InvalidArgument);
  EXPECT_EQ(device().export_memory(nullptr).error().code, ErrorCode::InvalidArgument);
}

TEST_P(Streams, WorksInOrder) {
  const auto stream = device().make_stream().value();
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

TEST_P(Streams, SkipsWorkAfterAFailureAndKeepsTheFirstError) {
  const auto stream = device().make_stream().value();
  std::atomic<bool> go{false};
  std::atomic<bool> ran{false};
  const auto event = device().make_event().value();
  stream
      ->run([&] {
        while (!go) std::this_thread::yield();
        return Status(Error{ErrorCode::System, "first"});
      })
      .value();
  stream->run([&] { return ran = true, Status(); }).value();
  // The event fires after a failure, too, since others wait for it.
  stream->record(*event).value();
  go = true;
  event->synchronize(10'000).value();
  EXPECT_EQ(stream->synchronize().error().message, "first");
  EXPECT_EQ(stream->run([] { return Status(); }).error().message, "first");
  EXPECT_FALSE(ran);
}

TEST_P(Streams, TakesNoWorkThatIsNone) {
  const auto stream = device().make_stream().value();
  const Status none = stream->run(nullptr);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::InvalidArgument);
  stream->synchronize().value();
}

TEST_P(Streams, FailsWithWhatItsWorkThrows) {
  const auto throws = [](const std::function<Status()>& work) {
    const auto stream = device().make_stream().value();
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

// The program's signal handlers run on the program's threads.
TEST_P(Streams, TakesNoSignals) {
  const auto stream = device().make_stream().value();
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

TEST_P(Streams, SynchronizeWaitsAsLongAsItMay) {
  const auto stream = device().make_stream().value();
  const auto event = device().make_event().value();
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

TEST_P(Streams, SynchronizeGivesUpInTimeAndHarmsNothing) {
  const auto stream = device().make_stream().value();
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

TEST_P(Events, OrdersTwoStreams) {
  for (int repeat = 0; repeat < 50; ++repeat) {
    const auto first = device().make_stream().value();
    const auto second = device().make_stream().value();
    const auto event = device().make_event().value();
    // Access to the value would be a race if the event did not order the streams.
    int value = 0;
    first->run([&] { return value = 7, Status(); }).value();
    first->record(*event).value();
    second->wait(*event).value();
    int seen = 0;
    second->run([&] { return seen = value, Status(); }).value();
    second->synchronize().value();
    EXPECT_EQ(seen, 7);
  }
}

// A stream that waits for a point does not go on because another stream passed a later point first.
TEST_P(Events, RecordedAgainKeepsWhatEarlierWaitsMeant) {
  const auto slow = device().make_stream().value();
  const auto quick = device().make_stream().value();
  const auto waiting = device().make_stream().value();
  const auto event = device().make_event().value();
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
  // This waits for the later point.
  event->synchronize().value();
  EXPECT_TRUE(event->done());
  EXPECT_EQ(waiting->synchronize(50).error().code, ErrorCode::NotReady);
  go = true;
  waiting->synchronize().value();
  EXPECT_TRUE(in_order);
}

TEST_P(Events, NeverRecordedIsDone) {
  const auto event = device().make_event().value();
  EXPECT_TRUE(event->done());
  event->synchronize(0).value();
}

// The streams' work waits for the work of other streams, as ranks of one process do.
TEST_P(Streams, RunWorkThatWaitsForEachOther) {
  std::atomic<int> here{0};
  std::vector<std::unique_ptr<Stream>> streams;
  for (int i = 0; i < 4; ++i) {
    streams.push_back(device().make_stream().value());
    streams.back()
        ->run([&] {
          ++here;
          while (here < 4) std::this_thread::yield();
          return Status();
        })
        .value();
  }
  for (const auto& stream : streams) stream->synchronize().value();
}

TEST_P(Streams, TellAnEventOfAnotherDevice) {
  const auto stream = device().make_stream().value();
  for (LibraryDevice* const other : test::devices()) {
    if (other == &device()) continue;
    const auto event = other->make_event().value();
    EXPECT_EQ(stream->record(*event).error().code, ErrorCode::InvalidArgument);
    EXPECT_EQ(stream->wait(*event).error().code, ErrorCode::InvalidArgument);
  }
  stream->synchronize().value();
}

TEST_P(Streams, RefuseKernelsOfWhichThereIsNoCode) {
  const auto stream = device().make_stream().value();
  const Kernel kernel{"none", nullptr, [](HostBlock&, const void*) {}};
  const int value = 1;
  const Status launched = device().launch(*stream, kernel, {1, 1, &value, sizeof value});
  if (&device() == &host_device()) return launched.value();
  EXPECT_EQ(launched.error().code, ErrorCode::Unavailable) << launched.error().message;
}

}  // namespace
}  // namespace wreath
