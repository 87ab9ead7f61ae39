// Tests a rank's own segment: staging, names of user memory, announcements and sleep, and what links do with them.
#include <gmock/gmock.h>
#include <poll.h>

#include <string>
#include <vector>

#include "src/base/region.hpp"
#include "src/base/remote_fence.hpp"
#include "tests/unit/fifo/pair.hpp"
#include "wreath/memory.hpp"

namespace wreath {
namespace {

bool rings(const OwnSegment& segment) {
  pollfd poll_doorbell{segment.doorbell(), POLLIN, 0};
  return ::poll(&poll_doorbell, 1, 0) == 1;
}

Offer copy_of(const Offer& offer) {
  Offer copy;
  copy.bytes = offer.bytes;
  return copy;
}

TEST(OwnSegment, RefusesShapesOutOfRange) {
  const auto error_of = [](Rank rank, int ranks, const FifoShape& shape) {
    const auto segment = OwnSegment::create(rank, ranks, shape, host_segment_memory(false));
    return segment ? std::string("none") : segment.error().message;
  };
  EXPECT_THAT(error_of(0, 0, shape_of(2)), testing::HasSubstr("ranks = 0"));
  EXPECT_THAT(error_of(2, 2, shape_of(2)), testing::HasSubstr("rank = 2"));
  EXPECT_THAT(error_of(-1, 2, shape_of(2)), testing::HasSubstr("rank = -1"));
  EXPECT_THAT(error_of(0, 2, shape_of(3)), testing::HasSubstr("slot_count = 3"));
  EXPECT_THAT(error_of(0, 2, shape_of(0)), testing::HasSubstr("slot_count = 0"));
  EXPECT_THAT(error_of(0, 2, shape_of(2, 0, 100)), testing::HasSubstr("slot_bytes = 100"));
  FifoShape odd_sends = shape_of(2);
  odd_sends.exchange_slot_bytes = 5000;
  EXPECT_THAT(error_of(0, 2, odd_sends), testing::HasSubstr("exchange_slot_bytes = 5000"));
  FifoShape odd_headers = shape_of(2);
  odd_headers.mapped_headers = 6;
  EXPECT_THAT(error_of(0, 2, odd_headers), testing::HasSubstr("headers = 6"));
  odd_headers.mapped_headers = 2048;
  EXPECT_THAT(error_of(0, 2, odd_headers), testing::HasSubstr("headers = 2048"));
  FifoShape no_lanes = shape_of(2);
  no_lanes.lanes = 0;
  EXPECT_THAT(error_of(0, 2, no_lanes), testing::HasSubstr("lanes = 0"));
}

TEST(PeerSegment, HasTheShapeOfTheOwnOne) {
  const FifoShape shape = shape_of(2);
  const auto own = std::move(OwnSegment::create(0, 2, shape, host_segment_memory(false))).value();
  const auto opened = [&own](const FifoShape& theirs) {
    const auto peer = std::move(OwnSegment::create(1, 2, theirs, host_segment_memory(false))).value();
    return PeerSegment::open(*own, 1, std::move(peer->offer(0, false)).value());
  };
  EXPECT_TRUE(opened(shape));
  using Change = void (*)(FifoShape&);
  for (const Change change :
       {+[](FifoShape& s) { s.lanes = 3; }, +[](FifoShape& s) { s.slot_count = 4; },
        +[](FifoShape& s) { s.slot_bytes = 8192; }, +[](FifoShape& s) { s.exchange_slot_bytes = 8192; },
        +[](FifoShape& s) { s.first_sequence = 1; }, +[](FifoShape& s) { s.epoch = 1; },
        +[](FifoShape& s) { s.mapped_headers = 8; }}) {
    FifoShape other = shape;
    change(other);
    const auto refused = opened(other);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::Mismatch);
    EXPECT_EQ(refused.error().message,
              "the control segment of rank 1: lanes, slots, sequence or epoch differ from this rank's");
  }
}

TEST(OwnSegment, GivesEveryPeerAndLaneStagingOfItsOwn) {
  constexpr int kRanks = 4;
  FifoShape shape = shape_of(2);
  shape.exchange_slot_bytes = 8192;
  auto segment = std::move(OwnSegment::create(1, kRanks, shape, host_segment_memory(true))).value();
  const std::size_t before = region_count();
  for (Rank peer : {3, 0}) std::move(segment->offer(peer, true)).value();
  EXPECT_EQ(region_count(), before);
  std::vector<const std::byte*> seen;
  for (std::uint16_t lane : {std::uint16_t{0}, std::uint16_t{1}}) {
    const std::size_t slots_bytes = std::size_t{2} * (lane == 0 ? 4096 : 8192);
    for (Rank peer : {0, 3}) {
      const Staging staging = segment->staging(peer, lane).value();
      EXPECT_EQ(segment->staging(peer, lane).value().data, staging.data);
      EXPECT_EQ(staging.name.index, lane + 1U);
      EXPECT_EQ(Region::find_at(staging.data)->bytes(), 2 * slots_bytes);  // peers
      std::memset(staging.data, peer + lane, slots_bytes);
      for (const std::byte* other : seen) {
        EXPECT_GE(std::abs(other - staging.data), static_cast<std::ptrdiff_t>(slots_bytes));
      }
      seen.push_back(staging.data);
    }
  }
  EXPECT_EQ(region_count(), before + 2);  // lanes
}

TEST(OwnSegment, RefusesStagingForAPeerItWasNotOfferedTo) {
  auto segment = std::move(OwnSegment::create(0, 3, shape_of(2), host_segment_memory(true))).value();
  EXPECT_EQ(segment->staging(1, 0).error().code, ErrorCode::InvalidUsage);
  std::move(segment->offer(1, true)).value();
  EXPECT_TRUE(segment->staging(1, 0));
  // This offer is too late for the region of lane 0.
  std::move(segment->offer(2, true)).value();
  EXPECT_EQ(segment->staging(2, 0).error().code, ErrorCode::InvalidUsage);
  EXPECT_TRUE(segment->staging(2, 1));
}

TEST(OwnSegment, AnnouncesEachRegionOncePerPeer) {
  Pair pair(shape_of(2), true);
  OwnSegment& segment = *pair.segments[0];
  EXPECT_FALSE(segment.has_announcements(1));
  pair.links[0]->prepare(1).value();
  EXPECT_TRUE(segment.has_announcements(1));
  const auto announcements = segment.take_announcements(1).value();
  ASSERT_EQ(announcements.size(), 1U);
  EXPECT_EQ(announcements[0].index, 1U);
  EXPECT_EQ(announcements[0].offer.descriptors.size(), 1U);
  EXPECT_FALSE(segment.has_announcements(1));
  EXPECT_TRUE(segment.take_announcements(1).value().empty());
  // Another peer has not got the announcement.
  EXPECT_TRUE(segment.has_announcements(0));
}

TEST(OwnSegment, NamesOnlyMemoryFromTheAllocator) {
  Pair pair(shape_of(2), true);
  OwnSegment& segment = *pair.segments[0];
  const Memory memory = std::move(allocate(10000)).value();
  const std::vector<std::byte> ordinary(10000);
  EXPECT_FALSE(segment.name_memory(ordinary.data(), ordinary.size()));
  EXPECT_FALSE(segment.name_memory(memory.data(), 3 * 4096 + 1));
  EXPECT_FALSE(segment.name_memory(memory.data() - 1, 2));
  const auto first = segment.name_memory(memory.data() + 100, 500);
  const auto second = segment.name_memory(memory.data(), memory.size());
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->index, second->index);
  EXPECT_EQ(first->offset, 100U);
  EXPECT_EQ(second->offset, 0U);

