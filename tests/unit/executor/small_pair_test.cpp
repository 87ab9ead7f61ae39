// Tests small collectives of two ranks over a wire, with ranks and a pump that take turns in one thread.
#include "src/executor/small_pair.hpp"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <random>
#include <vector>

#include "src/base/memory_order.hpp"
#include "src/fifo/access.hpp"
#include "src/fifo/local_fifo.hpp"
#include "tests/unit/executor/small_walk.hpp"

namespace wreath {
namespace {

constexpr FifoShape kShape{.lanes = 1, .slot_count = 4, .slot_bytes = 64 << 10, .first_sequence = 0xFFFF'FFFBU,
                           .epoch = 3};

// One end of a wire, whose pump takes messages when it is told to.
struct End {
  explicit End(std::uint32_t landings) : landing(std::max<std::uint32_t>(landings, 1)) {
    if (landings == 0) return;
    lane.recv.landing = landing.data();
    lane.recv.landings = landings;
  }

  LocalFifos fifos{kShape, kShape};
  LocalLane lane{fifos, 0, kShape, kShape};
  std::vector<Landing> landing;
  std::vector<std::vector<std::byte>> staging = std::vector<std::vector<std::byte>>(kShape.slot_count);
  std::uint32_t landed = 0;
};

// Carries the next message of `from`, if there is one and `to` has room. It goes where `to` wants it, if that is known.
void carry(End& from, End& to) {
  const std::uint32_t next = from.lane.shared.send_consumed->value;
  const std::size_t at = next & (kShape.slot_count - 1);
  const SlotHeader& slot = from.lane.shared.send_slots[at];
  if (slot.sequence != next || next - to.lane.shared.recv_consumed->value == kShape.slot_count) return;
  const std::byte* const data = address_of(slot);
  to.staging[at].assign(data, data + slot.bytes);
  const std::byte* place = to.staging[at].data();
  const Landing& wanted = to.landing[next & (to.landing.size() - 1)];
  if (wanted.target != nullptr && wanted.sequence == next && wanted.bytes == slot.bytes) {
    std::copy_n(place, slot.bytes, wanted.target);
    place = wanted.target;
    ++to.landed;
  }
  to.lane.publish(next, slot, place);
  store_release(from.lane.shared.send_consumed->value, next + 1);
}

struct Wire {
  // The pump posts no places (0), or so many.
  explicit Wire(std::uint32_t landings) : ends{End(landings), End(landings)} {}
  std::array<End, 2> ends;
};

class Exchange {
 public:
  Exchange(int rank, Wire& wire) : rank_(rank), wire_(&wire), pair_(rank, own().lane.send, own().lane.recv, 3) {}
  void start(const Call& call, std::uint32_t signature) {
    pair_.start(SmallPart(call, rank_, 2), call.input, call.output, signature);
  }
  // Does the same as a driver: the call is over when the wire has taken all, too.
  Advance run() {
    const Advance advanced = pair_.run();
    if (random_() % 3 != 0) carry(own(), other());
    if (random_() % 3 != 0) carry(other(), own());
    return advanced == Advance::Done && !drained(own().lane.send) ? Advance::Blocked : advanced;
  }
  const SmallPair& pair() const { return pair_; }

 private:
  End& own() const { return wire_->ends[static_cast<std::size_t>(rank_)]; }
  End& other() const { return wire_->ends[static_cast<std::size_t>(1 - rank_)]; }

