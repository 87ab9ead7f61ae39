// Tests what messages cost a GPU: which far words a lane touches, how often and in which order, and how many fences it
// pays.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "src/executor/block/run_lanes.hpp"
#include "src/executor/try_step.hpp"
#include "tests/unit/far_memory/far_memory.hpp"

namespace wreath {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Not;

constexpr std::uint64_t kDevice = 5;
constexpr std::uint32_t kSignature = 77;
constexpr std::uint32_t kElements = 16;
// There are more peers than a lane looks at together.
constexpr std::uint32_t kPeers = 6;

// Records the data that it would move.
struct Mover {
  using Send = DeviceSendFifo;
  using Recv = DeviceRecvFifo;
  static constexpr std::size_t kBlockBytes = 1U << 20;
  static constexpr bool kStreams = false;
  static constexpr bool kCombinesInSlots = true;
  static constexpr bool kLands = false;
  static constexpr bool kTraces = false;
  static constexpr bool kKeepsSources = true;
  static constexpr std::size_t kPulledBytes = 0;

  struct SourceList {
    explicit SourceList(Mover& mover) : data(mover.sources) {}
    const std::byte** data;
  };

  void combine(std::byte*, Form, const std::byte* const* from, int k, Operands, std::size_t) {
    far::tell_of("combine");
    moved.assign(from, from + k);
    meanwhile();
  }
  void copy(std::byte*, const std::byte* from, std::size_t) {
    far::tell_of("copy");
    moved = {from};
    meanwhile();
  }
  void fill(std::byte*, const std::byte* from, std::size_t) {
    far::tell_of("fill");
    moved = {from};
  }
  std::byte* begin_slot(SendFifo& fifo, std::size_t bytes) {
    return fifo.staging + staging_place(fifo, bytes, kLeastRingBytes);
  }
  void end_slot() {}

  const std::byte* sources[kPeers + 1] = {};
  std::vector<const std::byte*> moved;
  // Stands for what other threads do during a move.
  std::function<void()> meanwhile = [] {};
};

std::string numbered(const char* what, std::uint32_t peer) { return what + std::string(" ") + std::to_string(peer); }

// Makes one rank of a device. Its peers are threads of its process: what they publish lies in their memory on the
// device.
class FarMessages : public testing::Test {
 protected:
  FarMessages() : input_(kElements), output_(kElements), theirs_(kPeers, std::vector<float>(kElements)) {
    for (std::uint32_t peer = 0; peer < kPeers; ++peer) make_ends(peer);
    for (auto& end : sends_) targets_.push_back(&end);
    for (auto& end : recvs_) sources_.push_back(&end);
    operation_.geometry.input = operation_.geometry.output = {kElements, kElements};
    operation_.geometry.tile = kElements;
    operation_.geometry.tiles = 1;
    operation_.geometry.element_bytes = operation_.geometry.accumulator_bytes = sizeof(float);
    operation_.buffers[static_cast<int>(Buffer::Input)] = reinterpret_cast<std::byte*>(input_.data());
    operation_.buffers[static_cast<int>(Buffer::Output)] = reinterpret_cast<std::byte*>(output_.data());
    operation_.signature = kSignature;
    operation_.device = kDevice;
    operation_.single_copy_bytes = 1;
    operation_.targets = targets_.data();
    operation_.sources = sources_.data();
    lane_.end = 1;
  }

  // Returns a step whose elements travel as they are.
  Step step(StepOp op, std::uint16_t in_count, std::uint16_t out_count) const {
    Step step{};
    step.op = op;
    step.source_buffer = Buffer::Input;
    step.target_buffer = Buffer::Output;
    step.in_count = in_count;
    step.out_count = out_count;
    step.own_place = in_count;
    step.chunks = 1;
    return step;
  }
  Advance advance(const Step& step) { return try_step(operation_, lane_, mover_, step); }
  std::vector<std::string> events() { return memory_.events(); }

  // Publishes the next message of peer `peer`, with `flags` in its slot.
  void publish_from(std::uint32_t peer, std::uint32_t flags = kSlotReference) {
    SlotHeader& slot = *memory_.near(slots_[peer]);
    slot.signature = kSignature;
    slot.bytes = kElements * sizeof(float);
    slot.flags = flags;
    slot.region = kDeviceAddress;
    slot.offset = reinterpret_cast<std::uint64_t>(theirs_[peer].data());
    set_allocation(slot, {kDevice, 1});
    slot.sequence = recvs_[peer].next;
  }
  void give_up(std::uint32_t peer) { *near_counter(recvs_[peer].owner_aborted) = 1; }
  void take_all(std::uint32_t peer) { *near_counter(sends_[peer].consumed) = sends_[peer].next; }
  const std::byte* data_of(std::uint32_t peer) const {
    return reinterpret_cast<const std::byte*>(theirs_[peer].data());
  }

