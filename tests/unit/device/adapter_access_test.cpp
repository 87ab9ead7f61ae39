// Tests what a double of a network adapter is asked to register of devices' memory, and when, and who flushes.
#include "src/device/runs/adapter_access.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "src/device/cuda/abi.hpp"
#include "src/put/port.hpp"
#include "tests/support/fake_cuda.hpp"
#include "tests/unit/device/devices.hpp"

namespace wreath::adapter_access {
namespace {

using testing::HasSubstr;

// Keeps the registrations that were asked for, and checks that each descriptor has the size of its memory.
class AdapterDouble final : public Adapter {
 public:
  std::string describe() const override { return "double0 port 1"; }
  PutLimits limits() const override { return {}; }
  Result<std::uint64_t> register_memory(std::span<std::byte>, bool) override {
    return Error{ErrorCode::System, "the memory is the host's"};
  }
  Result<RegisteredMemory> register_device_memory(const DmaBuf& memory, std::byte* address, Flusher flusher) override {
    if (refuses) return Error{ErrorCode::System, "out of memory regions"};
    struct stat status {};
    EXPECT_EQ(::fstat(memory.descriptor.get(), &status), 0);
    EXPECT_GE(static_cast<std::uint64_t>(status.st_size), memory.offset + memory.bytes);
    registered.insert(++last);
    RegisteredMemory made{last, std::nullopt, flusher};
    if (flusher != Flusher::None) made.remote = {reinterpret_cast<std::uintptr_t>(address), 100 + last};
    return made;
  }
  Status flush(const RemoteMemory& memory) override {
    flushed.push_back(memory);
    return flushes;
  }
  RemoteMemory name(std::uint64_t) const override { return {}; }
  void deregister_memory(std::uint64_t registration) override {
    EXPECT_EQ(facts_of(watched).allocation, allocation) << "its memory was freed before";
    EXPECT_EQ(registered.erase(registration), 1u);
  }
  Result<std::unique_ptr<Channel>> make_channel(std::uint32_t) override { return Error{ErrorCode::Unavailable, ""}; }
  Result<std::size_t> poll(std::span<PutEvent>) override { return std::size_t{0}; }
  int descriptor() const override { return -1; }
  bool arm() override { return true; }
  std::optional<std::string> trouble() override { return std::nullopt; }

  // Sets the memory that must be alive at each deregistration.
  void watch(const void* memory) {
    watched = memory;
    allocation = facts_of(memory).allocation;
  }

