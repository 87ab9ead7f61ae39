// A CUDA device where things go wrong, over the driver that stands for libcuda.so.1.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "src/device/cuda/driver.hpp"
#include "src/device/cuda/platform.hpp"
#include "tests/support/fake_cuda.hpp"

namespace wreath {
namespace {

using test::FakeCuda;

constexpr const char* kNeedsFake = "needs the driver that stands for CUDA's: run it as ctest -R unit_device_fake_cuda";

TEST(CudaDriver, ThatIsNotHereIsNamed) {
  const auto driver = CudaDriver::load("libcuda-that-is-not-here.so.1");
  ASSERT_FALSE(driver);
  EXPECT_EQ(driver.error().code, ErrorCode::Unavailable);
  EXPECT_EQ(driver.error().message.find("no libcuda-that-is-not-here.so.1: cannot open"), 0u) << driver.error().message;
}

TEST(CudaDriver, OfAnotherLibraryIsNone) {
  const auto driver = CudaDriver::load("libc.so.6");
  ASSERT_FALSE(driver);
  EXPECT_EQ(driver.error().message, "libc.so.6: has no cuGetProcAddress_v2: it is older than CUDA 12");
}

class FakeDevice : public testing::Test {
 protected:
  void SetUp() override {
    static_cast<void>(cuda_devices());
    fake_ = FakeCuda::find();
    if (!fake_) GTEST_SKIP() << kNeedsFake;
    device_ = CudaPlatform::opened()->device(0).value();
    alive_ = fake_.alive();
  }
  void TearDown() override {
    if (!fake_) return;
    fake_.lose(0);
    fake_.other_process(0);
    EXPECT_EQ(fake_.alive(), alive_) << "something was not freed";
  }

