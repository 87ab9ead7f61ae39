// Tests single messages as plain code over one FIFO.
#include "src/executor/pair.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "src/fifo/access.hpp"

namespace wreath {
namespace {

constexpr std::uint32_t kSlots = 2;
constexpr std::uint32_t kSlotBytes = 4096;
// The sequence wraps at once.
constexpr std::uint32_t kFirst = 0xFFFF'FFFEU;
constexpr std::uint32_t kRegion = 3;

class Pair : public testing::Test {
 protected:
  Pair() {
    for (std::uint32_t i = 0; i < kSlots; ++i) slots_[(kFirst + i) % kSlots].sequence = kFirst + i - kSlots;
    consumed_.value = kFirst;
    out_.slots = slots_.data();
    out_.consumed = &consumed_;
    out_.next = kFirst;
    out_.slot_count = out_.staging_count = kSlots;
    out_.slot_bytes = kSlotBytes;
    out_.staging = staging_.data();
    out_.staging_region = kRegion;
    in_.slots = slots_.data();
    in_.consumed = &consumed_;
    in_.regions = regions_.data();
    in_.next = kFirst;
    in_.slot_count = kSlots;
    regions_[kRegion] = {staging_.data(), staging_.size()};
  }

  std::vector<std::byte> data_of(std::size_t bytes, int salt) {
    std::vector<std::byte> data(bytes);
    for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>(i * 7 + static_cast<std::size_t>(salt));
    return data;
  }
  void publish_it(const std::vector<std::byte>& data, std::uint32_t signature) {
    ASSERT_TRUE(has_credit(out_));
    publish_message({&out_, data.data(), data.size(), signature, 1}, copy_kernels());
  }
  Advance take_it(std::vector<std::byte>& data, std::uint32_t signature) {
    return take_message({&in_, data.data(), data.size(), signature, 1}, copy_kernels());
  }

