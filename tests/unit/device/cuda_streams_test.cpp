// Tests streams and graphs of a CUDA device, and which work waits for which, over the driver that stands for
// libcuda.so.1.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/device/cuda/driver.hpp"
#include "src/device/library_stream.hpp"
#include "tests/unit/device/fake_device.hpp"

namespace wreath {
namespace {

using test::FakeDevice;
using test::HostPage;

// While a stream waits for the host, the device makes no driver call that waits for all streams. The work that is to
// end the stream's wait would find the driver busy.
TEST_F(FakeDevice, FreesWhenNoStreamWaits) {
  for (const MemoryUse use : {MemoryUse::Plain, MemoryUse::Pinned, MemoryUse::Exportable}) {
    std::atomic<bool> open = false;
    const auto stream = device_->make_stream().value();
    const DeviceMemory kept = device_->allocate(64).value();
    DeviceMemory freed = device_->allocate(64, use).value();
    const auto page = std::make_unique<HostPage>();
    auto entry = device_->let_in({page->bytes.data(), 4096, true, nullptr}).value();
    stream
        ->run([&] {
          while (!open) std::this_thread::yield();
          int value = 0;
          return device_->copy(&value, kept.data(), sizeof value);
        })
        .value();
    const int before = fake_.alive();
    freed = DeviceMemory();
    entry.reset();
    EXPECT_EQ(fake_.alive(), before);
    EXPECT_EQ(fake_.reaches(0, page->bytes.data()), 2);
    open = true;
    stream->synchronize().value();
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (fake_.reaches(0, page->bytes.data()) != 0 && std::chrono::steady_clock::now() < until)
      std::this_thread::yield();
    EXPECT_LT(fake_.alive(), before - 1);
  }
}

// A graph that a device did not end leaves no wait behind: TearDown() counts what is alive.
TEST_F(FakeDevice, FreesAfterAGraphThatWasLost) {
  auto stream = device_->make_stream().value();
  stream->begin_capture().value();
  stream->run([] { return Status(); }).value();
  stream->run([] { return Status(); }).value();
  auto graph = stream->end_capture().value();
  stream
      ->run([] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        return Status();
      })
      .value();
  graph->launch(*stream).value();
  fake_.lose(kCudaLaunchFailed);
  graph.reset();
  stream.reset();
  fake_.lose(0);
  EXPECT_TRUE(device_->allocate(64));
}

// A driver makes no memory while a stream waits and is full, not even for the host's work that the stream waits for. So
// a stream that waits gets no more work than it takes.
TEST_F(FakeDevice, GivesAStreamThatWaitsNoMoreThanItTakes) {
  constexpr int kCopies = 3'000;
  const auto stream = device_->make_stream().value();
  const DeviceMemory memory = device_->allocate(64).value();
  std::atomic<bool> open = false;
  std::atomic<int> added = 0;
  stream
      ->run([&] {
        while (!open) std::this_thread::yield();
        const auto made = device_->allocate(64, MemoryUse::Pinned);
        return made ? Status() : Status(made.error());
      })
      .value();
  std::thread adds([&] {
    for (; added < kCopies; ++added) stream->copy(memory.data(), memory.data() + 32, 32).value();
  });
  for (int last = -1; last != added;) {
    last = added;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_LT(added, kCopies);
  open = true;
  adds.join();
  stream->synchronize().value();
  EXPECT_EQ(added, kCopies);
}

// A graph holds any amount of the host's work, also where its branches wait for each other.
TEST_F(FakeDevice, LaunchesGraphsWithMoreWorkThanAStreamTakes) {
  constexpr int kPieces = 200;
  const auto first = device_->make_stream().value();
  const auto second = device_->make_stream().value();
  const auto fork = device_->make_event().value();
  const auto join = device_->make_event().value();
  std::atomic<int> turn = 0;
  const auto wait_for_turn = [&](int number) {
    return [&turn, number] {
      while (turn % (2 * kPieces) != number) std::this_thread::yield();
      return ++turn, Status();
    };
  };
  first->begin_capture().value();
  first->record(*fork).value();
  second->wait(*fork).value();
  for (int i = 0; i < kPieces; ++i) first->run(wait_for_turn(2 * i)).value();
  for (int i = 0; i < kPieces; ++i) second->run(wait_for_turn(2 * i + 1)).value();
  second->record(*join).value();
  first->wait(*join).value();
  const auto graph = first->end_capture().value();
  for (int i = 0; i < 3; ++i) graph->launch(*first).value();
  first->synchronize().value();
  EXPECT_EQ(turn, 3 * 2 * kPieces);
}

// A launch that the driver refuses takes back its own work, and nothing of the launches before it.
TEST_F(FakeDevice, EndsTheLaunchesBeforeOneThatIsRefused) {
  auto stream = device_->make_stream().value();
  auto refused = device_->make_stream().value();
  std::atomic<bool> open = false;
  std::atomic<int> runs = 0;
  stream->begin_capture().value();
  stream->run([&] { return ++runs, Status(); }).value();
  const auto graph = stream->end_capture().value();
  stream
      ->run([&] {
        while (!open) std::this_thread::yield();
        return Status();
      })
      .value();
  graph->launch(*stream).value();
  fake_.fail("cuStreamWriteValue32", kCudaLaunchFailed, 1);
  EXPECT_FALSE(graph->launch(*refused));
  open = true;
  EXPECT_TRUE(stream->synchronize(10'000));
  EXPECT_EQ(runs, 1);
  graph->launch(*stream).value();
  EXPECT_TRUE(stream->synchronize(10'000));
  EXPECT_EQ(runs, 2);
}

// A stream's wait keeps the last memory of a device from being freed. A caller that asks for more waits until the
// memory is free.
TEST_F(FakeDevice, HasRoomAgainWhenTheStreamsWaitIsOver) {
  constexpr std::size_t kMost = std::size_t{600} << 20;
  const auto stream = device_->make_stream().value();
  DeviceMemory large = device_->allocate(kMost).value();
  stream
      ->run([] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        return Status();
      })
      .value();
  large = DeviceMemory();
  EXPECT_TRUE(device_->allocate(kMost));
}

// An operation that the driver refuses ends the stream, since the work behind it counts on it.
TEST_F(FakeDevice, KeepsAStreamsFirstError) {
  const DeviceMemory memory = device_->allocate(64).value();
  for (const char* const step : {"cuMemcpyAsync", "cuStreamWaitEvent", "cuStreamWriteValue32"}) {
    const auto stream = device_->make_stream().value();
    const auto event = device_->make_event().value();
    fake_.fail(step, kCudaLaunchFailed, 1);
    const auto first = [&]() -> Status {
      if (step == std::string("cuStreamWaitEvent")) return stream->wait(*event);
      if (step == std::string("cuStreamWriteValue32")) return stream->run([] { return Status(); });
      return stream->copy(memory.data(), memory.data() + 32, 32);
    }();
    ASSERT_FALSE(first) << step;
    EXPECT_EQ(first.error().message,
              std::string("cuda:0: ") + step + ": CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure");
    EXPECT_EQ(stream->copy(memory.data(), memory.data() + 32, 32).error().message, first.error().message);
    EXPECT_EQ(stream->synchronize().error().message, first.error().message);
    stream->record(*event).value();
    event->synchronize(10'000).value();
  }
}

// The driver refuses to wait for a stream that captures. The stream's memory is freed all the same: TearDown() counts
// what is alive.
TEST_F(FakeDevice, EndsTheCaptureOfAStreamThatGoes) {
  auto stream = device_->make_stream().value();
  stream->begin_capture().value();
  const auto ran = std::make_shared<int>(0);
  stream
      ->run([ran] {
        ++*ran;
        return Status();
      })
      .value();
  EXPECT_EQ(ran.use_count(), 2) << "it was captured";
  stream.reset();
  EXPECT_EQ(ran.use_count(), 1) << "what was captured is destroyed";
  EXPECT_EQ(*ran, 0);
}

// The device is lost while a stream waits for the host. No caller hangs, and the work that was not run is destroyed.
TEST_F(FakeDevice, EndsWaitsWhenItIsLost) {
  const auto stream = device_->make_stream().value();
  const auto event = device_->make_event().value();
  // The device may look at it after the end of this test.
  const auto go = std::make_shared<std::atomic<bool>>(false);
  stream
      ->run([go] {
        while (!*go) std::this_thread::yield();
        return Status();
      })
      .value();
  auto held = std::make_shared<int>(1);
  stream->run([held] { return Status(); }).value();
  stream->record(*event).value();
  const std::weak_ptr<int> watched = held;
  held.reset();
  EXPECT_EQ(event->synchronize(1).error().code, ErrorCode::NotReady);
  fake_.lose(kCudaLaunchFailed);
  *go = true;
  const Status lost = stream->synchronize();
  ASSERT_FALSE(lost);
  EXPECT_NE(lost.error().message.find("CUDA_ERROR_LAUNCH_FAILED"), std::string::npos) << lost.error().message;
  EXPECT_FALSE(event->synchronize());
  EXPECT_TRUE(event->done());
  EXPECT_TRUE(stream->idle());
  EXPECT_TRUE(watched.expired());
  int value = 0;
  EXPECT_FALSE(device_->copy(&value, &value, sizeof value));
  EXPECT_FALSE(device_->allocate(64));
  EXPECT_FALSE(device_->make_stream());
}

// Holds a stream that the program made with the driver.
class ForeignStream : public FakeDevice {
 protected:
  void SetUp() override {
    FakeDevice::SetUp();
    if (!fake_) return;
    driver_ = CudaDriver::load().value();
    CudaHandle context = nullptr;
    ASSERT_EQ(driver_->device_primary_ctx_retain(&context, 0), kCudaSuccess);
    driver_->ctx_push_current(context);
    ASSERT_EQ(driver_->stream_create_with_priority(&handle_, kCudaStreamNonBlocking, 0), kCudaSuccess);
  }
  void TearDown() override {
    if (driver_ != nullptr) {
      if (handle_ != nullptr) driver_->stream_destroy(handle_);
      CudaHandle context = nullptr;
      driver_->ctx_pop_current(&context);
    }
    FakeDevice::TearDown();
  }

  std::unique_ptr<CudaDriver> driver_;
  CudaHandle handle_ = nullptr;
};

TEST_F(ForeignStream, RunsWorkInItsTurn) {
  const DeviceMemory memory = device_->allocate(4).value();
  const auto address = reinterpret_cast<CudaAddress>(memory.data());
  const DeviceMemory pinned = device_->allocate(3 * sizeof(int), MemoryUse::Pinned).value();
  int* const numbers = reinterpret_cast<int*>(pinned.data());
  numbers[0] = 1;
  driver_->memcpy_async(address, reinterpret_cast<CudaAddress>(&numbers[0]), sizeof(int), handle_);
  const auto stream = use_cuda_stream(*device_, handle_).value();
  stream->run([&] { return device_->copy(&numbers[1], memory.data(), sizeof(int)); }).value();
  driver_->memcpy_async(reinterpret_cast<CudaAddress>(&numbers[2]), reinterpret_cast<CudaAddress>(&numbers[1]),
                        sizeof(int), handle_);
  EXPECT_EQ(driver_->stream_synchronize(handle_), kCudaSuccess);
  EXPECT_EQ(numbers[2], 1);
}

TEST_F(ForeignStream, MayGoFirst) {
  auto stream = use_cuda_stream(*device_, handle_).value();
  std::atomic<int> ran{0};
  stream->run([&] { return ++ran, Status(); }).value();
  driver_->stream_synchronize(handle_);
  driver_->stream_destroy(std::exchange(handle_, nullptr));
  stream.reset();
  EXPECT_EQ(ran, 1);
}

TEST_F(ForeignStream, IsNotUsedWhileTheProgramCapturesIt) {
  const auto stream = use_cuda_stream(*device_, handle_).value();
  ASSERT_EQ(driver_->stream_begin_capture(handle_, kCudaCaptureRelaxed), kCudaSuccess);
  const Status refused = stream->run([] { return Status(); });
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::InvalidUsage);
  EXPECT_EQ(refused.error().message, "cuda:0: the stream is captured into a graph that is not of this library");
  CudaHandle graph = nullptr;
  ASSERT_EQ(driver_->stream_end_capture(handle_, &graph), kCudaSuccess);
  driver_->graph_destroy(graph);
  EXPECT_TRUE(stream->run([] { return Status(); }));
}

// Counts the launches that begin it, as a captured call would take its turns.
class CountedWork final : public GraphWork {
 public:
  explicit CountedWork(int& begun) : begun_(begun) {}
  Status check() override { return {}; }
  std::function<Status()> begin() override {
    ++begun_;
    return [] { return Status(); };
  }

 private:
  int& begun_;
};

TEST_F(ForeignStream, IsGivenNoGraphOfTheLibraryWhileTheProgramCapturesIt) {
  const auto capturing = device_->make_stream().value();
  int begun = 0;
  capturing->begin_capture().value();
  static_cast<LibraryStream&>(*capturing).capture(std::make_shared<CountedWork>(begun)).value();
  const auto graph = capturing->end_capture().value();
  const auto stream = use_cuda_stream(*device_, handle_).value();
  ASSERT_EQ(driver_->stream_begin_capture(handle_, kCudaCaptureRelaxed), kCudaSuccess);
  const Status refused = graph->launch(*stream);
  EXPECT_TRUE(!refused && refused.error().code == ErrorCode::InvalidUsage);
  EXPECT_EQ(begun, 0);
  CudaHandle captured = nullptr;
  ASSERT_EQ(driver_->stream_end_capture(handle_, &captured), kCudaSuccess);
  driver_->graph_destroy(captured);
  graph->launch(*stream).value();
  stream->synchronize().value();
  EXPECT_EQ(begun, 1);
}

TEST_F(ForeignStream, MayBeTheDefaultOne) {
  const auto stream = use_cuda_stream(*device_, nullptr).value();
  std::atomic<int> ran{0};
  stream->run([&] { return ++ran, Status(); }).value();
  stream->synchronize().value();
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(use_cuda_stream(host_device(), nullptr).error().code, ErrorCode::InvalidArgument);
}

}  // namespace
}  // namespace wreath