  std::set<std::uint64_t> registered;
  Status flushes = Error{ErrorCode::System, "it reads nothing back"};
  std::vector<RemoteMemory> flushed;
  std::uint64_t last = 0;
  bool refuses = false;
  const void* watched = nullptr;
  std::uint64_t allocation = 0;
};

class Adapters : public testing::TestWithParam<LibraryDevice*> {
 protected:
  static LibraryDevice& device() { return *GetParam(); }
  static DeviceMemory make() { return device().allocate(100'000, MemoryUse::Exportable).value(); }
  static std::byte* in_kernels(const DeviceMemory& memory) { return device().address_in_kernels(memory.data()); }
  AdapterDouble& adapter() { return static_cast<AdapterDouble&>(port.adapter(0)); }
  Status flush(const std::byte* data) { return port.flush(data, 1); }
  PutPort port{std::make_unique<AdapterDouble>()};
};
INSTANTIATE_TEST_SUITE_P(Devices, Adapters, testing::ValuesIn(test::devices()), test::name_of);

TEST_P(Adapters, RegisterAnAllocationOnceAndNameWhatIsInIt) {
  const DeviceMemory data = make();
  const DeviceMemory other = make();
  for (int time = 0; time < 2; ++time) {
    ASSERT_TRUE(port.let_in(range_of(data.data() + 500).value()));
    for (const std::size_t offset : {0u, 7u, 99'000u}) {
      const auto place = port.find_remote(in_kernels(data) + offset, 1'000);
      ASSERT_TRUE(place);
      EXPECT_EQ(place->front().address, reinterpret_cast<std::uintptr_t>(in_kernels(data)) + offset);
      EXPECT_EQ(place->front().key, 101u);
      EXPECT_EQ(port.find(in_kernels(data) + offset, 1'000).value()->by_rail[0], 1u);
    }
  }
  EXPECT_FALSE(port.find(in_kernels(other), 1).value()) << "it was not let in";
  ASSERT_TRUE(port.let_in(range_of(other.data()).value()));
  EXPECT_EQ(port.find(in_kernels(other), 1).value()->by_rail[0], 2u);
  EXPECT_FALSE(port.find(in_kernels(data), std::size_t{1} << 40).value()) << "it goes beyond the allocation";
  EXPECT_EQ(adapter().last, 2u);
  adapter().watch(data.data());
}

TEST_P(Adapters, DeregisterBeforeMemoryIsFreed) {
  DeviceMemory data = make();
  ASSERT_TRUE(port.let_in(range_of(data.data()).value()));
  std::byte* const was = in_kernels(data);
  ASSERT_TRUE(port.find(was, 1).value());
  adapter().watch(data.data());
  data = DeviceMemory();
  EXPECT_TRUE(adapter().registered.empty());
  EXPECT_FALSE(port.find(was, 1).value());
  // The new memory may have the same address.
  data = make();
  ASSERT_TRUE(port.let_in(range_of(data.data()).value()));
  EXPECT_EQ(port.find(in_kernels(data), 1).value()->by_rail[0], 2u);
  adapter().watch(data.data());
}

TEST_P(Adapters, DeregisterAllWithTheirEnd) {
  const DeviceMemory data = make();
  AdapterDouble double_of_another;
  double_of_another.watch(data.data());
  {
    Registrations registrations(double_of_another);
    ASSERT_TRUE(registrations.let_in(range_of(data.data()).value()));
    EXPECT_EQ(double_of_another.registered.size(), 1u);
  }
  EXPECT_TRUE(double_of_another.registered.empty());
}

TEST_P(Adapters, SayWhatMustBeStaged) {
  int value = 0;
  EXPECT_EQ(range_of(&value).error().message, "it is no device's");
  const DeviceMemory plain = device().allocate(64).value();
  EXPECT_EQ(range_of(plain.data()).error().message, "it was not allocated as MemoryUse::Exportable");
  adapter().refuses = true;
  const DeviceMemory data = make();
  testing::internal::CaptureStderr();
  for (int time = 0; time < 2; ++time) {
    EXPECT_EQ(port.let_in(range_of(data.data()).value()).error().code, ErrorCode::Unavailable);
  }
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("of memory of a device cannot be registered, and are copied: out of memory regions"));
  EXPECT_FALSE(port.find(in_kernels(data), 1).value());
}

TEST_P(Adapters, AreFlushedForTheirOwnMemoryAlone) {
  const DeviceMemory data = make();
  const DeviceMemory other = make();
  ASSERT_TRUE(port.let_in(range_of(data.data()).value()));
  adapter().watch(data.data());
  EXPECT_TRUE(flush(in_kernels(data)));
  const test::FakeCuda fake = test::FakeCuda::find();
  if (!fake || device().identity().kind != EndpointDevice::Kind::Cuda) return;
  const auto fail_next = [&](int result) { fake.fail("cuFlushGPUDirectRDMAWrites", result, 1); };
  fail_next(kCudaLaunchFailed);
  EXPECT_TRUE(flush(in_kernels(other)));
  EXPECT_THAT(flush(in_kernels(data)).error().message, HasSubstr("cuFlushGPUDirectRDMAWrites"));
  // A device that sees writes in order is not asked to flush.
  fake.set_attribute(kCudaRdmaOrder, kCudaRdmaOrderOwner);
  fail_next(kCudaLaunchFailed);
  EXPECT_TRUE(flush(in_kernels(data)));
  fail_next(kCudaSuccess);
  fake.set_attribute(kCudaRdmaOrder, 0);
}

// Devices whose driver neither orders the writes of adapters nor flushes them.
class AdaptersAlone : public Adapters {
 protected:
  void SetUp() override {
    if (!fake || device().identity().kind != EndpointDevice::Kind::Cuda) {
      GTEST_SKIP() << "this device always flushes: run it as ctest -R unit_device_fake_cuda";
    }
    fake.set_attribute(kCudaRdmaFlushOptions, 0);
  }
  void TearDown() override {
    if (fake) fake.set_attribute(kCudaRdmaFlushOptions, kCudaRdmaFlushByHost);
  }
  const test::FakeCuda fake = test::FakeCuda::find();
};
INSTANTIATE_TEST_SUITE_P(Devices, AdaptersAlone, testing::ValuesIn(test::devices()), test::name_of);

TEST_P(AdaptersAlone, FlushWhatTheyHaveWritten) {
  adapter().flushes = Status();
  const DeviceMemory data = make();
  ASSERT_TRUE(port.let_in(range_of(data.data()).value()));
  EXPECT_EQ(adapter().flushed.size(), 1u) << "it was not tried";
  ASSERT_TRUE(port.find_remote(in_kernels(data), 1));
  EXPECT_TRUE(flush(in_kernels(data) + 7));
  ASSERT_EQ(adapter().flushed.size(), 2u);
  EXPECT_EQ(adapter().flushed.back(), (RemoteMemory{reinterpret_cast<std::uintptr_t>(in_kernels(data)) + 7, 101}));
  adapter().flushes = Error{ErrorCode::System, "no more"};
  EXPECT_EQ(flush(in_kernels(data)).error().message, "no more");
  adapter().watch(data.data());
}

// They read that memory, and do not write it.
TEST_P(AdaptersAlone, DoNotWriteWhatTheyCannotFlush) {
  const DeviceMemory data = make();
  ASSERT_TRUE(port.let_in(range_of(data.data()).value()));
  EXPECT_EQ(adapter().registered.size(), 1u);
  EXPECT_TRUE(port.find(in_kernels(data), 1).value());
  EXPECT_FALSE(port.find_remote(in_kernels(data), 1));
  adapter().watch(data.data());
}

}  // namespace
}  // namespace wreath::adapter_access
