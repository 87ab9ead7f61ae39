// Links take each message the way that is right for it, at the agreed cost, within windows, and wake who sleeps.
#include "src/put/link.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <thread>

#include "src/fifo/access.hpp"
#include "tests/unit/put/pair.hpp"

namespace wreath::put {
namespace {

TEST(PutLink, OfAPolledAdapterNeedsProgressUntilItsPutsHaveEnded) {
  for (const bool polled : {false, true}) {
    Whims whims;
    whims.limits.polled = polled;
    Pair pair(shape_of(1, 2), whims);
    const PutLink& link = *pair.ends[0].link;
    Stream stream(pair, 0, 0);
    stream.add(100, Way::Ordinary);
    EXPECT_FALSE(link.needs_progress());
    stream.send_all();
    ASSERT_TRUE(pair.ends[0].link->progress(false));
    EXPECT_FALSE(link.send_blocked()) << "the adapter has it";
    EXPECT_EQ(link.needs_progress(), polled);
    EXPECT_TRUE(carry(pair, stream)) << pair.error.message;
    EXPECT_TRUE(drive(pair, [&] { return !link.needs_progress(); })) << pair.error.message;
  }
}

TEST(PutLink, AMessageThatAnotherLinkStagedIsNotCopiedAgain) {
  Pair pair(shape_of(2, 2), {});
  Stream first(pair, 0, 0);
  SendFifo& other = pair.ends[0].link->send_fifo(1);
  RecvFifo& awaits = pair.ends[1].link->recv_fifo(1);
  std::byte* const data = stage(pair.ends[0].link->send_fifo(0));
  for (std::size_t i = 0; i < kSlotBytes; ++i) data[i] = pattern(1, 0, i);
  SlotHeader& slot = next_slot(other);
  slot.epoch = kTestEpoch;
  slot.bytes = kSlotBytes;
  slot.region = kLocalAddress;
  slot.offset = reinterpret_cast<std::uintptr_t>(data);
  publish(other);
  ASSERT_TRUE(drive(pair, [&] { return peek(awaits) != nullptr; })) << pair.error.message;
  EXPECT_EQ(pair.ends[0].link->counts().copied, 0U);
  const std::byte* got = locate(awaits, *peek(awaits)).data;
  for (std::size_t i = 0; i < kSlotBytes; i += 100) EXPECT_EQ(got[i], pattern(1, 0, i));
}

TEST(PutLink, PutsOfARoundNeedOneDoorbell) {
  Pair pair(shape_of(4, 4), {});
  std::vector<Stream> streams;
  for (std::uint16_t lane = 0; lane < 4; ++lane) streams.emplace_back(pair, 0, lane);
  const auto send = [&](std::size_t count) {
    for (Stream& stream : streams) {
      for (std::size_t i = 0; i < count; ++i) stream.add(100, Way::Ordinary);
      stream.send_all();
    }
  };
  const auto all_seen = [&] {
    bool all = true;
    for (Stream& stream : streams) {
      stream.take_all();
      all = all && stream.done();
    }
    return all;
  };
  send(1);
  ASSERT_TRUE(drive(pair, all_seen));
  const std::uint64_t before = pair.ends[0].link->counts().doorbells;
  send(3);
  ASSERT_TRUE(pair.ends[0].link->progress(true));
  EXPECT_EQ(pair.ends[0].link->counts().doorbells - before, 1U);
  EXPECT_TRUE(drive(pair, all_seen));
}

TEST(PutLink, MemoryIsGivenBackWhenTheAdapterNoLongerReadsIt) {
  Pair pair(shape_of(1, 2), {});
  Stream stream(pair, 0, 0);
  stream.add(kSlotBytes, Way::Registered);
  ASSERT_TRUE(carry(pair, stream));
  stream.add(kSlotBytes, Way::Registered);
  stream.send_all();
  const auto& link = *pair.ends[0].link;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(pair.ends[0].link->progress(true));
  EXPECT_EQ(link.in_flight(), kPutHeaderBytes + kSlotBytes);
  EXPECT_TRUE(link.closing_loses_data());
  while (pair.network.step()) {
  }
  ASSERT_TRUE(pair.ends[0].link->progress(true));
  EXPECT_EQ(link.in_flight(), 0U);
  EXPECT_FALSE(link.closing_loses_data());
}

TEST(PutLink, FourTimesAsManySmallMessagesAsSlotsMayBeUnread) {
  struct Load {
    std::size_t bytes;
    std::uint32_t room;
  };
  for (const std::uint32_t slots : {1U, 4U}) {
    for (const Load& load : {Load{0, 4 * slots}, Load{kCopiedBytes, 4 * slots}, Load{kSlotBytes, slots}}) {
      const std::uint32_t room = load.room;
      Pair pair(shape_of(1, slots), {});
      Stream stream(pair, 0, 0);
      for (std::uint32_t i = 0; i < 8 * slots; ++i) stream.add(load.bytes, Way::Staged);
      for (int i = 0; i < 1000; ++i) {
        stream.send_all();
        ASSERT_TRUE(pair.round());
      }
      // As many as slots wait at the sender.
      EXPECT_EQ(stream.sent(), room + slots);
      // One message that is read makes room for one.
      for (std::uint32_t i = 1; i <= room; ++i) {
        stream.take_one();
        const std::size_t expected = std::min<std::size_t>(8 * slots, stream.seen() + room + slots);
        EXPECT_TRUE(drive(pair,
                          [&] {
                            stream.send_all();
                            return stream.sent() == expected || stream.seen() * 2 < room;
                          }))
            << slots << " slots, " << load.bytes << " bytes, message " << i;
      }
    }
  }
}

TEST(PutLink, CreditsAreToldOnlyWhenHalfIsOwedOrTheSenderMayWait) {
  Pair pair(shape_of(1, 4), {});
  Stream stream(pair, 0, 0);
  for (int i = 0; i < 7; ++i) stream.add(8, Way::Staged);
  ASSERT_TRUE(carry(pair, stream));
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(pair.round());
  EXPECT_EQ(pair.ends[1].link->counts().credits, 0U);
  stream.add(8, Way::Staged);
  ASSERT_TRUE(carry(pair, stream));
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(pair.round());
  EXPECT_EQ(pair.ends[1].link->counts().credits, 1U);
}

TEST(PutLink, ASlowLaneHoldsUpNoOther) {
  for (const std::uint32_t slots : {1U, 2U, 8U}) {
    Pair pair(shape_of(2, slots), {});
    Stream slow(pair, 0, 0);
    Stream fast(pair, 0, 1);
    for (int i = 0; i < 300; ++i) {
      slow.add(kSlotBytes, Way::Staged);
      fast.add(kSlotBytes, Way::Staged);
    }
    EXPECT_TRUE(drive(pair, [&] {
      slow.send_all();
      fast.send_all();
      fast.take_all();
      return fast.done();
    })) << slots;
    EXPECT_LE(slow.sent(), 2 * slots);
  }
}

TEST(PutLink, SlotsOfALaneAreMadeWhenItsFirstMessageNeedsThem) {
  Pair pair(shape_of(16, 4), {});
  const std::size_t at_first = pair.network.registrations();
  EXPECT_EQ(at_first, 2U);  // lane 0's slots for small messages, at each end
  Stream small(pair, 0, 0);
  small.add(8, Way::Ordinary);
  ASSERT_TRUE(carry(pair, small));
  EXPECT_TRUE(pair.ends[0].words.empty() && pair.ends[1].words.empty());
  EXPECT_EQ(pair.network.registrations(), at_first);
  small.add(kSlotBytes, Way::Staged);
  ASSERT_TRUE(carry(pair, small));
  EXPECT_EQ(pair.network.registrations(),
            at_first + 4);  // large slots there, staging here, names of places at both ends
}

TEST(PutLink, WordsThatWaitHoldUpOnlyTheirLane) {
  Pair pair(shape_of(2, 2), {});
  Stream first(pair, 0, 0);
  Stream second(pair, 0, 1);
  second.add(8, Way::Ordinary);
  second.send_all();
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(pair.ends[0].link->progress(true));
  EXPECT_GT(pair.ends[0].link->in_flight(), 0U);
  first.add(8, Way::Ordinary);
  first.send_all();
  ASSERT_TRUE(pair.ends[0].link->progress(true));
  while (pair.network.step()) {
  }
  ASSERT_TRUE(pair.ends[1].link->progress(true));
  first.take_all();
  EXPECT_TRUE(first.done());
  EXPECT_FALSE(second.done());
  EXPECT_TRUE(carry(pair, second));
}

// Each end sleeps on its descriptor when nothing moves. Only the adapter or a word may wake it.
TEST(PutLink, SleepersAreWokenByMessagesAndByCredit) {
  for (const bool ordered : {true, false}) {
    Whims whims;
    whims.limits.ordered = ordered;
    Pair pair(shape_of(1, 1), whims);
    Stream stream(pair, 0, 0);
    constexpr int kMessages = 2000;
    for (int i = 0; i < kMessages; ++i) stream.add(i % 3 == 0 ? kSlotBytes : 8, Way::Staged);
    {  // The first messages need words.
      for (std::size_t i = 0; i < 2; ++i)
        ASSERT_TRUE(drive(pair, [&] {
          stream.send_all();
          stream.take_all();
          return stream.seen() > 4;
        }));
    }
    std::atomic<bool> over = false;
    std::atomic<int> slept_too_long = 0;
    std::thread network([&] {
      while (!over) {
        if (!pair.network.step()) std::this_thread::yield();
      }
    });
    const auto run = [&](int end, auto act, auto done) {
      PutLink& link = *pair.ends[end].link;
      while (!done() && !over) {
        act();
        const auto moved = link.progress(true);
        if (!moved) over = true;
        if (!moved || *moved > 0 || done()) continue;
        if (!link.arm()) continue;
        act();
        const auto again = link.progress(true);
        if (!again || *again > 0 || done()) continue;
        pollfd entry{link.descriptor(), POLLIN, 0};
        if (::poll(&entry, 1, 5000) == 0) over = (++slept_too_long, true);
      }
    };
    std::thread receiver([&] {
      run(
          1, [&] { stream.take_all(); }, [&] { return stream.done(); });
    });
    run(
        0, [&] { stream.send_all(); },
        [&] { return stream.sent() == kMessages && pair.ends[0].link->in_flight() == 0; });
    receiver.join();
    over = true;
    network.join();
    EXPECT_EQ(slept_too_long, 0);
    EXPECT_EQ(stream.wrong(), "");
    EXPECT_TRUE(stream.done());
  }
}

// The call must not end before, since nothing would put the message then.
TEST(PutLink, AMessageThatAFullAdapterDidNotTakeHoldsTheCall) {
  Whims whims;
  whims.full_chance = 1;
  Pair pair(shape_of(1, 4), whims);
  Stream stream(pair, 0, 0);
  for (int i = 0; i < 3; ++i) stream.add(8, Way::Ordinary);
  stream.send_all();
  ASSERT_TRUE(pair.ends[0].link->progress(true));
  EXPECT_EQ(pair.ends[0].link->in_flight(), 0U);
  EXPECT_TRUE(pair.ends[0].link->send_blocked());
  EXPECT_FALSE(pair.ends[0].link->arm());
  ASSERT_TRUE(carry(pair, stream));
  EXPECT_FALSE(pair.ends[0].link->send_blocked());
}

TEST(PutLink, AClosedEndHasPutWhatItGaveBack) {
  Pair pair(shape_of(1, 4), {});
  Stream stream(pair, 0, 0);
  for (int i = 0; i < 4; ++i) stream.add(200, Way::Ordinary);
  stream.send_all();
  ASSERT_TRUE(pair.ends[0].link->progress(true));
  EXPECT_EQ(pair.ends[0].link->in_flight(), 0U);
  std::atomic<bool> over = false;
  std::thread network([&] {
    while (!over) {
      if (!pair.network.step()) std::this_thread::yield();
    }
  });
  pair.ends[0].link.reset();
  over = true;
  network.join();
  ASSERT_TRUE(pair.ends[1].link->progress(true));
  stream.take_all();
  EXPECT_TRUE(stream.done());
  EXPECT_EQ(pair.network.violations(), 0) << pair.network.violation();
}

// The peer may have left. Then credit would be waited for until the adapter gives it up.
TEST(PutLink, AClosedEndWaitsForNoCredit) {
  Pair pair(shape_of(1, 1), {});
  Stream stream(pair, 0, 0);
  for (int i = 0; i < 2; ++i) stream.add(8, Way::Ordinary);
  ASSERT_TRUE(drive(pair, [&] {
    stream.send_all();
    stream.take_all();
    return stream.done();
  }));
  ASSERT_TRUE(pair.ends[1].link->progress(true));
  ASSERT_EQ(pair.ends[1].link->counts().credits, 1U);
  const int polls = pair.ends[1].adapter().polls;
  pair.ends[1].link.reset();
  EXPECT_LT(pair.ends[1].adapter().polls - polls, 10);
}

TEST(PutLink, AStoppedLinkReadsNoMemoryAnyMore) {
  Whims whims;
  whims.stop_chance = 3;
  Pair pair(shape_of(1, 4), whims);
  Stream stream(pair, 0, 0);
  stream.add(kSlotBytes, Way::Registered);
  ASSERT_TRUE(carry(pair, stream));
  Memory memory = allocate(kSlotBytes).value();
  SendFifo& fifo = pair.ends[0].link->send_fifo(0);
  SlotHeader& slot = next_slot(fifo);
  slot.epoch = kTestEpoch;
  slot.bytes = kSlotBytes;
  slot.region = kLocalAddress;
  slot.offset = reinterpret_cast<std::uintptr_t>(memory.data());
  publish(fifo);
  ASSERT_TRUE(pair.ends[0].link->progress(true));
  int calls = 1;
  while (!pair.ends[0].link->stop()) {
    EXPECT_EQ(pair.ends[0].link->held_by(), "test0");
    ASSERT_LT(++calls, 1000);
  }
  EXPECT_EQ(pair.ends[0].link->held_by(), "");
  memory = Memory();
  while (pair.network.step()) {
  }
  EXPECT_EQ(pair.network.violations(), 0) << pair.network.violation();
  EXPECT_EQ(pair.ends[0].link->progress(true).error().code, ErrorCode::Aborted);
}

TEST(PutLink, ASlotThatNamesNoLocalMemoryIsOurOwnMistake) {
  Pair pair(shape_of(1, 1), {});
  SendFifo& fifo = pair.ends[0].link->send_fifo(0);
  SlotHeader& slot = next_slot(fifo);
  slot.bytes = 8;
  slot.region = 3;
  publish(fifo);
  const auto moved = pair.ends[0].link->progress(true);
  ASSERT_FALSE(moved);
  EXPECT_EQ(moved.error().code, ErrorCode::InvalidUsage);
  EXPECT_EQ(moved.error().failed_rank, -1);
}

// Rank 0 has links to two peers over one adapter.
TEST(PutLink, EventsReachTheLinksOfTheirChannels) {
  TestNetwork network({});
  struct Rank3 {
    std::shared_ptr<PutPort> port;
    std::unique_ptr<Transport> transport;
  } ranks[3];
  const FifoShape shape = shape_of(1, 4);
  for (int i = 0; i < 3; ++i) {
    ranks[i].port = std::make_shared<PutPort>(network.make_adapter(fmt::format("test{}", i)));
    TransportContext context{};
    context.self = {.rank = i, .process = 1, .host = 1};
    context.ranks = 3;
    context.shape = shape;
    ranks[i].transport = PutTransport::make(ranks[i].port, context, {}).value();
  }
  std::unique_ptr<Link> links[3][3];
  for (const auto& [a, b] : {std::pair{0, 1}, std::pair{0, 2}}) {
    const Endpoint ends[2] = {{.rank = a, .process = 1, .host = 1}, {.rank = b, .process = 1, .host = 1}};
    Offer of_a = ranks[a].transport->offer(ends[1]).value();
    Offer of_b = ranks[b].transport->offer(ends[0]).value();
    links[a][b] = ranks[a].transport->connect(ends[1], std::move(of_b)).value();
    links[b][a] = ranks[b].transport->connect(ends[0], std::move(of_a)).value();
  }
  const std::byte data[8] = {std::byte{9}};
  SendFifo& fifo = links[2][0]->send_fifo(0);
  SlotHeader& slot = next_slot(fifo);
  slot.epoch = kTestEpoch;
  slot.bytes = 8;
  slot.region = kLocalAddress;
  slot.offset = reinterpret_cast<std::uintptr_t>(data);
  publish(fifo);
  ASSERT_TRUE(links[2][0]->wire()->progress(true));
  while (network.step()) {
  }
  RecvFifo& awaits = links[0][2]->recv_fifo(0);
  ASSERT_EQ(links[0][1]->wire()->progress(true).value(), 0U);  // it takes the event of the other link
  ASSERT_NE(peek(awaits), nullptr);
  EXPECT_EQ(locate(awaits, *peek(awaits)).data[0], std::byte{9});
  EXPECT_GT(links[0][2]->wire()->progress(true).value(), 0U);
}

}  // namespace
}  // namespace wreath::put