  FakeCuda fake_{};
  CudaDevice* device_ = nullptr;
  int alive_ = 0;
};

TEST_F(FakeDevice, OfADriverWithoutAFunctionIsNone) {
  fake_.fail("cuMemCreate", kCudaNotFound, 1);
  const auto driver = CudaDriver::load();
  ASSERT_FALSE(driver);
  EXPECT_EQ(driver.error().code, ErrorCode::Unavailable);
  EXPECT_EQ(driver.error().message, "libcuda.so.1: has no cuMemCreate");
}

TEST_F(FakeDevice, OfANumberThatIsNotThereIsRefused) {
  for (const int number : {-1, 2}) {
    const auto device = cuda_device(number);
    ASSERT_FALSE(device);
    EXPECT_EQ(device.error().code, ErrorCode::InvalidArgument);
    EXPECT_EQ(device.error().message, "CUDA device " + std::to_string(number) + ": there are 2");
  }
}

TEST_F(FakeDevice, IsCurrentWhereItsContextIs) {
  EXPECT_EQ(current_cuda_device(), nullptr);
  const auto driver = CudaDriver::load().value();
  for (const int number : {1, 0}) {
    CudaHandle context = nullptr;
    ASSERT_EQ(driver->device_primary_ctx_retain(&context, number), kCudaSuccess);
    driver->ctx_push_current(context);
    EXPECT_EQ(current_cuda_device(), cuda_device(number).value());
    driver->ctx_pop_current(&context);
  }
}

// Peers tell devices by it.
TEST_F(FakeDevice, HasAnIdentityOfItsOwn) {
  EXPECT_EQ(device_->identity().kind, EndpointDevice::Kind::Cuda);
  EXPECT_NE(device_->identity(), CudaPlatform::opened()->device(1).value()->identity());
}

TEST_F(FakeDevice, SaysHowMuchMemoryThereWouldBe) {
  const auto memory = device_->allocate(std::size_t{2} << 30);
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().code, ErrorCode::System);
  EXPECT_NE(
      memory.error().message.find("cuda:0: cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY: out of memory; 2147483648 bytes"),
      std::string::npos)
      << memory.error().message;
  EXPECT_NE(memory.error().message.find("1G are free"), std::string::npos) << memory.error().message;
}

// Whatever step fails, nothing stays behind: TearDown counts.
TEST_F(FakeDevice, FreesWhatWasMadeBeforeAStepThatFails) {
  for (const char* const step : {"cuMemAlloc", "cuMemsetD8Async"}) {
    fake_.fail(step, kCudaOutOfMemory, 1);
    EXPECT_EQ(device_->allocate(64).error().code, ErrorCode::System) << step;
  }
  for (const char* const step :
       {"cuMemCreate", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess", "cuMemsetD8Async"}) {
    fake_.fail(step, kCudaOutOfMemory, 1);
    const auto memory = device_->allocate(64, MemoryUse::Exportable);
    ASSERT_FALSE(memory) << step;
    EXPECT_NE(memory.error().message.find(step), std::string::npos) << memory.error().message;
  }
  fake_.fail("cuStreamCreate", kCudaOutOfMemory, 1);
  EXPECT_FALSE(device_->make_stream());
  fake_.fail("cuEventCreate", kCudaOutOfMemory, 1);
  EXPECT_FALSE(device_->make_event());
  const DeviceMemory memory = device_->allocate(64, MemoryUse::Exportable).value();
  for (const char* const step : {"cuMemImportFromShareableHandle", "cuMemMap"}) {
    const MemoryExport exported = device_->export_memory(memory.data()).value();
    fake_.fail(step, kCudaOutOfMemory, 1);
    EXPECT_FALSE(device_->import_memory(exported)) << step;
  }
  fake_.fail("cuMemExportToShareableHandle", kCudaOutOfMemory, 1);
  EXPECT_FALSE(device_->export_memory(memory.data()));
}

// A page of the host's memory, for kernels.
struct HostPage {
  alignas(4096) std::array<std::byte, 8192> bytes{};
};

TEST_F(FakeDevice, IsLetInToMemoryOfTheHostUntilNobodyNeedsIt) {
  const auto page = std::make_unique<HostPage>();
  std::byte* const data = page->bytes.data();
  EXPECT_EQ(fake_.reaches(0, data), 0);
  fake_.set_attribute(kCudaReadOnlyHostMemory, 1);
  auto first = device_->let_in({data, 4096, true, nullptr}).value();
  auto second = CudaPlatform::opened()->device(1).value()->let_in({data, 4096, true, nullptr}).value();
  const auto read_only = device_->let_in({data + 4096, 4096, false, nullptr}).value();
  fake_.set_attribute(kCudaReadOnlyHostMemory, 0);
  EXPECT_EQ(fake_.reaches(0, data + 4095), 2);
  EXPECT_EQ(fake_.reaches(0, data + 4096), 1);
  first.reset();
  EXPECT_EQ(fake_.reaches(0, data), 2);
  second.reset();
  EXPECT_EQ(fake_.reaches(0, data), 0);
}

TEST_F(FakeDevice, LeavesToTheProgramWhatItHasRegisteredItself) {
  const auto page = std::make_unique<HostPage>();
  std::byte* const data = page->bytes.data();
  const auto driver = CudaDriver::load().value();
  CudaHandle context = nullptr;
  ASSERT_EQ(driver->device_primary_ctx_retain(&context, 0), kCudaSuccess);
  driver->ctx_push_current(context);
  ASSERT_EQ(driver->mem_host_register(data, 4096, kCudaRegisterPortable), kCudaSuccess);
  device_->let_in({data, 4096, true, nullptr}).value();
  EXPECT_FALSE(device_->let_in({data, 8192, true, nullptr})) << "of which a part is registered";
  EXPECT_EQ(fake_.reaches(0, data), 2);
  EXPECT_EQ(driver->mem_host_unregister(data), kCudaSuccess);
  driver->ctx_pop_current(&context);
}

// A driver looks whether pages are writable when it takes them; the process that maps a peer's does not write them.
TEST_F(FakeDevice, IsLetInToPagesThatStayReadOnly) {
  void* const page = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  auto* const data = static_cast<std::byte*>(page);
  const auto entry = device_->let_in({data, 4096, false, nullptr}).value();
  EXPECT_EQ(fake_.reaches(0, data), 2);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], "x", 1), 1);
  EXPECT_EQ(::read(ends[0], page, 1), -1) << "the process may write it";
  for (const int end : ends) ::close(end);
}

