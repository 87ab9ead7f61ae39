// Two ranks fill slots that they have read, in turn.
#include <cstring>
#include <optional>
#include <set>

#include "tests/unit/fifo/pair.hpp"

namespace wreath {
namespace {

constexpr std::uint32_t kShare = PingPongSlots::kCount / 2;

// A message as its reader finds it: the number of its slot, where it is in one, and its data.
struct Taken {
  std::optional<std::uint32_t> slot;
  std::uint64_t value;
  bool operator==(const Taken&) const = default;
};

FifoShape shape_of_large_slots() {
  FifoShape shape = shape_of(8);
  shape.slot_bytes = PingPongSlots::kMostBytes;
  return shape;
}

class PingPong : public testing::Test {
 protected:
  explicit PingPong(bool fills = true) : pair_(shape_of_large_slots(), true) {
    for (Rank rank : {0, 1}) {
      pair_.links[rank]->prepare(0).value();
      if (fills) pair_.links[rank]->fill_ping_pong();
    }
    for (Rank rank : {0, 1}) pair_.announce(rank);
  }

  // Sends a message of so many bytes that ends with the value.
  void send(Rank rank, std::uint64_t value, std::size_t bytes = sizeof(std::uint64_t)) {
    SendFifo& fifo = pair_.send(rank);
    ASSERT_TRUE(has_credit(fifo));
    std::byte* place = held_slots(fifo.ping_pong, bytes);
    if (place == nullptr) place = fifo.staging + staging_place(fifo, bytes, kLeastRingBytes);
    std::memcpy(place + bytes - sizeof value, &value, sizeof value);
    const MessagePlace name = name_place(fifo, place, bytes);
    SlotHeader& header = next_slot(fifo);
    header.flags = 0;
    header.bytes = static_cast<std::uint32_t>(bytes);
    header.region = name.region;
    header.offset = name.offset;
    publish(fifo);
  }

  Taken take(Rank rank) {
    RecvFifo& fifo = pair_.recv(rank);
    const SlotHeader* const header = peek(fifo);
    if (header == nullptr) return {{}, ~std::uint64_t{0}};
    const Located located = locate(fifo, *header);
    EXPECT_EQ(located.state, Locating::Found);
    Taken taken{{}, value_at(located.data + header->bytes - sizeof(std::uint64_t))};
    if (header->region == kPingPong) taken.slot = static_cast<std::uint32_t>(header->offset);
    hold_place(fifo);
    consume(fifo);
    return taken;
  }

  Locating state_of(std::uint64_t number, std::uint32_t bytes) {
    SlotHeader header{};
    header.region = kPingPong;
    header.offset = number;
    header.bytes = bytes;
    return locate(pair_.recv(0), header).state;
  }