  std::memcpy(memory.data() + 100, "wreath", 6);
  pair.announce(0);
  SlotHeader header{};
  header.flags = kSlotReference;
  header.region = first->index;
  header.offset = first->offset;
  header.bytes = 6;
  const Located located = locate(pair.recv(1), header);
  ASSERT_EQ(located.state, Locating::Found);
  EXPECT_EQ(std::memcmp(located.data, "wreath", 6), 0);
}

TEST(OwnSegment, NamesMemoryToRanksOfItsProcessWithoutDescriptors) {
  Pair pair(shape_of(2), false);
  const Memory memory = std::move(allocate(4096)).value();
  ASSERT_TRUE(pair.segments[0]->name_memory(memory.data(), memory.size()));
  pair.announce(0);
  EXPECT_EQ(pair.recv(1).regions[1].base, memory.data());
}

TEST(OwnSegment, NeverUsesAnIndexTwice) {
  Pair pair(shape_of(2), true);
  OwnSegment& segment = *pair.segments[0];
  std::uint32_t last = 0;
  for (int i = 0; i < 5; ++i) {
    const Memory memory = std::move(allocate(4096)).value();
    const auto name = segment.name_memory(memory.data(), 1);
    ASSERT_TRUE(name);
    EXPECT_GT(name->index, last);
    last = name->index;
  }
  // All regions were freed before an announcement.
  EXPECT_TRUE(segment.take_announcements(1).value().empty());
}

