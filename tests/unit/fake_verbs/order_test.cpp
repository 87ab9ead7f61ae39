// Tests what is in order and what is not: a message is whole at its immediate, and queue pairs overtake each other.
#include <fcntl.h>

#include <array>
#include <optional>
#include <thread>

#include "tests/unit/fake_verbs/ends.hpp"

using namespace wreath::test;

namespace {

using VerbsOrder = FakeVerbsTest;

constexpr int kPairs = 4;
constexpr std::uint32_t kWrite = 8192;
constexpr std::uint32_t kWrites = 8;
constexpr std::size_t kMessage = std::size_t{kWrite} * kWrites;

// Posts a message of eight writes at one doorbell. The last one tells and is signalled.
void post_message(End& from, const End& to, int pair, std::uint32_t tells) {
  std::array<ibv_sge, kWrites> pieces{};
  std::array<ibv_send_wr, kWrites> requests{};
  const std::size_t begin = static_cast<std::size_t>(pair) * kMessage;
  for (std::size_t i = 0; i < kWrites; ++i) {
    pieces[i] = {from.address(begin + i * kWrite), kWrite, from.region->lkey};
    requests[i].sg_list = &pieces[i];
    requests[i].num_sge = 1;
    requests[i].opcode = IBV_WR_RDMA_WRITE;
    requests[i].next = i + 1 < kWrites ? &requests[i + 1] : nullptr;
    requests[i].wr.rdma.remote_addr = to.address(begin + i * kWrite);
    requests[i].wr.rdma.rkey = to.region->rkey;
  }
  requests.back().opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  requests.back().imm_data = tells;
  requests.back().send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(from.pairs[static_cast<std::size_t>(pair)], requests.data(), &bad), 0);
}

// Sleeps until the channel says that there is an entry.
void sleep_for_entry(End& end) {
  ibv_cq* queue = nullptr;
  void* its = nullptr;
  ASSERT_EQ(VERBS_CALL(ibv_get_cq_event)(end.channel, &queue, &its), 0);
  EXPECT_EQ(queue, end.queue);
  EXPECT_EQ(its, &end);
  VERBS_CALL(ibv_ack_cq_events)(queue, 1);
}

// Takes entries until one is there, and sleeps where there is none.
ibv_wc next_entry(End& end) {
  ibv_wc entry{};
  while (ibv_poll_cq(end.queue, 1, &entry) == 0) {
    EXPECT_EQ(ibv_req_notify_cq(end.queue, 0), 0);
    if (ibv_poll_cq(end.queue, 1, &entry) == 1) return entry;
    sleep_for_entry(end);
  }
  return entry;
}

std::byte fill_of(int round, std::size_t pair) {
  return static_cast<std::byte>(1 + (7 * round + 31 * static_cast<int>(pair)) % 255);
}

bool is_filled(std::span<const std::byte> memory, std::byte with) {
  return memory.front() == with && std::memcmp(memory.data(), memory.data() + 1, memory.size() - 1) == 0;
}