  far::Memory memory_;
  OperationState operation_;
  LaneState lane_;
  Mover mover_;
  std::vector<DeviceSendFifo> sends_ = std::vector<DeviceSendFifo>(kPeers);
  std::vector<DeviceRecvFifo> recvs_ = std::vector<DeviceRecvFifo>(kPeers);

 private:
  std::uint32_t* near_counter(const Counter* far) const { return &memory_.near(const_cast<Counter*>(far))->value; }

  void make_ends(std::uint32_t peer) {
    DeviceSendFifo& send = sends_[peer];
    // The rank's own headers are only written, so nobody waits for them.
    send.slots = memory_.near(memory_.make<SlotHeader>());
    send.consumed = memory_.make<Counter>();
    send.slot_count = send.staging_count = 1;
    send.slot_bytes = kElements * sizeof(float);
    send.same_process = true;
    memory_.watch(reinterpret_cast<const std::byte*>(send.slots) + sizeof send.slots->sequence,
                  sizeof(SlotHeader) - sizeof send.slots->sequence);
    memory_.name(&send.slots->sequence, numbered("sequence to", peer));
    memory_.name(&send.consumed->value, numbered("consumed of", peer));
    DeviceRecvFifo& recv = recvs_[peer];
    recv.slots = slots_[peer] = memory_.make<SlotHeader>();
    recv.consumed = memory_.make<Counter>();
    recv.owner_aborted = memory_.make<Counter>();
    recv.pulled = memory_.make<PulledMessage>();
    recv.slot_count = 1;
    recv.device = kDevice;
    recv.same_process = true;
    // The name is also that of the sequence, which is the first word of the header.
    memory_.name(recv.slots, numbered("header of", peer));
    memory_.name(&recv.consumed->value, numbered("consumed for", peer));
    memory_.name(&recv.owner_aborted->value, numbered("aborted of", peer));
    memory_.name(&recv.pulled->sequence, numbered("pulled of", peer));
    // The name is also that of the place where the answer begins.
    memory_.name(&recv.pulled->wanted, numbered("ask of", peer));
    for (std::uint32_t* const next : {&send.next, &recv.next, near_counter(send.consumed)}) *next = 1;
  }

  SlotHeader* slots_[kPeers] = {};
  std::vector<float> input_;
  std::vector<float> output_;
  std::vector<std::vector<float>> theirs_;
  std::vector<SendFifo*> targets_;
  std::vector<RecvFifo*> sources_;
};

TEST_F(FarMessages, CostALookAnAcquireAHeaderAndAFence) {
  publish_from(0);
  ASSERT_EQ(advance(step(StepOp::Recv, 1, 0)), Advance::Done);
  EXPECT_THAT(events(), ElementsAre("look at header of 0", "fence", "read header of 0", "load aborted of 0", "copy",
                                    "fence", "load aborted of 0", "tell consumed for 0"));
  EXPECT_EQ(mover_.moved, std::vector{data_of(0)});
}

TEST_F(FarMessages, CostNoFenceWhileNothingIsHere) {
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(advance(step(StepOp::Recv, 1, 0)), Advance::Blocked);
    EXPECT_THAT(events(), ElementsAre("look at header of 0"));
  }
  sends_[0].next = 2;
  ASSERT_EQ(advance(step(StepOp::Send, 0, 1)), Advance::Blocked);
  EXPECT_THAT(events(), ElementsAre("look at consumed of 0"));
}

