// Tests what only the host device promises: memory that segfaults where a real device's would, and kernels that are
// threads.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "src/device/device_memory.hpp"
#include "tests/support/timer.hpp"
#include "wreath/device.hpp"
#include "wreath/kernel.hpp"

namespace wreath {
namespace {

LibraryDevice& host() { return static_cast<LibraryDevice&>(host_device()); }

TEST(DeviceMemoryDeathTest, CannotBeTouchedByTheHost) {
  const DeviceMemory memory = host_device().allocate(64).value();
  EXPECT_DEATH(memory.data()[0] = std::byte{1}, "");
}

TEST(DeviceMemory, IsReachedWhereARangeIsWhollyInIt) {
  // These are whole pages, whatever the size of a page is.
  constexpr std::size_t kBytes = 2 * 65'536;
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

TEST(DeviceMemory, BeyondTheMachinesIsAnError) {
  for (const std::size_t bytes : {std::size_t{1} << 46, std::size_t{1} << 62, ~std::size_t{0}}) {
    const auto memory = host_device().allocate(bytes);
    ASSERT_FALSE(memory);
    EXPECT_EQ(memory.error().code, ErrorCode::System);
    EXPECT_NE(memory.error().message.find("device memory"), std::string::npos) << memory.error().message;
    EXPECT_NE(memory.error().message.find(std::to_string(bytes) + " bytes"), std::string::npos);
  }
}

TEST(DeviceMemory, IsMadeInSpiteOfSignalsThatComeFaster) {
  const test::Timer timer(1'000);
  const auto memory = host_device().allocate(std::size_t{128} << 20);
  ASSERT_TRUE(memory) << memory.error().message;
}

TEST(HostDevice, ExportsOnlyWhatWasAllocatedForIt) {
  const DeviceMemory plain = host().allocate(64).value();
  EXPECT_EQ(host().export_memory(plain.data()).error().code, ErrorCode::InvalidArgument);
  EXPECT_EQ(host().import_memory({}).error().code, ErrorCode::InvalidArgument);
}

struct Sum {
  int* cells;  // one for each thread
  int* sums;   // one for each block
};

// Every thread writes its cell. After the barrier the first thread of a block adds the block's cells up.
void sum_block(HostBlock& block, const void* arguments) {
  Sum sum{};
  std::memcpy(&sum, arguments, sizeof sum);
  int* const cells = sum.cells + block.block() * block.threads();
  cells[block.thread()] = static_cast<int>(block.thread()) + 1;
  block.barrier();
  if (block.thread() != 0) return;
  for (unsigned i = 0; i < block.threads(); ++i) sum.sums[block.block()] += cells[i];
}

TEST(HostDevice, RunsAllThreadsOfAllBlocksOfAKernel) {
  std::vector<int> cells(3 * 5);
  std::vector<int> sums(3);
  const auto stream = host().make_stream().value();
  const Sum sum{cells.data(), sums.data()};
  host().launch(*stream, {"sum_block", nullptr, &sum_block}, {3, 5, &sum, sizeof sum}).value();
  stream->synchronize().value();
  EXPECT_EQ(sums, std::vector<int>(3, 15));
}

// Programs give kernels the device's memory by its address there, and use the public functions.
TEST(HostDevice, RunsKernelsOfPrograms) {
  constexpr int kBlocks = 3;
  constexpr int kThreads = 5;
  const DeviceMemory cells = host_device().allocate(kBlocks * kThreads * sizeof(int)).value();
  const DeviceMemory sums = host_device().allocate(kBlocks * sizeof(int), MemoryUse::Pinned).value();
  auto* const shared = reinterpret_cast<int*>(sums.data());
  const Sum sum{address_in_kernels(host_device(), reinterpret_cast<int*>(cells.data())),
                address_in_kernels(host_device(), shared)};
  EXPECT_EQ(sum.sums, shared);
  const Kernel kernel{"sum_block", nullptr, &sum_block};
  EXPECT_GE(resident_blocks(host_device(), kernel, kThreads).value(), kBlocks);
  const auto stream = host_device().make_stream().value();
  launch(*stream, kernel, {kBlocks, kThreads, &sum, sizeof sum}).value();
  stream->synchronize().value();
  EXPECT_EQ(std::vector<int>(shared, shared + kBlocks), std::vector<int>(kBlocks, 15));
  for (const auto& [blocks, threads] : {std::pair(0, 1), std::pair(1, -1)}) {
    const Status refused = launch(*stream, kernel, {blocks, threads, &sum, sizeof sum});
    EXPECT_EQ(refused.error().code, ErrorCode::InvalidArgument);
    EXPECT_NE(refused.error().message.find("sum_block: a grid of"), std::string::npos) << refused.error().message;
  }
}

}  // namespace
}  // namespace wreath