TEST_F(VerbsOrder, AMessageIsWholeAtItsImmediateAndQueuePairsOvertake) {
  constexpr int kRounds = 500;
  EndOptions options;
  options.pairs = kPairs;
  options.bytes = kPairs * kMessage;
  Ends ends(options);
  int overtook = 0;
  for (int i = 0; i < kPairs; ++i) ASSERT_EQ(ends.b.receive(i, 1), 0);
  for (int round = 0; round < kRounds; ++round) {
    // All are posted before any begins, so that the adapter alone decides on the order.
    FakeBehaviour behaviour;
    behaviour.seed = static_cast<std::uint64_t>(round);
    behaviour.paused = true;
    behave(behaviour);
    for (std::size_t i = 0; i < kPairs; ++i) {
      std::fill_n(ends.a.memory.begin() + static_cast<std::ptrdiff_t>(i * kMessage), kMessage, fill_of(round, i));
      post_message(ends.a, ends.b, static_cast<int>(i), static_cast<std::uint32_t>(i));
    }
    behaviour.paused = false;
    behave(behaviour);
    for (std::uint32_t i = 0; i < kPairs; ++i) {
      const ibv_wc entry = next_entry(ends.b);
      ASSERT_EQ(entry.status, IBV_WC_SUCCESS);
      ASSERT_EQ(entry.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
      const std::size_t pair = entry.imm_data;
      ASSERT_EQ(entry.qp_num, ends.b.pairs[pair]->qp_num);
      overtook += pair != i ? 1 : 0;
      ASSERT_TRUE(is_filled(std::span(ends.b.memory).subspan(pair * kMessage, kMessage), fill_of(round, pair)));
      ASSERT_EQ(ends.b.receive(static_cast<int>(pair), 1), 0);
    }
    for (const ibv_wc& entry : ends.a.await(kPairs)) ASSERT_EQ(entry.status, IBV_WC_SUCCESS);
  }
  const FakeCounters counters = fake.counters();
  EXPECT_GT(overtook, 2 * kRounds);
  EXPECT_GT(counters.events, 100U);
  EXPECT_EQ(counters.writes, kRounds * kPairs * kWrites);
  EXPECT_EQ(counters.immediates, kRounds * kPairs);
  EXPECT_EQ(counters.doorbells, kRounds * kPairs);
  EXPECT_EQ(counters.bytes, kRounds * kPairs * kMessage);
  EXPECT_EQ(counters.receives, kRounds * kPairs + kPairs);
  EXPECT_EQ(counters.completions, 2U * kRounds * kPairs);
  EXPECT_EQ(counters.registrations, 2U);
}

TEST_F(VerbsOrder, PiecesOfAWriteArriveOneByOne) {
  EndOptions options;
  options.bytes = 1 << 20;
  Ends ends(options);
  FakeBehaviour slow;
  slow.piece_bytes = 64;
  slow.delay_us = 500;
  behave(slow);
  std::fill(ends.a.memory.begin(), ends.a.memory.end(), std::byte{1});
  ASSERT_EQ(ends.a.write(0, ends.b, 0, 1 << 20), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  ASSERT_EQ(ends.a.write(0, ends.b, 0, 0), 0);
  EXPECT_EQ(ends.a.await(1, std::chrono::milliseconds(0)).size(), 0U);
  EXPECT_LT(fake.counters().writes, 1U);
  ASSERT_EQ(ends.a.modify(0, {}, IBV_QPS_ERR, 0), 0);  // the test need not wait for the rest
  const auto torn = std::count(ends.b.memory.begin(), ends.b.memory.end(), std::byte{1});
  EXPECT_GT(torn, 0);
  EXPECT_LT(torn, 1 << 20);
  EXPECT_EQ(ends.a.await(2).size(), 2U);
}

TEST_F(VerbsOrder, AnArmedQueueCausesOneEventForAnyNumberOfEntries) {
  Ends ends;
  ASSERT_EQ(::fcntl(ends.a.channel->fd, F_SETFL, O_NONBLOCK), 0);
  ASSERT_EQ(ends.a.write(0, ends.b, 0, 64), 0);
  while (fake.counters().writes < 1) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ASSERT_EQ(ibv_req_notify_cq(ends.a.queue, 0), 0);
  pollfd ready{ends.a.channel->fd, POLLIN, 0};
  EXPECT_EQ(::poll(&ready, 1, 20), 0) << "the entry was there before";
  for (int i = 0; i < 3; ++i) ASSERT_EQ(ends.a.write(0, ends.b, 0, 64), 0);
  EXPECT_EQ(::poll(&ready, 1, 5000), 1);
  EXPECT_EQ(ends.a.await(4).size(), 4U);
  sleep_for_entry(ends.a);
  EXPECT_EQ(::poll(&ready, 1, 20), 0);
}

}  // namespace
