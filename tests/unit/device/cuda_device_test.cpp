// Tests a CUDA device where things go wrong, over the driver that stands for libcuda.so.1.
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
#include "tests/unit/device/fake_device.hpp"

namespace wreath {
namespace {

using test::FakeDevice;
using test::HostPage;

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

// Peers distinguish devices by their identities.
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

// Nothing stays behind, whichever step fails: TearDown() counts what is alive.
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

// A driver looks whether pages are writable when it takes them. A process that maps a peer's pages does not write them.
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

// The host's memory of these copies is not pinned.
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
