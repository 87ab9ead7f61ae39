// Tests each fault once: what the sender, the receiver and the port say of it, and how soon.
#include <array>
#include <thread>

#include "tests/unit/fake_verbs/ends.hpp"

using namespace wreath::test;
using std::chrono::milliseconds;

namespace {

using VerbsFaults = FakeVerbsTest;

milliseconds since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - begin);
}

TEST_F(VerbsFaults, LostPacketsEndARequestAfterItsRetries) {
  EndOptions options;
  options.timeout = 12;  // 17 ms
  options.retry_cnt = 3;
  Ends ends(options);
  fake.lose(1, 1000);
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(ends.a.write(0, ends.b, 0, 64), 0);
  ASSERT_EQ(ends.a.write(0, ends.b, 0, 64), 0);
  EXPECT_EQ(ends.a.await_status(), IBV_WC_RETRY_EXC_ERR);
  EXPECT_GE(since(begin), milliseconds(60));
  EXPECT_LT(since(begin), milliseconds(1000));
  EXPECT_EQ(ends.a.await_status(), IBV_WC_WR_FLUSH_ERR);
}

TEST_F(VerbsFaults, RequestsOutliveALossThatIsShorterThanTheirRetries) {
  EndOptions options;
  options.timeout = 12;
  Ends ends(options);
  fake.lose(1, 1000);
  ASSERT_EQ(ends.a.write(0, ends.b, 0, 64), 0);
  EXPECT_EQ(ends.a.await_status(milliseconds(40)), -1);
  fake.lose(1, 0);
  EXPECT_EQ(ends.a.await_status(), IBV_WC_SUCCESS);
}