// While a stream waits for the host, nothing is asked of the driver that waits for all streams: whoever is to end the
// wait would find it busy.
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

// Nobody's wait is left of a graph that a device did not end: TearDown counts.
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

// Where a stream waits and is full, a driver lets nobody make memory: not the host's work that the stream waits for.
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

// A graph holds as much of the host's work as it likes, also where its branches wait for each other.
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

// The last memory of a device, which a stream's wait keeps from being freed: who asks for more waits for that.
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

// A thread of the program captures into a graph of its own, in CUDA's "global" mode.
TEST_F(FakeDevice, DisturbsNoCaptureOfTheProgram) {
  fake_.program_captures(1);
  const auto memory = device_->allocate(64);
  const auto stream = device_->make_stream();
  const bool both = memory && stream;
  EXPECT_TRUE(both);
  if (both) {
    int value = 1;
    EXPECT_TRUE((*stream)->copy(memory->data(), &value, sizeof value));
    EXPECT_TRUE((*stream)->synchronize());
    EXPECT_TRUE(device_->copy(&value, memory->data(), sizeof value));
  }
  fake_.program_captures(0);
}

// Of memory that is not pinned.
TEST_F(FakeDevice, CopiesWithoutWaitingForTheStream) {
  const auto stream = device_->make_stream().value();
  const DeviceMemory memory = device_->allocate(sizeof(int)).value();
  std::atomic<bool> open = false;
  int value = 7;
  int back = 0;
  stream
      ->run([&] {
        while (!open) std::this_thread::yield();
        return device_->copy(memory.data(), &value, sizeof value);
      })
      .value();
  stream->copy(&back, memory.data(), sizeof back).value();
  open = true;
  stream->synchronize().value();
  EXPECT_EQ(back, 7);
}

TEST_F(FakeDevice, AsksOnceWhoseMemoryEachEndOfACopyIs) {
  const auto stream = device_->make_stream().value();
  const DeviceMemory a = device_->allocate(64).value();
  const DeviceMemory b = device_->allocate(64).value();
  const int before = fake_.pointers_asked();
  stream->copy(a.data(), b.data(), 64).value();
  EXPECT_EQ(fake_.pointers_asked(), before + 2);
  stream->synchronize().value();
}

TEST_F(FakeDevice, SaysThatTheDriverIsTooOldForTheKernels) {
  const Kernel kernel{"nobodys", &fake_, nullptr};
  for (const CudaResult refused : {kCudaInvalidImage, kCudaNoBinaryForGpu, kCudaInvalidPtx, kCudaUnsupportedPtx}) {
    fake_.fail("cuModuleLoadData", refused, 1);
    const auto blocks = device_->resident_blocks(kernel, 32);
    ASSERT_FALSE(blocks);
    EXPECT_EQ(blocks.error().code, ErrorCode::Unavailable);
    EXPECT_NE(blocks.error().message.find("the driver is for CUDA up to 13.0"), std::string::npos)
        << blocks.error().message;
  }
}

