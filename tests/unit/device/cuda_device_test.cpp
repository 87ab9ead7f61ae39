// A CUDA device where things go wrong, over the driver that stands for libcuda.so.1.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
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
  for (const char* const step : {"cuMemHostAlloc", "cuStreamCreate"}) {
    fake_.fail(step, kCudaOutOfMemory, 1);
    EXPECT_FALSE(device_->make_stream()) << step;
  }
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
  auto first = device_->let_in(data, 4096, true).value();
  auto second = CudaPlatform::opened()->device(1).value()->let_in(data, 4096, true).value();
  const auto read_only = device_->let_in(data + 4096, 4096, false).value();
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
  device_->let_in(data, 4096, true).value();
  EXPECT_EQ(fake_.reaches(0, data), 2);
  EXPECT_EQ(driver->mem_host_unregister(data), kCudaSuccess);
  driver->ctx_pop_current(&context);
}

TEST_F(FakeDevice, SaysWhyItIsNotLetIn) {
  const auto page = std::make_unique<HostPage>();
  std::byte* const data = page->bytes.data();
  fake_.fail("cuMemHostRegister", kCudaOutOfMemory, 1);
  EXPECT_EQ(device_->let_in(data, 4096, true).error().message,
            "cuda:0: cuMemHostRegister: CUDA_ERROR_OUT_OF_MEMORY: out of memory");
  fake_.set_attribute(kCudaReadOnlyHostMemory, 0);
  EXPECT_EQ(device_->let_in(data, 4096, false).error().message,
            "cuda:0 cannot be let in to memory that this process only reads");
  fake_.set_attribute(kCudaReadOnlyHostMemory, 1);
  fake_.set_attribute(kCudaSameHostAddress, 0);
  EXPECT_EQ(device_->let_in(data, 4096, true).error().code, ErrorCode::Unavailable);
  fake_.set_attribute(kCudaSameHostAddress, 1);
  EXPECT_TRUE(device_->let_in(data, 4096, true));
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
  for (const char* const step : {"cuMemcpyAsync", "cuStreamWaitEvent", "cuLaunchHostFunc"}) {
    const auto stream = device_->make_stream().value();
    const auto event = device_->make_event().value();
    int value = 0;
    fake_.fail(step, kCudaLaunchFailed, 1);
    const auto first = [&]() -> Status {
      if (step == std::string("cuStreamWaitEvent")) return stream->wait(*event);
      if (step == std::string("cuLaunchHostFunc")) return stream->run([] { return Status(); });
      return stream->copy(memory.data(), &value, sizeof value);
    }();
    ASSERT_FALSE(first) << step;
    EXPECT_EQ(first.error().message,
              std::string("cuda:0: ") + step + ": CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure");
    EXPECT_EQ(stream->copy(memory.data(), &value, sizeof value).error().message, first.error().message);
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
  std::atomic<bool> go{false};
  stream
      ->run([&] {
        while (!go) std::this_thread::yield();
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
  go = true;
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
  ++alive_;  // the word of a lost stream stays: the driver may still look at it
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
    ASSERT_EQ(driver_->stream_create(&handle_, kCudaStreamNonBlocking), kCudaSuccess);
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
  int before = 1;
  int seen = 0;
  driver_->memcpy_async(address, reinterpret_cast<CudaAddress>(&before), sizeof before, handle_);
  const auto stream = use_cuda_stream(*device_, handle_).value();
  stream->run([&] { return device_->copy(&seen, memory.data(), sizeof seen); }).value();
  int after = 0;
  driver_->memcpy_async(reinterpret_cast<CudaAddress>(&after), reinterpret_cast<CudaAddress>(&seen), sizeof after,
                        handle_);
  EXPECT_EQ(driver_->stream_synchronize(handle_), kCudaSuccess);
  EXPECT_EQ(after, 1);
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