TEST(OwnSegment, KeepsIndicesForStagingWhenUserMemoryTakesAllOthers) {
  Pair pair(shape_of(2), true);
  OwnSegment& segment = *pair.segments[0];
  std::vector<Memory> memories;
  int named = 0;
  for (std::uint32_t i = 0; i < kMaximumRegions + 5; ++i) {
    memories.push_back(std::move(allocate(4096)).value());
    named += segment.name_memory(memories.back().data(), 1) ? 1 : 0;
  }
  // There are 63 indices, and the two lanes take one each.
  EXPECT_EQ(named, 61);
  EXPECT_TRUE(segment.name_memory(memories.front().data(), 1));
  for (std::uint16_t lane : {std::uint16_t{0}, std::uint16_t{1}}) pair.links[0]->prepare(lane).value();
  pair.announce(0);
  send_value(pair.send(0, 1), 5);
  EXPECT_EQ(locate(pair.recv(1, 1), *peek(pair.recv(1, 1))).state, Locating::Found);
}

TEST(OwnSegment, IsWokenOnlyWhileItSleeps) {
  Pair pair(shape_of(2), true);
  OwnSegment& sleeper = *pair.segments[0];
  pair.links[1]->wake();
  EXPECT_FALSE(rings(sleeper));
  sleeper.begin_sleep();
  EXPECT_FALSE(rings(sleeper));
  pair.links[1]->wake();
  pair.links[1]->wake();
  EXPECT_TRUE(rings(sleeper));
  sleeper.end_sleep();
  sleeper.begin_sleep();
  EXPECT_FALSE(rings(sleeper));
  sleeper.end_sleep();
  pair.links[1]->wake();
  EXPECT_FALSE(rings(sleeper));
}

TEST(OwnSegment, StaysAsleepUntilItsLastSleeperLeaves) {
  Pair pair(shape_of(2), true);
  OwnSegment& sleeper = *pair.segments[0];
  sleeper.begin_sleep();
  sleeper.begin_sleep();
  sleeper.end_sleep();
  pair.links[1]->wake();
  EXPECT_TRUE(rings(sleeper));
}

TEST(OwnSegment, IsWokenWhereItsSleepersFence) {
  Pair pair(shape_of(2), true);
  OwnSegment& sleeper = *pair.segments[0];
  sleeper.let_sleepers_fence();
  const Counter& sleeping = *pair.links[1]->peer().sleeping();
  bool fenced = false;
  EXPECT_FALSE(is_asleep(sleeping, fenced));
  sleeper.begin_sleep();
  EXPECT_TRUE(is_asleep(sleeping, fenced));
  pair.links[1]->wake();
  EXPECT_TRUE(rings(sleeper));
  sleeper.end_sleep();
  EXPECT_FALSE(is_asleep(sleeping, fenced));
}

// The parameter says whether sleepers make the threads that publish pass a fence, so that these need none of their own.
class Sleepers : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Fence, Sleepers, testing::Bool());