TEST_F(FakeDevice, SaysWhyItIsNotLetIn) {
  const auto page = std::make_unique<HostPage>();
  std::byte* const data = page->bytes.data();
  fake_.fail("cuMemHostRegister", kCudaOutOfMemory, 1);
  EXPECT_EQ(device_->let_in({data, 4096, true, nullptr}).error().message,
            "cuda:0: cuMemHostRegister: CUDA_ERROR_OUT_OF_MEMORY: out of memory");
  fake_.set_attribute(kCudaSameHostAddress, 0);
  EXPECT_EQ(device_->let_in({data, 4096, true, nullptr}).error().code, ErrorCode::Unavailable);
  fake_.set_attribute(kCudaSameHostAddress, 1);
  EXPECT_TRUE(device_->let_in({data, 4096, true, nullptr}));
}

TEST_F(FakeDevice, ExportsOrdinaryMemoryByAHandle) {
  const DeviceMemory memory = device_->allocate(1'000).value();
  const MemoryExport exported = device_->export_memory(memory.data() + 10).value();
  EXPECT_FALSE(exported.descriptor);
  EXPECT_EQ(exported.offset, 10u);
  const auto here = device_->import_memory(exported);
  ASSERT_FALSE(here);
  EXPECT_EQ(here.error().code, ErrorCode::InvalidArgument);
  EXPECT_NE(here.error().message.find("it is there already"), std::string::npos) << here.error().message;
  fake_.other_process(1);
  const DeviceMemory mapped = device_->import_memory(exported).value();
  EXPECT_EQ(mapped.size(), 1'000u);
}

// What the driver refuses ends the stream: what stands behind counts on it.
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

// A device that is lost while a stream waits for the host: nobody hangs, and work that was not run learns of it.
// The driver refuses to wait for a stream that captures: its memory is freed all the same, as TearDown counts.
TEST_F(FakeDevice, EndsTheCaptureOfAStreamThatGoes) {
  auto stream = device_->make_stream().value();
  stream->begin_capture().value();
  stream->run([] { return Status(); }).value();
  stream.reset();
}

TEST_F(FakeDevice, EndsWaitsWhenItIsLost) {
  const auto stream = device_->make_stream().value();
  const auto event = device_->make_event().value();
  const auto go = std::make_shared<std::atomic<bool>>(false);  // the device may look at it after this test's end
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

// A stream that the program made with the driver.
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

TEST_F(ForeignStream, MayBeTheDefaultOne) {
  const auto stream = use_cuda_stream(*device_, nullptr).value();
  std::atomic<int> ran{0};
  stream->run([&] { return ++ran, Status(); }).value();
  stream->synchronize().value();
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(use_cuda_stream(host_device(), nullptr).error().code, ErrorCode::InvalidArgument);
}

struct Parameters {
  int* target;
  int value;
};

TEST_F(FakeDevice, RunsKernelsInTheirTurn) {
  const auto fill = [](unsigned blocks, unsigned threads, void** parameters) {
    Parameters own{};
    std::memcpy(&own, parameters[0], sizeof own);
    *own.target = own.value + static_cast<int>(blocks * 100 + threads);
  };
  fake_.set_kernel("fill", fill, sizeof(Parameters));
  static const char image[] = "code";
  const Kernel kernel{"fill", image, nullptr};
  const DeviceMemory memory = device_->allocate(64).value();
  const auto stream = device_->make_stream().value();
  int seen = 0;
  const Parameters parameters{reinterpret_cast<int*>(memory.data()), 1'000};
  const Grid grid{2, 5, &parameters, sizeof parameters};
  device_->launch(*stream, kernel, grid).value();
  stream->copy(&seen, memory.data(), sizeof seen).value();
  stream->synchronize().value();
  EXPECT_EQ(seen, 1'205);
  EXPECT_EQ(device_->resident_blocks(kernel, 512).value(), 16);
  EXPECT_EQ(device_->launch(*stream, {"other", image, nullptr}, grid).error().code, ErrorCode::System);
  const auto foreign = host_device().make_stream().value();
  EXPECT_NE(device_->launch(*foreign, kernel, grid).error().message.find("a stream of host"), std::string::npos);
}

}  // namespace
}  // namespace wreath
