// Tests the v-forms of every row that has them: blocks of different sizes, no blocks at all, gaps between blocks.
#include "tests/support/row_matrix.hpp"

namespace wreath::test {
namespace {

using BlockSize = std::size_t (*)(std::size_t block, std::size_t blocks);

Amount blocks_of(BlockSize size, bool gaps) {
  return [=](CollectiveCase& work) {
    const auto blocks = static_cast<std::size_t>(work.ranks);
    work.counts.resize(blocks);
    for (std::size_t i = 0; i < blocks; ++i) work.counts[i] = size(i, blocks);
    work.gaps = gaps;
  };
}

std::vector<Amount> ragged() {
  constexpr BlockSize kSizes[] = {
      [](std::size_t block, std::size_t) { return 1 + 13 * block; },
      [](std::size_t block, std::size_t) { return block % 2 == 0 ? 0 : 301 + block; },
      [](std::size_t block, std::size_t blocks) { return block == blocks / 2 ? std::size_t{20'011} : 3; },
      [](std::size_t, std::size_t) { return std::size_t{0}; },
  };
  std::vector<Amount> amounts;
  for (const BlockSize size : kSizes) {
    for (const bool gaps : {false, true}) amounts.push_back(blocks_of(size, gaps));
  }
  return amounts;
}

std::vector<Way> ways_with_blocks() {
  std::vector<Way> ways = all_ways();
  std::erase_if(ways, [](const Way& way) { return rows_of(way, 2, kVarying).empty(); });
  return ways;
}

class RaggedBlocks : public testing::TestWithParam<Way> {};

TEST_P(RaggedBlocks, RightResultsWhateverTheirSizes) {
  static DataStore store;
  const Shape tiled{0, 8192};  // the large block has several tiles, the others have one
  static const RowSuite suite({shapes_of_ranks({1, 2, 3, 5, 8, 17}, tiled), ragged(), kVarying});
  EXPECT_TRUE(suite.expect_right_by(GetParam(), store));
}

INSTANTIATE_TEST_SUITE_P(Ways, RaggedBlocks, testing::ValuesIn(ways_with_blocks()), test_name);

}  // namespace
}  // namespace wreath::test