// The step makes a sum of all peers' messages and sends it to all: it costs three fences for any number of peers.
TEST_F(FarMessages, ToAndFromAllCostAsManyFencesAsOne) {
  for (std::uint32_t peer = 0; peer < kPeers; ++peer) publish_from(peer);
  // The half that sends is a turn of its own.
  lane_.end = 2;
  const Step sum = step(StepOp::LoadReduceSend, kPeers, kPeers);
  ASSERT_EQ(advance(sum), Advance::Advanced);
  std::vector<std::string> expected;
  const auto all = [&](const std::string& event) {
    for (std::uint32_t peer = 0; peer < kPeers; ++peer) expected.push_back(event + std::to_string(peer));
  };
  all("look at header of ");
  // The lane looks at four headers at once.
  for (int i = 0; i < 2; ++i) expected.emplace_back("look at header of 5");
  expected.emplace_back("fence");
  for (std::uint32_t peer = 0; peer < kPeers; ++peer) {
    expected.push_back(numbered("read header of", peer));
    expected.push_back(numbered("load aborted of", peer));
  }
  expected.insert(expected.end(), {"combine", "fence"});
  all("load aborted of ");
  all("tell consumed for ");
  EXPECT_THAT(events(), ElementsAreArray(expected));
  ASSERT_EQ(mover_.moved.size(), kPeers + 1);
  for (std::uint32_t peer = 0; peer < kPeers; ++peer) EXPECT_EQ(mover_.moved[peer], data_of(peer));

  ASSERT_EQ(advance(sum), Advance::Advanced);
  expected.clear();
  all("look at consumed of ");
  expected.insert(expected.end(), {"fence", "fence"});
  all("tell sequence to ");
  EXPECT_THAT(events(), ElementsAreArray(expected));
}

TEST_F(FarMessages, AreReadOnceThoughOthersComeLater) {
  const Step sum = step(StepOp::LoadReduce, 3, 0);
  publish_from(0);
  ASSERT_EQ(advance(sum), Advance::Blocked);
  EXPECT_THAT(events(), ElementsAre("look at header of 0", "look at header of 1", "look at header of 2",
                                    "look at header of 2", "fence", "read header of 0", "load aborted of 0"));
  publish_from(2);
  ASSERT_EQ(advance(sum), Advance::Blocked);
  events();
  publish_from(1);
  ASSERT_EQ(advance(sum), Advance::Done);
  const auto seen = events();
  EXPECT_EQ(std::count(seen.begin(), seen.end(), "read header of 0"), 0);
  EXPECT_EQ(std::count(seen.begin(), seen.end(), "read header of 1"), 1);
  EXPECT_EQ(std::count(seen.begin(), seen.end(), "read header of 2"), 1);
  ASSERT_EQ(mover_.moved.size(), 4U);
  for (std::uint32_t peer = 0; peer < 3; ++peer) EXPECT_EQ(mover_.moved[peer], data_of(peer));
}

// Where one target has no room, the lane remembers the room of the targets that it looked at before.
TEST_F(FarMessages, AreToldWhenTheLastTargetHasRoom) {
  const Step send = step(StepOp::Send, 0, 3);
  sends_[1].next = 2;
  ASSERT_EQ(advance(send), Advance::Blocked);
  EXPECT_THAT(events(), ElementsAre("look at consumed of 0", "look at consumed of 1", "fence"));
  ASSERT_EQ(advance(send), Advance::Blocked);
  EXPECT_THAT(events(), ElementsAre("look at consumed of 1"));
  take_all(1);
  ASSERT_EQ(advance(send), Advance::Done);
  EXPECT_THAT(events(), ElementsAre("look at consumed of 1", "look at consumed of 2", "fence", "fence",
                                    "tell sequence to 0", "tell sequence to 1", "tell sequence to 2"));
}

// The calls touch the words of one message alone.
TEST_F(FarMessages, HaveFencesBesideEachLookAndTell) {
  EXPECT_TRUE(has_credit(sends_[0]));
  EXPECT_THAT(events(), ElementsAre("look at consumed of 0", "fence"));
  next_slot(sends_[0]).bytes = 7;
  publish(sends_[0]);
  EXPECT_THAT(events(), ElementsAre("fence", "tell sequence to 0"));
  EXPECT_EQ(peek(recvs_[0]), nullptr);
  EXPECT_THAT(events(), ElementsAre("look at header of 0"));
  publish_from(0);
  EXPECT_NE(peek(recvs_[0]), nullptr);
  EXPECT_THAT(events(), ElementsAre("look at header of 0", "fence"));
  consume(recvs_[0]);
  EXPECT_THAT(events(), ElementsAre("fence", "tell consumed for 0"));
}

struct OneBlock {
  static unsigned block() { return 0; }
  static void pause() {}
  static std::uint64_t clock_ns() { return 0; }
};

