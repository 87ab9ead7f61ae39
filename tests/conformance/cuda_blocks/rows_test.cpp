// Tests calls on memory of a CUDA device, run by its kernel, over the fake CUDA driver. Every row runs over every
// transport; some ranks have memory of the host. Ranks are threads.
#include <array>

#include "tests/conformance/cuda_blocks/lanes_kernel.hpp"
#include "tests/support/row_matrix.hpp"

namespace wreath::test {
namespace {

class ByCudasBlocks : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    if (!install_lanes_kernel()) GTEST_SKIP() << "needs the driver that stands for CUDA's: run it by ctest";
    take_lanes_seen();
  }
};

// Buffers may begin at any byte, but blocks sum only data that is aligned to elements. Elements of one byte are always
// aligned.
constexpr std::array kTypes = {DataType::BFloat16, DataType::Float8E4M3};
constexpr std::array kOps = {ReduceOp::Sum, ReduceOp::Avg};

// Each block is three threads of the host. Those of 17 ranks take up to half an hour for one row and way on two cores.
constexpr std::size_t kMostRanks = 9;

RowMatrix matrix_of(const Shape& like, const std::vector<Amount>& amounts) {
  return {shapes_of_ranks({2, 3}, like, kMostRanks), amounts, 0, amounts.size(), kTypes, kOps, cuda_device(0).value()};
}

TEST_P(ByCudasBlocks, RightResultsInMemoryThatTheyReach) {
  static DataStore store;
  static const RowSuite suite(matrix_of({0, 8192}, {elements(1), elements(15'000)}));
  EXPECT_TRUE(suite.expect_right_by(GetParam(), store));
  const LanesSeen seen = take_lanes_seen();
  EXPECT_GT(seen.grids, 0);
  EXPECT_EQ(seen.handwritten_grids, GetParam().handwritten ? seen.grids : 0);
  EXPECT_EQ(seen.unreachable, std::vector<std::string>());
}

// Ranks of one process read each other's memory on the device. Ranks with memory of the host read copies.
TEST_P(ByCudasBlocks, LargeMessagesAreReadWhereTheyAre) {
  static DataStore store;
  Shape read{0, 65'536};
  read.single_copy_bytes = kAutomaticBytes;  // 0: nothing is named
  static const RowSuite suite(matrix_of(read, {elements(120'000)}));
  EXPECT_TRUE(suite.expect_right_by(GetParam(), store));
  const LanesSeen seen = take_lanes_seen();
  EXPECT_EQ(seen.unreachable, std::vector<std::string>());
  const bool may = GetParam().transport == "inproc";
  const bool must = may && GetParam().algorithm == "direct";  // others stage data that may be overwritten
  EXPECT_TRUE(may || seen.references == 0);
  EXPECT_TRUE(!must || seen.references > 0);
}

TEST(RanksWithGpus, HaveSeveralBlocksForALargeCall) {
  ASSERT_TRUE(install_lanes_kernel());
  take_lanes_seen();
  constexpr std::size_t kCount = 2'000'000;
  CommunicatorOptions options;
  options.device = "cuda:0";
  Device& device = *cuda_device(0).value();
  LocalRanks ranks(3, options);
  ranks.run([&](Communicator& communicator) {
    std::vector<float> values(kCount, static_cast<float>(communicator.rank() + 1));
    const DeviceMemory memory = device.allocate(kCount * sizeof(float)).value();
    device.copy(memory.data(), values.data(), kCount * sizeof(float)).value();
    communicator.all_reduce(std::span(reinterpret_cast<float*>(memory.data()), kCount)).value();
    device.copy(values.data(), memory.data(), kCount * sizeof(float)).value();
    EXPECT_EQ(values, std::vector<float>(kCount, 6));
  });
  const LanesSeen seen = take_lanes_seen();
  EXPECT_EQ(seen.unreachable, std::vector<std::string>());
  EXPECT_EQ(seen.blocks, 15u);
}

std::vector<Way> ways() {
  std::vector<Way> ways;
  for (const Way& way : all_ways()) {
    const bool barrier = way.algorithm == "dissemination";
    if (!way.algorithm.empty() && !barrier) ways.push_back(way);
  }
  return ways;
}
INSTANTIATE_TEST_SUITE_P(Ways, ByCudasBlocks, testing::ValuesIn(ways()), test_name);

}  // namespace
}  // namespace wreath::test
