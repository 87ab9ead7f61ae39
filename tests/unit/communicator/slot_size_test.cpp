// Tests how slots share the memory that a process allows, and that sends fill theirs.
#include "src/engine/slot_size.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/communicator/options.hpp"
#include "src/engine/exchange.hpp"
#include "src/fifo/segment.hpp"
#include "tests/support/control_segments.hpp"
#include "tests/support/local_ranks.hpp"
#include "wreath/fifo.hpp"

namespace wreath {
namespace {

constexpr std::uint64_t kLeast = 4 << 10;
constexpr std::uint64_t kMost = 512 << 10;

// Checks that no slot could be twice as large, but for the bounds of its size.
void check_sizes(int ranks, int ranks_in_process, const CommunicatorOptions& options) {
  SCOPED_TRACE(std::to_string(ranks) + " ranks, " + std::to_string(ranks_in_process) + " in a process");
  const SlotSizes sizes = slot_sizes(ranks, static_cast<std::uint64_t>(ranks_in_process), options);
  const std::uint64_t slots = static_cast<std::uint64_t>(ranks - 1) * options.overrides.slot_count;
  const std::uint64_t others = lanes_with_slots(options) - 1;
  const std::uint64_t allowed = options.overrides.buffer_bytes / static_cast<std::uint64_t>(ranks_in_process);
  const auto fits = [&](std::uint64_t bytes, std::uint64_t of_last) {
    return slots * (others * bytes + of_last) <= allowed;
  };
  EXPECT_TRUE(std::has_single_bit(sizes.bytes));
  EXPECT_TRUE(std::has_single_bit(sizes.exchange_bytes));
  EXPECT_GE(sizes.exchange_bytes, sizes.bytes);
  EXPECT_LE(sizes.exchange_bytes, kMost);
  EXPECT_TRUE(sizes.bytes == kLeast || fits(sizes.bytes, sizes.exchange_bytes));
  EXPECT_TRUE(sizes.bytes == kMost || !fits(2 * sizes.bytes, 2 * sizes.bytes));
  EXPECT_TRUE(sizes.exchange_bytes == kMost || !fits(sizes.bytes, 2 * sizes.exchange_bytes));
  EXPECT_TRUE(sizes.exchange_bytes == sizes.bytes || fits(sizes.bytes, sizes.exchange_bytes));
}

TEST(SlotSizes, ShareTheMemoryOfAProcess) {
  CommunicatorOptions options;
  for (const int lanes : {0, 1, 4}) {
    options.overrides.lanes = lanes;
    const CommunicatorOptions complete = complete_options(options).value();
    for (const int ranks : {2, 3, 4, 5, 8, 16, 17, 64, 100, 256, 1000, 5000}) {
      for (const int in_process : {1, 2, ranks}) check_sizes(ranks, in_process, complete);
    }
  }
}

// Returns the bytes of the messages that lie in rank 0's slots for sends to rank 1.
std::vector<std::uint32_t> sent_bytes() {
  for (const std::byte* segment : test::own_control_segments()) {
    const auto& start = *reinterpret_cast<const SegmentPrologue*>(segment);
    if (start.rank != 0) continue;
    const SegmentLayout layout(start.ranks, {start.lanes, start.slot_count, start.slot_bytes, 0, 0});
    const auto* const slots = reinterpret_cast<const SlotHeader*>(segment + layout.slots_at(1, kExchangeLane));
    std::vector<std::uint32_t> bytes;
    for (const SlotHeader& slot : std::span(slots, start.slot_count)) bytes.push_back(slot.bytes);
    return bytes;
  }
  return {};
}

// Rank 0 sends rank 1 so many bytes, which arrive.
void send(test::LocalRanks& ranks, std::size_t count) {
  ranks.run([count](Communicator& communicator) {
    std::vector<std::uint8_t> data(count);
    const auto value_at = [](std::size_t i) { return static_cast<std::uint8_t>(i * 31 + i / 4096); };
    if (communicator.rank() == 0) {
      for (std::size_t i = 0; i < count; ++i) data[i] = value_at(i);
      ASSERT_TRUE(communicator.send(data.data(), count, DataType::Uint8, 1));
    } else if (communicator.rank() == 1) {
      ASSERT_TRUE(communicator.recv(data.data(), count, DataType::Uint8, 0));
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < count; ++i) wrong += data[i] == value_at(i) ? 0U : 1U;
      EXPECT_EQ(wrong, 0U);
    }
  });
}

class SlotsOfSends : public testing::TestWithParam<std::string> {
 protected:
  SlotsOfSends() {
    options_.transports = {GetParam()};
    options_.overrides.slot_count = 4;
    options_.overrides.single_copy_bytes = 0;
    // A slot of each of three lanes has 64 KiB together: two have 16 KiB, and the last one what is left.
    options_.overrides.buffer_bytes = 3 * 2 * 4 * (std::size_t{64} << 10);
  }
  CommunicatorOptions options_;
};

// Such a message is on its way as a whole whether or not it is received.
TEST_P(SlotsOfSends, AreNotFilledByAMessageThatFits) {
  test::LocalRanks ranks(3, options_);
  send(ranks, std::size_t{4} * (16 << 10));
  if (GetParam() == "shm") {
    EXPECT_THAT(sent_bytes(), testing::ElementsAre(16U << 10, 16U << 10, 16U << 10, 16U << 10));
  }
}

TEST_P(SlotsOfSends, AreFilledByALargerMessage) {
  test::LocalRanks ranks(3, options_);
  send(ranks, std::size_t{4} * (32 << 10) - 1);
  if (GetParam() == "shm") {
    EXPECT_THAT(sent_bytes(), testing::UnorderedElementsAre(32U << 10, 32U << 10, 32U << 10, (32U << 10) - 1));
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, SlotsOfSends, testing::Values("shm", "tcp"),
                         [](const auto& transport) { return transport.param; });

}  // namespace
}  // namespace wreath