// The sleeper looks once more after begin_sleep(), so it misses no message, however the threads meet. If it fences, it
// looks again a millisecond later: see remote_fence.hpp.
TEST_P(Sleepers, MissNoMessageBetweenLookAndSleep) {
  Pair pair(shape_of(4), false);
  if (GetParam()) {
    if (!can_fence_others()) GTEST_SKIP() << "needs membarrier(2) of Linux 4.16: run it on a newer kernel";
    register_for_fences();
    pair.segments[1]->let_sleepers_fence();
    bool fenced = false;
    EXPECT_FALSE(is_asleep(*pair.links[0]->peer().sleeping(), fenced));
    EXPECT_FALSE(fenced) << "who publishes needs none";
  }
  pair.links[0]->prepare(0).value();
  pair.announce(0);
  constexpr std::uint64_t kMessages = 3000;
  std::thread producer([&pair] {
    for (std::uint64_t i = 0; i < kMessages; ++i) {
      while (!has_credit(pair.send(0))) std::this_thread::yield();
      send_value(pair.send(0), i);
      pair.links[0]->wake();
    }
  });
  OwnSegment& own = *pair.segments[1];
  std::uint64_t received = 0;
  while (received < kMessages) {
    if (peek(pair.recv(1)) == nullptr) {
      own.begin_sleep();
      const auto rings_within = [&own](int milliseconds) {
        pollfd poll_doorbell{own.doorbell(), POLLIN, 0};
        return ::poll(&poll_doorbell, 1, milliseconds) == 1;
      };
      bool found = peek(pair.recv(1)) != nullptr;
      if (!found && own.sleepers_fence()) found = rings_within(1) || peek(pair.recv(1)) != nullptr;
      if (!found) {
        ASSERT_TRUE(rings_within(10'000)) << "missed message " << received;
      }
      own.end_sleep();
      continue;
    }
    ++received;
    consume(pair.recv(1));
  }
  producer.join();
}

TEST(MappedLink, SharesItsPeersCounterAndSmallArea) {
  Pair pair(shape_of(2), true);
  const PeerSegment& peer = pair.links[1]->peer();
  // One process has one mapping.
  EXPECT_EQ(peer.small_area(), pair.segments[0]->small_area());
  std::memset(pair.segments[0]->small_area(), 0xab, small_area_bytes(2));
  EXPECT_EQ(peer.small_area()[small_area_bytes(2) - 1], std::byte{0xab});
  EXPECT_EQ(peer.aborted()->value, 0U);
  pair.segments[0]->set_aborted();
  EXPECT_NE(peer.aborted()->value, 0U);
}

TEST(MappedLink, RefusesRegionsOutOfRangeKnownOrBroken) {
  Pair pair(shape_of(2), true);
  pair.links[0]->prepare(0).value();
  const auto announcements = pair.segments[0]->take_announcements(1).value();
  const Offer& offer = announcements.at(0).offer;
  const std::size_t regions = region_count();
  MappedLink& link = *pair.links[1];
  EXPECT_EQ(link.accept_region(0, copy_of(offer)).error().code, ErrorCode::Mismatch);
  EXPECT_EQ(link.accept_region(kMaximumRegions, copy_of(offer)).error().code, ErrorCode::Mismatch);
  EXPECT_EQ(link.accept_region(~0U, copy_of(offer)).error().code, ErrorCode::Mismatch);
  EXPECT_EQ(link.accept_region(1, Offer()).error().code, ErrorCode::Mismatch);
  for (std::size_t at : {std::size_t{0}, std::size_t{16}}) {  // magic, size
    Offer broken = copy_of(offer);
    broken.bytes[at] ^= std::byte{1};
    EXPECT_EQ(link.accept_region(1, std::move(broken)).error().code, ErrorCode::Mismatch);
  }
  Offer unknown = copy_of(offer);
  unknown.bytes[8] ^= std::byte{1};  // id
  EXPECT_EQ(link.accept_region(1, std::move(unknown)).error().code, ErrorCode::Unavailable);
  EXPECT_EQ(region_count(), regions);
  EXPECT_TRUE(link.accept_region(1, copy_of(offer)));
  EXPECT_EQ(link.accept_region(1, copy_of(offer)).error().code, ErrorCode::Mismatch);
}

TEST(MappedLink, LearnsOfARegionWhileItsDriverReads) {
  Pair pair(shape_of(2), true);
  pair.links[0]->prepare(0).value();
  send_value(pair.send(0), 99);
  std::thread progress([&pair] { pair.announce(0); });
  const SlotHeader* slot = peek(pair.recv(1));
  ASSERT_NE(slot, nullptr);
  Located located = locate(pair.recv(1), *slot);
  while (located.state == Locating::Unmapped) located = locate(pair.recv(1), *slot);
  EXPECT_EQ(value_at(located.data), 99U);
  progress.join();
}

TEST(MappedLink, StaysReadableAfterItsPeersOwnerIsGone) {
  Pair pair(shape_of(2), true);
  pair.links[0]->prepare(0).value();
  pair.announce(0);
  send_value(pair.send(0), 99);
  pair.links[0].reset();
  pair.segments[0].reset();
  const SlotHeader* slot = peek(pair.recv(1));
  ASSERT_NE(slot, nullptr);
  EXPECT_EQ(value_at(locate(pair.recv(1), *slot).data), 99U);
  EXPECT_TRUE(read_is_valid(*pair.links[1]->peer().aborted()));
  pair.links[1]->wake();
}

}  // namespace
}  // namespace wreath
