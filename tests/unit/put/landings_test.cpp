// Messages land in the places that the receiver has named in time, and in slots else.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "src/base/little_endian.hpp"
#include "src/fifo/access.hpp"
#include "tests/support/processes.hpp"
#include "tests/support/surroundings.hpp"
#include "tests/unit/put/pair.hpp"

namespace wreath::put {
namespace {

constexpr int kPlacedMessages = 12;
constexpr std::uint32_t kPlacedBytes = 64 * 1024;

// Waits are worth it, however long they take.
PutOptions waiting(std::int64_t ms, std::int64_t spare_ns = 60'000 * kNsPerMs) {
  PutOptions options;
  options.waiting = {ms, spare_ns};
  return options;
}

Stream stream_of(Pair& pair, Way way) {
  Stream stream(pair, 0, 0);
  for (int i = 0; i < kPlacedMessages; ++i) stream.add(pair.shape.slot_bytes, way);
  return stream;
}

TEST(PlaceWaiting, IsWorthItWhereItIsAskedFor) {
  EXPECT_EQ(PlaceWaiting::read()->most_ms, PlaceWaiting().most_ms);
  const test::Environment asked({std::pair("WREATH_LANDING_WAIT_MS", "300")});
  EXPECT_EQ(PlaceWaiting::read()->most_ms, 300);
  EXPECT_EQ(PlaceWaiting::read()->spare_ns, 300 * kNsPerMs);
  const test::Environment wrong({std::pair("WREATH_LANDING_WAIT_MS", "long")});
  EXPECT_THAT(PlaceWaiting::read().error().message, testing::HasSubstr("WREATH_LANDING_WAIT_MS"));
}

class PutLandingsOver : public testing::TestWithParam<bool> {
 protected:
  static Whims whims(std::uint32_t seed = 1) {
    Whims whims;
    whims.seed = seed;
    whims.limits.ordered = GetParam();
    whims.limits.inline_bytes = seed % 2 == 0 ? 0 : 220;
    whims.torn = true;
    return whims;
  }
};

TEST_P(PutLandingsOver, NobodyCopiesFromRegisteredToRegisteredMemory) {
  for (const std::uint32_t seed : {1U, 2U}) {
    Pair pair(shape_of(1, 4, 0xfffffffd, kPlacedBytes), whims(seed), waiting(60'000));
    Stream stream = stream_of(pair, Way::Registered);
    stream.want_places(true);
    ASSERT_TRUE(carry(pair, stream)) << pair.error.message;
    EXPECT_EQ(stream.wrong(), "");
    EXPECT_EQ(stream.landed(), std::size_t{kPlacedMessages});
    EXPECT_EQ(pair.ends[0].link->counts().copied_bytes, 0U);
    EXPECT_EQ(pair.ends[0].link->counts().by_reference, std::uint64_t{kPlacedMessages});
    EXPECT_EQ(pair.ends[1].link->counts().landed, std::uint64_t{kPlacedMessages});
    EXPECT_EQ(pair.ends[1].link->counts().places, std::uint64_t{kPlacedMessages});
    EXPECT_EQ(pair.network.violations(), 0) << pair.network.violation();
  }
}

TEST_P(PutLandingsOver, APlaceServesAStagedMessageThatComesLater) {
  Pair pair(shape_of(1, 4, 0, kPlacedBytes), whims());
  Stream stream(pair, 0, 0);
  stream.want_places(true);
  // The first message asks for slots, and says where places are named.
  stream.add(pair.shape.slot_bytes, Way::Staged);
  ASSERT_TRUE(carry(pair, stream)) << pair.error.message;
  for (int i = 0; i < 4; ++i) stream.add(pair.shape.slot_bytes, Way::Staged);
  stream.post_places();
  ASSERT_TRUE(drive(pair, [rounds = 0]() mutable { return ++rounds > 200; }));
  const std::size_t before = stream.landed();
  ASSERT_TRUE(carry(pair, stream)) << pair.error.message;
  EXPECT_EQ(stream.wrong(), "");
  EXPECT_EQ(stream.landed(), before + 4);
}

TEST_P(PutLandingsOver, MessagesDoNotWaitForPlacesThatAreNotRegistered) {
  Pair pair(shape_of(1, 4, 0, kPlacedBytes), whims(), waiting(60'000));
  Stream stream = stream_of(pair, Way::Registered);
  stream.want_places(false);
  ASSERT_TRUE(carry(pair, stream)) << pair.error.message;
  EXPECT_EQ(stream.wrong(), "");
  EXPECT_EQ(stream.landed(), 0U);
  EXPECT_EQ(pair.ends[1].link->counts().places, 0U);
}

// Sends for so long, and for enough rounds on a busy machine, too. Takes nothing.
void send_alone(Pair& pair, Stream& stream, std::int64_t ms) {
  constexpr int kRounds = 200;
  const std::int64_t end = now_ns() + ms * kNsPerMs;
  EXPECT_TRUE(drive(pair, [&, rounds = 0]() mutable {
    stream.send_all();
    return ++rounds > kRounds && now_ns() > end;
  })) << pair.error.message;
}

// Sends messages one by one. The receiver comes late, so many milliseconds after the 5 within which a message is put
// that does not wait. Returns how many messages behind the first one waited.
int waits_before_a_late_receiver(Pair& pair, Stream& stream, std::uint64_t messages, std::int64_t late_ms) {
  int waits = 0;
  for (std::uint64_t message = 1; message <= messages; ++message) {
    stream.add(pair.shape.slot_bytes, Way::Registered);
    send_alone(pair, stream, 5);
    waits += message > 1 && pair.ends[0].link->counts().messages() < message ? 1 : 0;
    send_alone(pair, stream, late_ms);
    EXPECT_TRUE(carry(pair, stream)) << pair.error.message;
  }
  EXPECT_EQ(stream.wrong(), "");
  return waits;
}

// The place always comes, but so late that a copy would have been quicker.
TEST_P(PutLandingsOver, WaitsThatCostMoreThanCopiesBecomeRare) {
  Pair pair(shape_of(1, 4, 0, kPlacedBytes), whims(), waiting(60'000, 0));
  Stream stream(pair, 0, 0);
  stream.want_places(true);
  const int waits = waits_before_a_late_receiver(pair, stream, 20, 0);
  EXPECT_GT(waits, 0);
  EXPECT_LT(waits, 10);
}

// Each message is in a slot when the receiver comes, whose memory is not registered. It says so for the next ones.
TEST_P(PutLandingsOver, ALateReceiverRefusesToo) {
  Pair pair(shape_of(1, 4, 0, kPlacedBytes), whims(), waiting(20));
  Stream stream(pair, 0, 0);
  stream.want_places(false);
  EXPECT_EQ(waits_before_a_late_receiver(pair, stream, 6, 35), 0);
}

// The sender waits for places again once one is registered, however late that is said.
TEST_P(PutLandingsOver, RegisteredPlacesAreNamedAfterOthers) {
  Pair pair(shape_of(1, 4, 0, kPlacedBytes), whims(), waiting(60'000));
  Stream stream = stream_of(pair, Way::Registered);
  stream.want_places(false);
  ASSERT_TRUE(carry(pair, stream)) << pair.error.message;
  stream.want_places(true);
  for (int i = 0; i < 2 * kPlacedMessages; ++i) stream.add(pair.shape.slot_bytes, Way::Registered);
  ASSERT_TRUE(carry(pair, stream)) << pair.error.message;
  EXPECT_EQ(stream.wrong(), "");
  EXPECT_GT(stream.landed(), std::size_t{kPlacedMessages});
}

TEST_P(PutLandingsOver, AMessageGoesToASlotAfterItsWait) {
  Pair pair(shape_of(1, 4, 0, kPlacedBytes), whims(), waiting(100, 0));
  Stream stream = stream_of(pair, Way::Registered);
  const std::int64_t begin = now_ns();
  ASSERT_TRUE(carry(pair, stream)) << pair.error.message;
  const std::int64_t spent_ms = (now_ns() - begin) / kNsPerMs;
  EXPECT_EQ(stream.wrong(), "");
  EXPECT_GE(spent_ms, 100) << "the first one waits";
  EXPECT_LT(spent_ms, 100 * (kPlacedMessages - 1)) << "and ever fewer of the others do";
}

TEST_P(PutLandingsOver, AWaitKeepsTheRankAwake) {
  Pair pair(shape_of(1, 4, 0, kPlacedBytes), whims(), waiting(60'000));
  Stream stream = stream_of(pair, Way::Registered);
  ASSERT_TRUE(drive(pair, [&, rounds = 0]() mutable {
    stream.send_all();
    return ++rounds == 200;
  }));
  EXPECT_EQ(pair.network.under_way(pair.ends[0].adapter()), 0U);
  EXPECT_FALSE(pair.ends[0].link->arm()) << "no event ends the wait";
  EXPECT_GT(pair.ends[0].link->in_flight(), 0U);
  stream.want_places(true);
  ASSERT_TRUE(carry(pair, stream)) << pair.error.message;
  EXPECT_EQ(stream.landed(), std::size_t{kPlacedMessages});
  EXPECT_TRUE(drive(
      pair, [&] { return pair.ends[0].link->arm(); }, 100));
}

// The refusal goes with its channel, and must be told again.
TEST_P(PutLandingsOver, ARefusalMayBeLost) {
  for (std::uint64_t lost = 1; lost <= 12; ++lost) {
    Whims unlucky = whims(static_cast<std::uint32_t>(lost));
    unlucky.lose_put = lost;
    Pair pair(shape_of(1, 2, 0, kPlacedBytes), unlucky, waiting(60'000));
    Stream stream = stream_of(pair, Way::Registered);
    stream.want_places(false);
    ASSERT_TRUE(carry(pair, stream)) << lost << ": " << pair.error.message;
    EXPECT_EQ(stream.wrong(), "") << lost;
  }
}

TEST_P(PutLandingsOver, ARankMaySleepWhileItsChannelsAreAway) {
  Pair pair(shape_of(1, 4, 0, kPlacedBytes), whims(), waiting(60'000));
  Stream stream = stream_of(pair, Way::Registered);
  ASSERT_TRUE(drive(pair, [&, rounds = 0]() mutable {
    stream.send_all();
    return ++rounds == 200;
  }));
  EXPECT_FALSE(pair.ends[0].link->arm());
  pair.ends[0].adapter().down = true;
  pair.network.lose(pair.ends[0].adapter(), true);
  bool sleeps = false;
  for (int i = 0; i < 200 && !sleeps; ++i) {
    static_cast<void>(pair.round());
    sleeps = pair.ends[0].link->arm();
  }
  EXPECT_TRUE(sleeps);
}

// The channel of each put in turn is lost: names, data and headers are.
TEST_P(PutLandingsOver, AChannelMayBeLostAtAnyPut) {
  for (std::uint64_t lost = 1; lost <= 40; lost += testing_support::case_step()) {
    Whims unlucky = whims(static_cast<std::uint32_t>(lost));
    unlucky.lose_put = lost;
    Pair pair(shape_of(1, 2, 0, kPlacedBytes), unlucky, waiting(20));
    Stream stream = stream_of(pair, Way::Registered);
    stream.want_places(true);
    ASSERT_TRUE(carry(pair, stream)) << lost << ": " << pair.error.message;
    EXPECT_EQ(stream.wrong(), "") << lost;
    EXPECT_GT(stream.landed(), 0U) << lost;
    EXPECT_EQ(pair.network.violations(), 0) << pair.network.violation();
  }
}

TEST_P(PutLandingsOver, SeveralRailsPutIntoOnePlace) {
  Pair pair(shape_of(1, 4, 0, kPlacedBytes), whims(), waiting(60'000), 3);
  Stream stream = stream_of(pair, Way::Registered);
  stream.want_places(true);
  ASSERT_TRUE(carry(pair, stream)) << pair.error.message;
  EXPECT_EQ(stream.wrong(), "");
  EXPECT_EQ(stream.landed(), std::size_t{kPlacedMessages});
  for (std::size_t rail = 0; rail < 3; ++rail) EXPECT_GT(pair.ends[0].adapter(rail).bytes, 0U) << rail;
}

// Else the name of a place would count again 2^32 messages later, when its sequence comes again.
TEST(PutPlaces, AreForgottenWhenALaterMessageTakesTheirTurn) {
  TestNetwork network({});
  PutPort port(network.make_adapter("test0"));
  WireLanes wires(shape_of(1, 4, 0, kPlacedBytes));
  PutLanes lanes;
  lanes.push_back(std::make_unique<PutLane>(port, wires[0], wires.shape()));
  PutQueues queues;
  PutLandings landings(port, wires.shape(), wires, lanes, queues, {});
  PutLane& lane = *lanes[0];
  lane.places[1] = {1, kPlacedBytes, {}};
  landings.forget_before(lane, 1);
  EXPECT_NE(landings.find(lane, 1, kPlacedBytes), nullptr) << "it is this message's own";
  landings.forget_before(lane, 5);
  EXPECT_EQ(landings.find(lane, 1, kPlacedBytes), nullptr);
}

// So would the places of a lane that has taken messages without places since then, for which nobody posts.
TEST(PutPlaces, CountFromTheNextMessageWhereNoneArePosted) {
  Pair pair(shape_of(1, 4), {});
  RecvFifo& fifo = pair.ends[1].link->recv_fifo(0);
  fifo.posted = fifo.next - 4;
  ASSERT_TRUE(pair.ends[1].link->progress(true));
  EXPECT_EQ(fifo.posted, fifo.next);
}

INSTANTIATE_TEST_SUITE_P(Orders, PutLandingsOver, testing::Bool());

// Rank 0 has a large message for rank 1, and has asked for slots: rank 1 may name places. A stranger does.
class PutPlaceStranger : public testing::Test {
 protected:
  PutPlaceStranger() : pair_(shape_of(1, 4, 100), {}, waiting(60'000)), stream_(pair_, 0, 0) {
    stream_.add(kSlotBytes, Way::Registered);
    pair_.word_delay = 1U << 30;  // rank 1 gets no word
    EXPECT_TRUE(drive(pair_, [&, rounds = 0]() mutable {
      stream_.send_all();
      pair_.take_word(0);
      for (const Offer& word : pair_.ends[1].words) {
        const auto decoded = decode_word(word.bytes, 1, 1);
        const auto* want = decoded ? std::get_if<WantSlots>(&*decoded) : nullptr;
        if (want != nullptr && want->large) names_ = pair_.network.remote_memory(want->places[0].address);
      }
      return ++rounds > 50;
    }));
  }
  void write(std::uint32_t sequence, std::uint32_t bytes, std::uint64_t rails) {
    write_name({sequence, bytes, RailMemories(rails)}, names_.data() + (sequence % 4) * kNameBytes);
  }
  std::string tell(std::uint32_t sequence, std::uint32_t part = 0) {
    pair_.network.forge_told(pair_.ends[0].adapter(), pack({kMostLanes, part, sequence}));
    const auto moved = pair_.ends[0].link->progress(true);
    return moved ? "" : moved.error().message;
  }
  Pair pair_;
  Stream stream_;
  std::span<std::byte> names_;
};

TEST_F(PutPlaceStranger, NamesAreChecked) {
  ASSERT_FALSE(names_.empty());
  const std::string before = "test0 to rank 1: name of a place: ";
  EXPECT_EQ(tell(99), "") << "its message was put already, so it is not read";
  EXPECT_EQ(tell(101, 1), "") << "there is none";
  write(102, kSlotBytes, 1);
  EXPECT_EQ(tell(102), "");
  write(103, kSlotBytes + 1, 1);
  EXPECT_EQ(tell(103), before + fmt::format("bytes is {}, must be at most {} (lane 0)", kSlotBytes + 1, kSlotBytes));
}

TEST_F(PutPlaceStranger, ANameOfAnotherMessageIsRefused) {
  write(105, kSlotBytes, 1);
  EXPECT_EQ(tell(101), "test0 to rank 1: name of a place: sequence is 105, must be 101 (lane 0)");
}

// Few bits let a late name look like one that is far ahead.
TEST_F(PutPlaceStranger, ANameThatIsVeryLateIsNotTaken) {
  ASSERT_FALSE(names_.empty());
  constexpr std::uint32_t kHalf = 1U << 23;
  write(50 - kHalf, kSlotBytes, 1);
  EXPECT_EQ(tell(50 - kHalf), "") << "its message was put already";
  write(50 + kHalf, kSlotBytes, 1);
  EXPECT_NE(tell(50 + kHalf), "") << "this one is far ahead";
}

// Another put writes there at that moment.
TEST_F(PutPlaceStranger, ATornNameIsNotTaken) {
  ASSERT_FALSE(names_.empty());
  write(101, kSlotBytes + 1, 1);  // an error, if it were taken
  names_[(101 % 4) * kNameBytes + 24] ^= std::byte{1};
  EXPECT_EQ(tell(101), "");
}

TEST_F(PutPlaceStranger, ANameTooFarAheadIsRefused) {
  EXPECT_EQ(tell(104), "test0 to rank 1: name of a place: sequence is 104, must be one of 4 from 100 on (lane 0)");
}

TEST_F(PutPlaceStranger, OtherPartsAreRefused) {
  EXPECT_EQ(tell(101, 2), "test0 to rank 1: name of a place: part is 2, must be 0 or 1 (lane 0)");
}

TEST_F(PutPlaceStranger, ANameByNoRailIsRefused) {
  write(101, kSlotBytes, 0);
  EXPECT_EQ(tell(101), "test0 to rank 1: name of a place: rails is 0, must be 1 to 8 (lane 0)");
}

TEST(PutPlaceStrangers, ALaneWithoutNamesIsRefused) {
  Pair pair(shape_of(1, 4), {});
  pair.network.forge_told(pair.ends[0].adapter(), pack({kMostLanes, 0, 0}));
  const auto moved = pair.ends[0].link->progress(true);
  ASSERT_FALSE(moved);
  EXPECT_EQ(moved.error().message, "test0 to rank 1: told word: lane is 0, whose places cannot be named");
}

TEST(PutPlaceStrangers, NamesElsewhereAreRefused) {
  Pair pair(shape_of(1, 4), {});
  const auto say = [&](RailMemories places) {
    const Status taken = pair.ends[0].link->on_word(encode_word(WantSlots{0, true, std::move(places)}));
    return taken ? "" : taken.error().message;
  };
  EXPECT_EQ(say({{4096, 5}}), "");
  EXPECT_EQ(say({{4096, 5}}), "");
  EXPECT_EQ(say({{8192, 5}}), "test0 to rank 1: word: lane 0 takes names elsewhere already");
}

}  // namespace
}  // namespace wreath::put