TEST_F(FarMessages, AreAwaitedByOneFenceWhenAllWereRead) {
  const Step send = step(StepOp::Send, 0, 3);
  const std::uint32_t stop = 0;
  LaneRun run{};
  run.operation = operation_;
  run.operation.steps = &send;
  OneBlock block;
  Patience<OneBlock> patience(block, {.stop = &stop, .stall_ns = 0, .look_limit = 1});
  EXPECT_TRUE(await_readers(run, lane_, patience));
  EXPECT_THAT(events(),
              ElementsAre("look at consumed of 0", "look at consumed of 1", "look at consumed of 2", "fence"));
  ++sends_[1].next;
  EXPECT_FALSE(await_readers(run, lane_, patience));
  EXPECT_THAT(events(), ElementsAre("look at consumed of 0", "look at consumed of 1"));
}

// The lane does not look at data that its owner may have freed.
TEST_F(FarMessages, AreLeftAloneWhereTheirOwnerGaveUpBefore) {
  publish_from(0);
  give_up(0);
  ASSERT_EQ(advance(step(StepOp::Recv, 1, 0)), Advance::Failed);
  EXPECT_EQ(lane_.fault, Fault::OwnerAborted);
  EXPECT_THAT(mover_.moved, IsEmpty());
}
TEST_F(FarMessages, AreLeftAloneWhereTheirOwnerGaveUpMeanwhile) {
  const Step sum = step(StepOp::LoadReduce, 2, 0);
  publish_from(0);
  ASSERT_EQ(advance(sum), Advance::Blocked);
  give_up(0);
  publish_from(1);
  ASSERT_EQ(advance(sum), Advance::Failed);
  EXPECT_EQ(lane_.fault, Fault::OwnerAborted);
  EXPECT_EQ(lane_.fault_source, 0);
  EXPECT_THAT(mover_.moved, IsEmpty());
}

TEST_F(FarMessages, FailWhereTheirOwnerGaveUpWhileTheyWereRead) {
  publish_from(0);
  mover_.meanwhile = [this] { give_up(0); };
  ASSERT_EQ(advance(step(StepOp::Recv, 1, 0)), Advance::Failed);
  EXPECT_EQ(lane_.fault, Fault::OwnerAborted);
}

TEST_F(FarMessages, FailWhereOneOwnerGaveUpWhileItsMessageWasReadBesideOthers) {
  publish_from(0);
  publish_from(1, 0);
  mover_.meanwhile = [this] { give_up(0); };
  ASSERT_EQ(advance(step(StepOp::LoadReduce, 2, 0)), Advance::Failed);
  EXPECT_EQ(lane_.fault, Fault::OwnerAborted);
  EXPECT_EQ(lane_.fault_source, 0);
}

// Data that was put into a slot is there, whatever became of its sender.
TEST_F(FarMessages, AreGoodInSlotsOfAnOwnerThatGaveUp) {
  const Step sum = step(StepOp::LoadReduce, 2, 0);
  publish_from(0);
  publish_from(1, 0);
  give_up(1);
  ASSERT_EQ(advance(sum), Advance::Done);
  EXPECT_EQ(lane_.fault, Fault::None);
}

TEST_F(FarMessages, AreAskedForOnceEach) {
  // The data is in another device's memory.
  recvs_[0].device = kDevice + 1;
  PulledMessage& pulled = *memory_.near(recvs_[0].pulled);
  for (int message = 0; message < 2; ++message) {
    publish_from(0);
    ASSERT_EQ(advance(step(StepOp::Recv, 1, 0)), Advance::Blocked);
    EXPECT_THAT(events(), IsSupersetOf({"look at pulled of 0", "release ask of 0"}));
    EXPECT_EQ(pulled.wanted, recvs_[0].next);
    ASSERT_EQ(advance(step(StepOp::Recv, 1, 0)), Advance::Blocked);
    EXPECT_THAT(events(), Not(Contains("release ask of 0")));
    pulled.data = data_of(1);
    pulled.sequence = pulled.wanted;
    ASSERT_EQ(advance(step(StepOp::Recv, 1, 0)), Advance::Done);
    EXPECT_THAT(events(), ElementsAre("look at header of 0", "fence", "read header of 0", "load aborted of 0",
                                      "look at pulled of 0", "fence", "read ask of 0", "copy", "fence",
                                      "load aborted of 0", "tell consumed for 0"));
    EXPECT_EQ(mover_.moved, std::vector{data_of(1)});
    lane_ = LaneState();
    lane_.end = 1;
  }
}

}  // namespace
}  // namespace wreath
