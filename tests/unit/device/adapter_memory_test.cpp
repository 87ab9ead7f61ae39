// Tests what a double of a network adapter is asked to register and when, and that no flag comes before the flush.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <set>
#include <string>

#include "src/device/cuda/abi.hpp"
#include "src/device/runs/device_adapter_memory.hpp"
#include "tests/support/fake_cuda.hpp"
#include "tests/unit/device/devices.hpp"

namespace wreath {
namespace {

using testing::HasSubstr;

// Keeps the registrations that were asked for, and checks that each descriptor has the size of its memory.
class AdapterDouble final : public MemoryAdapter {
 public:
  std::string_view name() const override { return "double0"; }
  Result<std::uint64_t> register_memory(const DmaBuf& memory) override {
    if (refuses) return Error{ErrorCode::System, "out of memory regions"};
    struct stat status {};
    EXPECT_EQ(::fstat(memory.descriptor.get(), &status), 0);
    EXPECT_GE(static_cast<std::uint64_t>(status.st_size), memory.offset + memory.bytes);
    registered.insert(++last);
    return last;
  }
  void deregister_memory(std::uint64_t registration) override {
    EXPECT_EQ(facts_of(watched).allocation, allocation) << "its memory was freed before";
    EXPECT_EQ(registered.erase(registration), 1u);
  }
  // Sets the memory that must be alive at each deregistration.
  void watch(const void* memory) {
    watched = memory;
    allocation = facts_of(memory).allocation;
  }

  std::set<std::uint64_t> registered;
  std::uint64_t last = 0;
  bool refuses = false;
  const void* watched = nullptr;
  std::uint64_t allocation = 0;
};

class Adapters : public testing::TestWithParam<LibraryDevice*> {
 protected:
  static LibraryDevice& device() { return *GetParam(); }
  static DeviceMemory make() { return device().allocate(100'000, MemoryUse::Exportable).value(); }
  AdapterDouble adapter;
};
INSTANTIATE_TEST_SUITE_P(Devices, Adapters, testing::ValuesIn(test::devices()), test::name_of);

TEST_P(Adapters, RegisterAnAllocationOnceAndNameWhatIsInIt) {
  AdapterMemory memory(adapter);
  const DeviceMemory data = make();
  const DeviceMemory other = make();
  for (const std::size_t offset : {0u, 7u, 99'000u}) {
    const AdapterPlace place = memory.find(data.data() + offset, 1'000).value();
    EXPECT_EQ(place.registration, 1u);
    EXPECT_EQ(place.offset, offset);
  }
  EXPECT_EQ(memory.find(other.data(), 1).value().registration, 2u);
  EXPECT_EQ(memory.find(data.data(), std::size_t{1} << 40).error().code, ErrorCode::InvalidArgument);
  EXPECT_EQ(adapter.last, 2u);
  adapter.watch(data.data());
}

TEST_P(Adapters, DeregisterBeforeMemoryIsFreed) {
  AdapterMemory memory(adapter);
  DeviceMemory data = make();
  memory.find(data.data(), 1).value();
  adapter.watch(data.data());
  data = DeviceMemory();
  EXPECT_TRUE(adapter.registered.empty());
  EXPECT_EQ(memory.registrations(), 0u);
  // The new memory may have the same address.
  data = make();
  EXPECT_EQ(memory.find(data.data(), 1).value().registration, 2u);
  adapter.watch(data.data());
}

TEST_P(Adapters, DeregisterAllWithTheirEnd) {
  const DeviceMemory data = make();
  adapter.watch(data.data());
  {
    AdapterMemory memory(adapter);
    memory.find(data.data(), 1).value();
    EXPECT_EQ(adapter.registered.size(), 1u);
  }
  EXPECT_TRUE(adapter.registered.empty());
}

TEST_P(Adapters, SayWhatMustBeStaged) {
  AdapterMemory memory(adapter);
  const auto why = [&](const void* data) {
    const auto place = memory.find(data, 1);
    EXPECT_FALSE(place);
    EXPECT_EQ(place.error().code, ErrorCode::Unavailable);
    return place.error().message;
  };
  int value = 0;
  EXPECT_EQ(why(&value), "double0: memory of host must be staged: it is no device's");
  const DeviceMemory plain = device().allocate(64).value();
  EXPECT_THAT(why(plain.data()), HasSubstr("it was not allocated as MemoryUse::Exportable"));
  adapter.refuses = true;
  const DeviceMemory data = make();
  EXPECT_THAT(why(data.data()), HasSubstr("must be staged: out of memory regions"));
  EXPECT_EQ(memory.registrations(), 0u);
}

// The flag is the slot's sequence.
TEST_P(Adapters, SeeNoMessageBeforeItsDataIsFlushed) {
  SlotHeader slot{};
  SendFifo fifo;
  Counter consumed{5};
  fifo.slots = &slot;
  fifo.consumed = &consumed;
  fifo.slot_count = 1;
  fifo.next = 5;
  const test::FakeCuda fake = test::FakeCuda::find();
  const bool flushes = fake && device().identity().kind == EndpointDevice::Kind::Cuda;
  if (flushes) {
    fake.fail("cuFlushGPUDirectRDMAWrites", kCudaLaunchFailed, 1);
    EXPECT_THAT(publish_received(device(), fifo).error().message, HasSubstr("cuFlushGPUDirectRDMAWrites"));
    EXPECT_EQ(slot.sequence, 0u);
  }
  publish_received(device(), fifo).value();
  EXPECT_EQ(slot.sequence, 5u);
  // A device that sees writes in order is not asked to flush.
  if (flushes) {
    fake.set_attribute(kCudaRdmaOrder, kCudaRdmaOrderOwner);
    fake.fail("cuFlushGPUDirectRDMAWrites", kCudaLaunchFailed, 1);
    EXPECT_TRUE(publish_received(device(), fifo));
    fake.fail("cuFlushGPUDirectRDMAWrites", kCudaSuccess, 0);
    fake.set_attribute(kCudaRdmaOrder, 0);
  }
}

}  // namespace
}  // namespace wreath