TEST_F(VerbsFaults, SevenRetriesHaveNoEnd) {
  EndOptions options;
  options.timeout = 8;  // 1 ms
  options.retry_cnt = 7;
  options.rnr_retry = 7;
  Ends ends(options);
  fake.lose(1, 1000);
  ASSERT_EQ(ends.a.write(0, ends.b, 0, 64, 1), 0);
  EXPECT_EQ(ends.a.await_status(milliseconds(100)), -1);
  fake.lose(1, 0);
  EXPECT_EQ(ends.a.await_status(milliseconds(100)), -1) << "no receive is posted";
  ASSERT_EQ(ends.b.receive(0, 1), 0);
  EXPECT_EQ(ends.a.await_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(ends.b.await_status(), IBV_WC_SUCCESS);
}

TEST_F(VerbsFaults, AWriteThatTellsWaitsForAReceive) {
  EndOptions options;
  options.rnr_retry = 2;
  options.min_rnr_timer = 12;  // 640 us
  Ends ends(options);
  ends.a.key_offset = 1;  // a wrong key shows nothing, since the receive is looked for first
  ASSERT_EQ(ends.a.write(0, ends.b, 0, 64, 1), 0);
  EXPECT_EQ(ends.a.await_status(), IBV_WC_RNR_RETRY_EXC_ERR);
}

TEST_F(VerbsFaults, AWrongKeyBreaksBothEnds) {
  Ends ends;
  ends.a.key_offset = 1;
  ASSERT_EQ(ends.b.receive(0, 2), 0);
  ASSERT_EQ(ends.a.write(0, ends.b, 0, 64, 1), 0);
  EXPECT_EQ(ends.a.await_status(), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(ends.b.await_status(), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(ends.b.await_status(), IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(ends.b.await_event(), IBV_EVENT_QP_ACCESS_ERR);
}

TEST_F(VerbsFaults, WritesBeyondMemoryAreRefused) {
  Ends ends;
  ASSERT_EQ(ends.a.write(0, ends.b, ends.b.memory.size() - 64, 64), 0);
  EXPECT_EQ(ends.a.await_status(), IBV_WC_SUCCESS);
  ibv_sge piece{ends.a.address(0), 65, ends.a.region->lkey};
  ibv_send_wr request{}, *bad = nullptr;
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_WRITE;
  request.wr.rdma = {ends.b.address(ends.b.memory.size() - 64), ends.b.region->rkey};
  ASSERT_EQ(ibv_post_send(ends.a.pairs[0], &request, &bad), 0);
  EXPECT_EQ(ends.a.await_status(), IBV_WC_REM_ACCESS_ERR) << "not signalled, but it failed";
}

TEST_F(VerbsFaults, MemoryThatPeersMayNotWriteIsKept) {
  EndOptions local;
  local.remote_access = IBV_ACCESS_LOCAL_WRITE;
  Ends ends(local);
  ASSERT_EQ(ends.a.write(0, ends.b, 0, 64), 0);
  EXPECT_EQ(ends.a.await_status(), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(VerbsFaults, OwnMemoryOutsideARegionEndsTheRequest) {
  Ends ends;
  ends.a.region->lkey += 1;  // the test's copy only
  ASSERT_EQ(ends.a.write(0, ends.b, 0, 64), 0);
  EXPECT_EQ(ends.a.await_status(), IBV_WC_LOC_PROT_ERR);
  ends.a.region->lkey -= 1;
}

TEST_F(VerbsFaults, ABrokenQueuePairFlushesAndChangesNoByteMore) {
  EndOptions options;
  options.timeout = 8;
  options.bytes = 1 << 20;
  Ends ends(options);
  ASSERT_EQ(ends.b.receive(0, 3), 0);
  ASSERT_EQ(ends.b.modify(0, {}, IBV_QPS_ERR, 0), 0);
  std::fill(ends.a.memory.begin(), ends.a.memory.end(), std::byte{1});
  ASSERT_EQ(ends.a.write(0, ends.b, 0, 1 << 20, 1), 0);
  for (const ibv_wc& entry : ends.b.await(3)) EXPECT_EQ(entry.status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(ends.a.await_status(), IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(std::count(ends.b.memory.begin(), ends.b.memory.end(), std::byte{1}), 0);
  ASSERT_EQ(ends.a.write(0, ends.b, 0, 64), 0) << "a broken queue pair takes requests";
  EXPECT_EQ(ends.a.await_status(), IBV_WC_WR_FLUSH_ERR);
}

TEST_F(VerbsFaults, AWriteUnderWayStopsWhereItsTargetBreaks) {
  EndOptions options;
  options.timeout = 8;
  options.bytes = 1 << 20;
  Ends ends(options);
  FakeBehaviour slow;
  slow.piece_bytes = 256;
  behave(slow);
  std::fill(ends.a.memory.begin(), ends.a.memory.end(), std::byte{1});
  ASSERT_EQ(ends.a.write(0, ends.b, 0, 1 << 20), 0);
  ASSERT_EQ(ends.b.modify(0, {}, IBV_QPS_ERR, 0), 0);
  std::fill(ends.b.memory.begin(), ends.b.memory.end(), std::byte{2});
  EXPECT_EQ(ends.a.await_status(), IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(std::count(ends.b.memory.begin(), ends.b.memory.end(), std::byte{2}), 1 << 20);
}

// Writes 64 bytes, and returns the status of that.
int status_of_write(End& from, const End& to, int pair = 0) {
  EXPECT_EQ(from.write(pair, to, 0, 64), 0);
  return from.await_status();
}

TEST_F(VerbsFaults, APortGoesDownAndItsQueuePairsConnectAnewAfterIt) {
  EndOptions options;
  options.pairs = 2;
  options.timeout = 8;
  Ends ends(options);
  fake.set_port(0, 1, false);
  EXPECT_EQ(ends.a.await_event(), IBV_EVENT_PORT_ERR);
  ibv_port_attr port{};
  ASSERT_EQ(verbs_get_ctx(ends.a.context)->query_port(ends.a.context, 1, &port, sizeof port), 0);
  EXPECT_EQ(port.state, IBV_PORT_DOWN);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(status_of_write(ends.a, ends.b), IBV_WC_LOC_QP_OP_ERR);
  EXPECT_LT(since(begin), milliseconds(100));
  EXPECT_EQ(status_of_write(ends.b, ends.a, 1), IBV_WC_RETRY_EXC_ERR) << "its target is whole, but nothing reaches it";
  fake.set_port(0, 1, true);
  EXPECT_EQ(ends.a.await_event(), IBV_EVENT_PORT_ACTIVE);
  EXPECT_EQ(status_of_write(ends.a, ends.b), IBV_WC_WR_FLUSH_ERR) << "only a new connection helps";
  for (End* const end : {&ends.a, &ends.b}) ASSERT_EQ(end->modify(0, {}, IBV_QPS_RESET, 0), 0);
  ends.connect(0, 99);
  EXPECT_EQ(status_of_write(ends.a, ends.b), IBV_WC_SUCCESS);
}

TEST_F(VerbsFaults, PacketsOfAnotherConnectionAreDropped) {
  EndOptions options;
  options.timeout = 8;
  Ends ends(options);
  ASSERT_EQ(ends.a.modify(0, {}, IBV_QPS_RESET, 0), 0);
  ASSERT_EQ(ends.a.initialise(0), 0);
  ASSERT_EQ(ends.a.connect(0, ends.b, ends.b.pairs[0], 8), 0);
  EXPECT_EQ(status_of_write(ends.a, ends.b), IBV_WC_RETRY_EXC_ERR);
}

TEST_F(VerbsFaults, AFullSendQueueRefusesUntilAnEntryIsPolled) {
  EndOptions options;
  options.requests = 4;
  Ends ends(options);
  for (int i = 0; i < 4; ++i) ASSERT_EQ(ends.a.write(0, ends.b, 0, 64), 0);
  EXPECT_EQ(ends.a.write(0, ends.b, 0, 64), ENOMEM);
  while (fake.counters().writes < 4) std::this_thread::yield();
  EXPECT_EQ(ends.a.write(0, ends.b, 0, 64), ENOMEM) << "no entry was polled";
  EXPECT_EQ(ends.a.await_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(ends.a.write(0, ends.b, 0, 64), 0);
  EXPECT_EQ(ends.a.await(4).size(), 4U);
}

TEST_F(VerbsFaults, AReceiveQueueHasItsPlaces) {
  for (const bool shared : {false, true}) {
    EndOptions options;
    options.receives = 3;
    options.shared_receives = shared;
    Ends ends(options);
    EXPECT_EQ(ends.b.receive(0, 3), 0);
    EXPECT_EQ(ends.b.receive(0, 1), ENOMEM);
    ASSERT_EQ(ends.a.write(0, ends.b, 0, 0, 1), 0);
    EXPECT_EQ(ends.b.await_status(), IBV_WC_SUCCESS);
    EXPECT_EQ(ends.b.receive(0, 1), 0);
  }
}

TEST_F(VerbsFaults, SharedReceivesStayWhenAQueuePairBreaks) {
  EndOptions options;
  options.pairs = 2;
  options.shared_receives = true;
  Ends ends(options);
  ASSERT_EQ(ends.b.receive(0, 2), 0);
  ASSERT_EQ(ends.b.modify(0, {}, IBV_QPS_ERR, 0), 0);
  EXPECT_EQ(ends.b.await_event(), IBV_EVENT_QP_LAST_WQE_REACHED);
  EXPECT_EQ(ends.b.await_status(milliseconds(20)), -1);
  ASSERT_EQ(ends.a.write(1, ends.b, 0, 64, 5), 0);
  EXPECT_EQ(ends.b.await_status(), IBV_WC_SUCCESS);
}

TEST_F(VerbsFaults, ACompletionQueueOverruns) {
  EndOptions options;
  options.entries = 4;
  Ends ends(options);
  for (int i = 0; i < 5; ++i) ASSERT_EQ(ends.a.write(0, ends.b, 0, 64), 0);
  EXPECT_EQ(ends.a.await_event(), IBV_EVENT_CQ_ERR);
  EXPECT_EQ(ends.a.await(4).size(), 4U);
  EXPECT_EQ(ends.a.await_status(milliseconds(20)), -1);
}

TEST_F(VerbsFaults, TheRequestThatATestChoseFails) {
  Ends ends;
  fake.fail_request(2, IBV_WC_REM_OP_ERR);
  for (int i = 0; i < 4; ++i) ASSERT_EQ(ends.a.write(0, ends.b, 0, 64), 0);
  constexpr std::array kStatuses{IBV_WC_SUCCESS, IBV_WC_SUCCESS, IBV_WC_REM_OP_ERR, IBV_WC_WR_FLUSH_ERR};
  const std::vector<ibv_wc> came = ends.a.await(4);
  ASSERT_EQ(came.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(came[i].status, kStatuses[i]);
    EXPECT_EQ(came[i].wr_id, i);
  }
}

TEST_F(VerbsFaults, TheCallThatATestChoseFails) {
  Ends ends;
  fake.fail("ibv_reg_mr", 1, 2, ENOMEM);
  std::array<std::byte, 64> memory{};
  const auto registered = [&] {
    ibv_mr* const region = VERBS_CALL(ibv_reg_mr)(ends.a.domain, memory.data(), memory.size(), 0);
    return region != nullptr && VERBS_CALL(ibv_dereg_mr)(region) == 0;
  };
  EXPECT_TRUE(registered());
  EXPECT_FALSE(registered());
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_FALSE(registered());
  EXPECT_TRUE(registered());
  fake.fail("ibv_post_send", 0, 1, EIO);
  EXPECT_EQ(ends.a.write(0, ends.b, 0, 64), EIO);
}

}  // namespace