  int rank_;
  Wire* wire_;
  SmallPair pair_;
  std::minstd_rand random_;
};

struct Wired {
  explicit Wired(std::uint32_t landings) : wire(std::make_unique<Wire>(landings)) {
    for (const int rank : {0, 1}) exchanges.emplace_back(rank, *wire);
  }
  std::unique_ptr<Wire> wire;
  std::vector<Exchange> exchanges;
};

TEST(SmallPair, EveryCollectiveMeansWhatItSays) {
  std::mt19937 random(3);
  for (const std::uint32_t landings : {0U, 1U, 4U}) {
    Walk walk(mixed_cases(2, kPairMessageBytes, random), Wired(landings));
    walk.run(landings);
    if (HasFatalFailure()) return;
  }
}

TEST(SmallPair, AMessageLandsWhereItWouldBeCopied) {
  for (const std::uint32_t landings : {1U, 4U}) {
    for (const Collective collective : {Collective::AllGather, Collective::AllReduce}) {
      Wired wired(landings);
      std::vector<float> input(4, 1.0F);
      std::vector<float> output(8);
      std::vector<float> other(8);
      wired.exchanges[0].start(call_of({collective, 0, 4}, input, output), 5);
      wired.exchanges[1].start(call_of({collective, 0, 4}, input, other), 5);
      while (wired.exchanges[0].run() != Advance::Done) static_cast<void>(wired.exchanges[1].run());
      EXPECT_EQ(wired.wire->ends[0].landed, collective == Collective::AllGather ? 1U : 0U);
    }
  }
}

// A rank that is ahead brings its message before the wire takes this rank's own.
TEST(SmallPair, ASumInPlaceIsWrittenOnceTheWireHasTakenTheInput) {
  Wire wire(1);
  SmallPair here(0, wire.ends[0].lane.send, wire.ends[0].lane.recv, 3);
  SmallPair there(1, wire.ends[1].lane.send, wire.ends[1].lane.recv, 3);
  std::vector<float> mine{1, 2};
  std::vector<float> theirs{10, 20};
  const Case test{Collective::AllReduce, 0, 2};
  here.start(SmallPart(call_of(test, mine, mine), 0, 2), reinterpret_cast<const std::byte*>(mine.data()),
             reinterpret_cast<std::byte*>(mine.data()), 5);
  there.start(SmallPart(call_of(test, theirs, theirs), 1, 2), reinterpret_cast<const std::byte*>(theirs.data()),
              reinterpret_cast<std::byte*>(theirs.data()), 5);
  carry(wire.ends[1], wire.ends[0]);
  EXPECT_EQ(here.run(), Advance::Blocked);
  EXPECT_EQ(mine, (std::vector<float>{1, 2}));
  carry(wire.ends[0], wire.ends[1]);
  EXPECT_EQ(here.run(), Advance::Done);
  EXPECT_EQ(there.run(), Advance::Done);
  EXPECT_EQ(mine, (std::vector<float>{11, 22}));
  EXPECT_EQ(theirs, mine);
  EXPECT_EQ(here.run(), Advance::Done) << "the driver may ask again";
  EXPECT_EQ(mine, (std::vector<float>{11, 22}));
}

TEST(SmallPair, APeerInAnotherCallIsNoticed) {
  for (const auto& [signature, count] : {std::pair(6U, 2U), std::pair(5U, 1U)}) {
    Wired wired(1);
    std::vector<float> data(2, 1.0F);
    std::vector<float> output(4);
    wired.exchanges[0].start(call_of({Collective::AllGather, 0, 2}, data, output), 5);
    wired.exchanges[1].start(call_of({Collective::AllGather, 0, count}, data, output), signature);
    Advance advanced = Advance::Blocked;
    for (int turn = 0; turn < 100 && advanced == Advance::Blocked; ++turn) advanced = wired.exchanges[0].run();
    EXPECT_EQ(advanced, Advance::Failed) << signature;
  }
}

// A root has nobody to wait for but its wire, which takes no more than the peer has room for.
TEST(SmallPair, ARootRunsAheadAsFarAsThereAreSlots) {
  Wire wire(1);
  SmallPair root(0, wire.ends[0].lane.send, wire.ends[0].lane.recv, 3);
  std::vector<float> data(2, 1.0F);
  const SmallPart part(call_of({Collective::Broadcast, 0, 2}, data, data), 0, 2);
  std::uint32_t calls = 0;
  for (; calls < 100; ++calls) {
    root.start(part, reinterpret_cast<const std::byte*>(data.data()), reinterpret_cast<std::byte*>(data.data()), 5);
    EXPECT_FALSE(root.waits());
    if (root.run() != Advance::Done) break;
    EXPECT_EQ(root.sent_bytes(), sizeof(float) * data.size());
  }
  EXPECT_EQ(calls, kShape.slot_count);
  EXPECT_EQ(root.sent_bytes(), 0U);
  carry(wire.ends[0], wire.ends[1]);
  EXPECT_EQ(root.run(), Advance::Done);
}

}  // namespace
}  // namespace wreath