  Pair pair_;
};

class WithoutFilling : public PingPong {
 protected:
  WithoutFilling() : PingPong(false) {}
};

TEST_F(PingPong, RanksThatAnswerFillWhatTheyHaveRead) {
  std::vector<std::uint32_t> read[2];
  for (std::uint64_t round = 0; round < 50; ++round) {
    for (Rank rank : {0, 1}) send(rank, 2 * round + static_cast<std::uint64_t>(rank));
    for (Rank rank : {0, 1}) {
      const Taken taken = take(rank);
      EXPECT_EQ(taken.value, 2 * round + static_cast<std::uint64_t>(1 - rank));
      ASSERT_TRUE(taken.slot) << round;
      // The peer has read it so many rounds ago; it held its own slots before.
      if (round >= kShare) {
        EXPECT_EQ(*taken.slot, read[1 - rank][round - kShare]);
      }
      read[rank].push_back(*taken.slot);
    }
  }
}

TEST_F(PingPong, ARankThatGetsNothingBackUsesItsStaging) {
  for (std::uint64_t i = 0; i < 8; ++i) send(0, i);
  std::set<std::uint32_t> slots;
  for (std::uint64_t i = 0; i < 8; ++i) {
    const Taken taken = take(1);
    EXPECT_EQ(taken.value, i);
    EXPECT_EQ(taken.slot.has_value(), i < kShare) << i;
    if (taken.slot) slots.insert(*taken.slot);
  }
  EXPECT_EQ(slots.size(), kShare) << "each once";
  // The reader holds all of them now, and its own are the first that it fills.
  for (std::uint64_t i = 0; i < 8; ++i) send(1, 100 + i);
  for (std::uint64_t i = 0; i < 8; ++i) {
    const Taken taken = take(0);
    EXPECT_EQ(taken.value, 100 + i);
    ASSERT_TRUE(taken.slot);
    EXPECT_EQ(slots.contains(*taken.slot), i >= kShare) << i;
  }
}

TEST_F(PingPong, LargeMessagesTakeTwoSlotsAndLargerOnesNone) {
  PingPongSlots* const slots = pair_.send(0).ping_pong;
  EXPECT_NE(held_slots(slots, PingPongSlots::kMostBytes), nullptr);
  EXPECT_EQ(held_slots(slots, PingPongSlots::kMostBytes + 1), nullptr);
  for (std::uint64_t round = 0; round < 20; ++round) {
    for (Rank rank : {0, 1}) send(rank, round, PingPongSlots::kMostBytes);
    for (Rank rank : {0, 1}) {
      const Taken taken = take(rank);
      EXPECT_EQ(taken.value, round);
      ASSERT_TRUE(taken.slot);
      EXPECT_EQ(*taken.slot % 2, 0U);
    }
    EXPECT_EQ(slots->count, kShare);
  }
}

TEST_F(PingPong, TwoSlotsAreFoundBehindOneThatStandsAlone) {
  for (const std::size_t bytes :
       {std::size_t{8}, PingPongSlots::kMostBytes, PingPongSlots::kMostBytes, PingPongSlots::kMostBytes}) {
    for (Rank rank : {0, 1}) send(rank, bytes, bytes);
    for (Rank rank : {0, 1}) {
      const Taken taken = take(rank);
      EXPECT_EQ(taken.value, bytes);
      EXPECT_TRUE(taken.slot);
    }
  }
}

TEST_F(PingPong, OneSlotIsTooFewForALargeMessage) {
  for (std::uint64_t i = 1; i < kShare; ++i) send(0, i);
  EXPECT_EQ(pair_.send(0).ping_pong->count, 1U);
  EXPECT_EQ(held_slots(pair_.send(0).ping_pong, PingPongSlots::kMostBytes), nullptr);
  EXPECT_NE(held_slots(pair_.send(0).ping_pong, PingPongSlots::kBytes), nullptr);
}

TEST_F(PingPong, RefusesNumbersOfNoSlotOfThePeer) {
  EXPECT_EQ(state_of(PingPongSlots::kCount, 8), Locating::Invalid);
  EXPECT_EQ(state_of(~std::uint64_t{0}, 8), Locating::Invalid);
  EXPECT_EQ(state_of(0, 8), Locating::Invalid) << "this rank holds it";
  EXPECT_EQ(state_of(kShare, PingPongSlots::kMostBytes + 1), Locating::Invalid);
  EXPECT_EQ(state_of(kShare + 1, PingPongSlots::kBytes + 1), Locating::Invalid) << "two slots begin at an even number";
  EXPECT_EQ(state_of(kShare, PingPongSlots::kMostBytes), Locating::Found);
  hold(*pair_.send(0).ping_pong, kShare + 1);
  EXPECT_EQ(state_of(kShare, PingPongSlots::kMostBytes), Locating::Invalid) << "this rank holds the second";
  EXPECT_EQ(state_of(kShare, PingPongSlots::kBytes), Locating::Found);
}

// Two lanes of a peer that breaks the rules may name one slot.
TEST_F(PingPong, ASlotIsHeldOnce) {
  PingPongSlots& slots = *pair_.send(0).ping_pong;
  for (int i = 0; i < 20; ++i) hold(slots, kShare + 1);
  EXPECT_EQ(slots.count, kShare + 1);
}

TEST_F(WithoutFilling, ARankPutsNothingThereAndHoldsNothing) {
  for (std::uint64_t i = 0; i < 3; ++i) {
    send(0, i);
    EXPECT_EQ(take(1), (Taken{{}, i}));
  }
  EXPECT_EQ(state_of(kShare, PingPongSlots::kMostBytes), Locating::Found) << "a peer may fill them";
  hold_place(pair_.recv(0));
  EXPECT_EQ(pair_.send(0).ping_pong->count, 0U);
}

TEST(PingPongOfMany, IsForTwoRanks) {
  const FifoShape shape = shape_of(2);
  const auto segment = std::move(OwnSegment::create(0, 3, shape, host_segment_memory(false))).value();
  const auto other = std::move(OwnSegment::create(1, 3, shape, host_segment_memory(false))).value();
  auto link = MappedLink::connect(*segment, 1, std::move(other->offer(0, false)).value());
  ASSERT_TRUE(link);
  EXPECT_EQ((*link)->peer().ping_pong(), nullptr);
  EXPECT_EQ((*link)->send_fifo(0).ping_pong, nullptr);
  EXPECT_EQ(SegmentLayout(3, shape).small_area, SegmentLayout(3, shape).ping_pong);
}

}  // namespace
}  // namespace wreath
