// Tests FIFOs over mapped segments: order, credit, the wrap of sequences, and data through every way to name it.
#include <numeric>
#include <tuple>
#include <vector>

#include "tests/unit/fifo/pair.hpp"
#include "wreath/memory.hpp"

namespace wreath {
namespace {

constexpr std::uint32_t kBeforeTheWrap = 0xfffffffdU;

class Fifo : public testing::TestWithParam<std::tuple<std::uint32_t, std::uint32_t, bool>> {
 protected:
  FifoShape shape() const { return shape_of(std::get<0>(GetParam()), std::get<1>(GetParam())); }
  bool shareable() const { return std::get<2>(GetParam()); }
};

TEST_P(Fifo, HoldsNothingAtFirst) {
  Pair pair(shape(), shareable());
  for (std::uint16_t lane : {std::uint16_t{0}, std::uint16_t{1}}) {
    EXPECT_EQ(peek(pair.recv(0, lane)), nullptr);
    EXPECT_TRUE(has_credit(pair.send(0, lane)));
    EXPECT_TRUE(drained(pair.send(0, lane)));
  }
}

TEST_P(Fifo, GivesExactlySlotCountCredits) {
  Pair pair(shape(), shareable());
  pair.links[0]->prepare(0).value();
  pair.announce(0);
  const std::uint32_t slot_count = shape().slot_count;
  for (std::uint32_t round = 0; round < 5; ++round) {
    for (std::uint32_t i = 0; i < slot_count; ++i) {
      ASSERT_TRUE(has_credit(pair.send(0)));
      send_value(pair.send(0), round * 100 + i);
    }
    ASSERT_FALSE(has_credit(pair.send(0)));
    for (std::uint32_t i = 0; i < slot_count; ++i) {
      const SlotHeader* slot = peek(pair.recv(1));
      ASSERT_NE(slot, nullptr);
      const Located located = locate(pair.recv(1), *slot);
      ASSERT_EQ(located.state, Locating::Found);
      EXPECT_EQ(value_at(located.data), round * 100 + i);
      EXPECT_FALSE(drained(pair.send(0)));
      consume(pair.recv(1));
      EXPECT_TRUE(has_credit(pair.send(0)));
    }
    ASSERT_EQ(peek(pair.recv(1)), nullptr);
    EXPECT_TRUE(drained(pair.send(0)));
  }
}

// Messages whose data lies elsewhere take headers alone. Staged ones wait for their places.
TEST_P(Fifo, HasMoreHeadersThanPlacesForData) {
  FifoShape wide = shape();
  wide.mapped_headers = 4 * wide.slot_count;
  Pair pair(wide, shareable());
  pair.links[0]->prepare(0).value();
  pair.announce(0);
  SendFifo& send = pair.send(0);
  constexpr std::uint64_t kElsewhere = 1 << 20;
  const auto send_elsewhere = [&send](std::uint64_t value) {
    SlotHeader& slot = next_slot(send);
    slot.offset = kElsewhere + value;
    slot.bytes = 0;
    publish(send);
  };
  const auto expect_next = [&pair](std::uint64_t value) {
    const SlotHeader* slot = peek(pair.recv(1));
    ASSERT_NE(slot, nullptr);
    if (slot->bytes == 0) {
      EXPECT_EQ(slot->offset, kElsewhere + value);
    } else {
      EXPECT_EQ(value_at(locate(pair.recv(1), *slot).data), value);
    }
    consume(pair.recv(1));
  };
  std::uint64_t sent = 0;
  std::uint64_t read = 0;
  for (int round = 0; round < 20; ++round) {
    for (std::uint32_t i = 0; i < wide.slot_count; ++i) {
      ASSERT_TRUE(has_credit(send));
      send_value(send, sent++);
    }
    EXPECT_FALSE(has_credit(send)) << "the places are taken";
    while (sent - read < wide.mapped_headers) {
      ASSERT_TRUE(has_credit(send, Room::Header));
      EXPECT_FALSE(has_credit(send));
      send_elsewhere(sent++);
    }
    EXPECT_FALSE(has_credit(send, Room::Header));
    // The next place is free when fewer messages than places are unread.
    while (sent - read >= wide.slot_count) {
      EXPECT_FALSE(has_credit(send));
      expect_next(read++);
      EXPECT_TRUE(has_credit(send, Room::Header));
    }
    for (; sent - read < wide.slot_count; ++sent) {
      ASSERT_TRUE(has_credit(send));
      send_value(send, sent);
    }
    while (read < sent) expect_next(read++);
  }
}

TEST_P(Fifo, KeepsLanesApart) {
  Pair pair(shape(), shareable());
  pair.links[0]->prepare(0).value();
  pair.links[0]->prepare(1).value();
  pair.announce(0);
  send_value(pair.send(0, 0), 10);
  send_value(pair.send(0, 1), 11);
  for (std::uint16_t lane : {std::uint16_t{1}, std::uint16_t{0}}) {
    const SlotHeader* slot = peek(pair.recv(1, lane));
    ASSERT_NE(slot, nullptr);
    EXPECT_EQ(slot->lane, lane);
    EXPECT_EQ(value_at(locate(pair.recv(1, lane), *slot).data), 10U + lane);
  }
}

// The test uses both directions at once: each thread is the producer of one FIFO and the consumer of the other.
TEST_P(Fifo, CarriesMessagesInOrderBetweenTwoThreads) {
  Pair pair(shape(), shareable());
  for (Rank rank : {0, 1}) {
    pair.links[rank]->prepare(0).value();
    pair.announce(rank);
  }
  constexpr std::uint64_t kMessages = 2000;
  const auto drive = [&pair](Rank rank) {
    SendFifo& send = pair.send(rank);
    RecvFifo& recv = pair.recv(rank);
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
    while (sent < kMessages || received < kMessages) {
      bool moved = false;
      if (sent < kMessages && has_credit(send)) {
        send_value(send, sent++);
        moved = true;
      }
      if (const SlotHeader* slot = peek(recv); received < kMessages && slot != nullptr) {
        ASSERT_EQ(value_at(locate(recv, *slot).data), received++);
        consume(recv);
        moved = true;
      }
      if (!moved) std::this_thread::yield();
    }
  };
  std::thread other([&] { drive(1); });
  drive(0);
  other.join();
}

INSTANTIATE_TEST_SUITE_P(Shapes, Fifo,
                         testing::Combine(testing::Values(1U, 2U, 8U), testing::Values(0U, kBeforeTheWrap),
                                          testing::Bool()));

TEST(FifoLocate, StaysBlockedUntilTheRegionIsAnnounced) {
  Pair pair(shape_of(2), true);
  pair.links[0]->prepare(0).value();
  send_value(pair.send(0), 7);
  const SlotHeader* slot = peek(pair.recv(1));
  ASSERT_NE(slot, nullptr);
  EXPECT_EQ(locate(pair.recv(1), *slot).state, Locating::Unmapped);
  pair.announce(0);
  const Located located = locate(pair.recv(1), *slot);
  ASSERT_EQ(located.state, Locating::Found);
  EXPECT_EQ(value_at(located.data), 7U);
}

TEST(FifoLocate, RefusesHeadersThatLeaveTheirRegion) {
  Pair pair(shape_of(1), true);
  pair.links[0]->prepare(0).value();
  pair.announce(0);
  // There is one peer and one slot.
  const std::uint64_t region_bytes = 4096;
  const auto state = [&pair](std::uint32_t region, std::uint64_t offset, std::uint32_t bytes) {
    SlotHeader header{};
    header.region = region;
    header.offset = offset;
    header.bytes = bytes;
    return locate(pair.recv(1), header).state;
  };
  EXPECT_EQ(state(1, 0, region_bytes), Locating::Found);
  EXPECT_EQ(state(1, region_bytes, 0), Locating::Found);
  EXPECT_EQ(state(1, 1, region_bytes), Locating::Invalid);
  EXPECT_EQ(state(1, 0, region_bytes + 1), Locating::Invalid);
  EXPECT_EQ(state(1, ~std::uint64_t{0}, 1), Locating::Invalid);
  EXPECT_EQ(state(1, ~std::uint64_t{0}, 0), Locating::Invalid);
  EXPECT_EQ(state(2, 0, 1), Locating::Unmapped);
  EXPECT_EQ(state(kMaximumRegions, 0, 1), Locating::Invalid);
  EXPECT_EQ(state(~0U, 0, 1), Locating::Invalid);
  EXPECT_EQ(state(0, 0, 1), Locating::Invalid);
}

// A header that another process writes must not name memory of this process.
TEST(FifoLocate, TakesAddressesOfThisProcessFromThisProcessOnly) {
  Pair pair(shape_of(1), true);
  const std::uint64_t word = 42;
  SlotHeader header{};
  header.bytes = sizeof(word);
  header.offset = reinterpret_cast<std::uintptr_t>(&word);
  for (const std::uint32_t region : {0U, kLocalAddress, kDeviceAddress, kPeerAddress}) {
    header.region = region;
    RecvFifo fifo = pair.recv(1);
    fifo.same_process = false;
    EXPECT_EQ(locate(fifo, header).state, Locating::Invalid) << region;
  }
  RecvFifo fifo = pair.recv(1);
  fifo.same_process = true;
  header.region = kLocalAddress;
  EXPECT_EQ(locate(fifo, header).data, reinterpret_cast<const std::byte*>(&word));
}

TEST(FifoReference, IsVoidOnceItsOwnerAborted) {
  Pair pair(shape_of(2), false);
  pair.recv(1).same_process = true;
  const std::uint64_t word = 42;
  SlotHeader& header = next_slot(pair.send(0));
  header.flags = kSlotReference;
  header.region = kLocalAddress;
  header.offset = reinterpret_cast<std::uintptr_t>(&word);
  header.bytes = sizeof(word);
  publish(pair.send(0));
  const SlotHeader* slot = peek(pair.recv(1));
  ASSERT_NE(slot, nullptr);
  EXPECT_EQ(locate(pair.recv(1), *slot).data, reinterpret_cast<const std::byte*>(&word));
  EXPECT_TRUE(read_is_valid(*pair.links[1]->peer().aborted()));
  pair.segments[0]->set_aborted();
  EXPECT_FALSE(read_is_valid(*pair.links[1]->peer().aborted()));
}

}  // namespace
}  // namespace wreath