  std::array<SlotHeader, kSlots> slots_{};
  Counter consumed_;
  std::vector<std::byte> staging_ = std::vector<std::byte>(kSlots * kSlotBytes);
  std::array<RegionView, kMaximumRegions> regions_{};
  SendFifo out_;
  RecvFifo in_;
};

TEST_F(Pair, MessagesOfEverySizeArriveInOrder) {
  int salt = 0;
  for (const std::size_t bytes : {1U, 8U, 31U, 32U, 33U, 64U, 100U, 1000U, 4095U, 4096U}) {
    const auto first = data_of(bytes, ++salt);
    const auto second = data_of(bytes, ++salt);
    publish_it(first, 10);
    publish_it(second, 11);
    EXPECT_FALSE(has_credit(out_));
    std::vector<std::byte> got(bytes);
    ASSERT_EQ(take_it(got, 10), Advance::Done);
    EXPECT_EQ(got, first) << bytes;
    ASSERT_EQ(take_it(got, 11), Advance::Done);
    EXPECT_EQ(got, second) << bytes;
    EXPECT_EQ(take_it(got, 12), Advance::Blocked);
  }
}

TEST_F(Pair, PingPongSlotsAreFilledAndHeldByTheReader) {
  std::vector<std::byte> memory(2 * PingPongSlots::kBytes);
  PingPongSlots ours{.data = {memory.data(), memory.data() + PingPongSlots::kBytes}, .fills = true};
  PingPongSlots theirs = ours;
  hold(ours, 1);
  out_.ping_pong = &ours;
  in_.ping_pong = &theirs;
  const auto data = data_of(100, 1);
  publish_it(data, 10);
  EXPECT_EQ(ours.count, 0U);
  std::vector<std::byte> got(100);
  ASSERT_EQ(take_it(got, 10), Advance::Done);
  EXPECT_EQ(got, data);
  EXPECT_EQ(std::vector<std::byte>(ours.data[1], ours.data[1] + 100), data);
  EXPECT_EQ(held_slots(&theirs, 100), ours.data[1]);
  // No slot is left: the next message is staged.
  publish_it(data, 11);
  std::fill(got.begin(), got.end(), std::byte{0});
  ASSERT_EQ(take_it(got, 11), Advance::Done);
  EXPECT_EQ(got, data);
  EXPECT_EQ(theirs.count, 1U);
}

TEST_F(Pair, WhatIsNotExpectedStaysWhereItIs) {
  const auto data = data_of(100, 1);
  publish_it(data, 10);
  std::vector<std::byte> got(100);
  const std::vector<std::byte> untouched = got;
  EXPECT_EQ(take_it(got, 11), Advance::Blocked);
  std::vector<std::byte> shorter(99);
  EXPECT_EQ(take_it(shorter, 10), Advance::Blocked);
  // The region is not announced yet.
  regions_[kRegion].base = nullptr;
  EXPECT_EQ(take_it(got, 10), Advance::Blocked);
  regions_[kRegion].base = staging_.data();
  // A reader of such a slot must look at the slot's owner afterwards.
  slots_[kFirst % kSlots].flags = kSlotReference;
  EXPECT_EQ(take_it(got, 10), Advance::Blocked);
  EXPECT_EQ(got, untouched);
  EXPECT_EQ(consumed_.value, kFirst);
  slots_[kFirst % kSlots].flags = 0;
  EXPECT_EQ(take_it(got, 10), Advance::Done);
  EXPECT_EQ(got, data);
}

TEST_F(Pair, OfAnotherEpochLaneOrRegionStaysWhereItIs) {
  const auto data = data_of(100, 1);
  publish_it(data, 10);
  SlotHeader& slot = slots_[kFirst % kSlots];
  const SlotHeader right = slot;
  std::vector<std::byte> got(100);
  const auto take_with = [&](auto member, auto value) {
    slot = right;
    slot.*member = value;
    return take_it(got, 10);
  };
  EXPECT_EQ(take_with(&SlotHeader::epoch, std::uint16_t{2}), Advance::Blocked);
  EXPECT_EQ(take_with(&SlotHeader::lane, std::uint16_t{9}), Advance::Blocked);
  EXPECT_EQ(take_with(&SlotHeader::region, 0U), Advance::Blocked);
  // The slot names an address as if its writer were in this process.
  slot.offset = reinterpret_cast<std::uintptr_t>(data.data());
  EXPECT_EQ(take_with(&SlotHeader::region, kLocalAddress), Advance::Blocked);
  EXPECT_EQ(consumed_.value, kFirst);
  slot = right;
  EXPECT_EQ(take_it(got, 10), Advance::Done);
  EXPECT_EQ(got, data);
}

TEST_F(Pair, MoreCreditThanThereAreSlotsIsNone) {
  for (const std::uint32_t consumed : {kFirst + 1, kFirst + 1000, kFirst - kSlots - 1}) {
    consumed_.value = consumed;
    EXPECT_FALSE(has_credit(out_)) << consumed - kFirst;
  }
  consumed_.value = kFirst;
  EXPECT_TRUE(has_credit(out_));
}

TEST_F(Pair, APreparedSlotIsAFreeOne) {
  const SlotHeader& next = slots_[kFirst % kSlots];
  publish_it(data_of(8, 1), 10);
  publish_it(data_of(8, 2), 11);
  // A slot that was read could be refilled, but its reader has not said so yet.
  out_.lane = 5;
  prepare_next(out_);
  EXPECT_EQ(next.lane, 0);
  std::vector<std::byte> got(8);
  ASSERT_EQ(take_it(got, 10), Advance::Done);
  prepare_next(out_);
  EXPECT_EQ(out_.credits, 1U) << "the next message need not look";
  EXPECT_EQ(next.lane, 5);
  EXPECT_EQ(take_it(got, 11), Advance::Done) << "the slot after it has the message that was there";
  EXPECT_EQ(take_it(got, 12), Advance::Blocked) << "a prepared slot is no message";
}

TEST_F(Pair, InlineDataLongerThanAHeaderIsRefused) {
  publish_it(data_of(8, 1), 10);
  slots_[kFirst % kSlots].bytes = 33;
  std::vector<std::byte> got(33);
  EXPECT_EQ(take_it(got, 10), Advance::Blocked);
  EXPECT_EQ(locate(in_, slots_[kFirst % kSlots]).state, Locating::Invalid);
}

}  // namespace
}  // namespace wreath
