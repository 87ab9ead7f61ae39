// Gives tests two ends of queue pairs over the fake libibverbs.so.1. They call it as a program does that loads it.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tests/support/fake_verbs.hpp"

namespace wreath::test {

// Returns a function of the library. verbs.h has functions of the same names, which a program that loads it cannot
// link.
template <typename Function>
Function* verbs_call(const char* name) {
  static void* const library = ::dlopen("libibverbs.so.1", RTLD_NOW);
  return reinterpret_cast<Function*>(::dlsym(library, name));
}
#define VERBS_CALL(name) verbs_call<decltype(name)>(#name)

// Says how queue pairs are made and connected.
struct EndOptions {
  int pairs = 1;
  std::size_t bytes = 1 << 16;  // of the registered memory
  std::uint32_t requests = 64;
  std::uint32_t receives = 64;
  int entries = 1024;
  std::uint8_t timeout = 14;
  std::uint8_t retry_cnt = 6;
  std::uint8_t rnr_retry = 6;
  std::uint8_t min_rnr_timer = 12;
  unsigned remote_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  bool shared_receives = false;
};

// One end: a device with memory, a queue for completions and queue pairs.
class End {
 public:
  End(int device, const EndOptions& options) : options_(options), memory(options.bytes) {
    int devices = 0;
    ibv_device** const list = VERBS_CALL(ibv_get_device_list)(&devices);
    context = VERBS_CALL(ibv_open_device)(list[device]);
    VERBS_CALL(ibv_free_device_list)(list);
    domain = VERBS_CALL(ibv_alloc_pd)(context);
    region = VERBS_CALL(ibv_reg_mr_iova2)(domain, memory.data(), memory.size(), address(0), options.remote_access);
    channel = VERBS_CALL(ibv_create_comp_channel)(context);
    queue = VERBS_CALL(ibv_create_cq)(context, options.entries, this, channel, 0);
    if (options.shared_receives) {
      ibv_srq_init_attr wanted{};
      wanted.attr = {options.receives, 0, 0};
      shared = VERBS_CALL(ibv_create_srq)(domain, &wanted);
    }
    for (int i = 0; i < options.pairs; ++i) pairs.push_back(make_pair());
  }
  ~End() {
    for (ibv_qp* const pair : pairs) EXPECT_EQ(VERBS_CALL(ibv_destroy_qp)(pair), 0);
    if (shared != nullptr) {
      EXPECT_EQ(VERBS_CALL(ibv_destroy_srq)(shared), 0);
    }
    EXPECT_EQ(VERBS_CALL(ibv_destroy_cq)(queue), 0);
    EXPECT_EQ(VERBS_CALL(ibv_destroy_comp_channel)(channel), 0);
    if (region != nullptr) {
      EXPECT_EQ(VERBS_CALL(ibv_dereg_mr)(region), 0);
    }
    EXPECT_EQ(VERBS_CALL(ibv_dealloc_pd)(domain), 0);
    EXPECT_EQ(VERBS_CALL(ibv_close_device)(context), 0);
  }
  End(const End&) = delete;
  End& operator=(const End&) = delete;

  std::uint64_t address(std::size_t at) const { return reinterpret_cast<std::uintptr_t>(memory.data() + at); }

  ibv_qp* make_pair() {
    ibv_qp_init_attr wanted{};
    wanted.send_cq = wanted.recv_cq = queue;
    wanted.srq = shared;
    wanted.cap = {options_.requests, shared != nullptr ? 0 : options_.receives, 2, 0, 256};
    wanted.qp_type = IBV_QPT_RC;
    return VERBS_CALL(ibv_create_qp)(domain, &wanted);
  }

  // Returns the global address of the first port, for RoCE v2.
  ibv_gid gid() const {
    ibv_gid found{};
    EXPECT_EQ(VERBS_CALL(ibv_query_gid)(context, 1, 3, &found), 0);
    return found;
  }

  int modify(int pair, ibv_qp_attr attributes, ibv_qp_state state, int mask) {
    attributes.qp_state = state;
    return VERBS_CALL(ibv_modify_qp)(pairs[static_cast<std::size_t>(pair)], &attributes, mask | IBV_QP_STATE);
  }
  int initialise(int pair) {
    ibv_qp_attr attributes{};
    attributes.port_num = 1;
    attributes.qp_access_flags = options_.remote_access;
    return modify(pair, attributes, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  }
  // Connects with a queue pair of the other end. Packets of both begin with `packet`.
  int connect(int pair, const End& other, ibv_qp* with, std::uint32_t packet = 7) {
    ibv_qp_attr attributes{};
    attributes.path_mtu = IBV_MTU_1024;
    attributes.dest_qp_num = with->qp_num;
    attributes.rq_psn = attributes.sq_psn = packet;
    attributes.max_dest_rd_atomic = attributes.max_rd_atomic = 1;
    attributes.min_rnr_timer = options_.min_rnr_timer;
    attributes.timeout = options_.timeout;
    attributes.retry_cnt = options_.retry_cnt;
    attributes.rnr_retry = options_.rnr_retry;
    attributes.ah_attr.is_global = 1;
    attributes.ah_attr.port_num = 1;
    attributes.ah_attr.grh = {other.gid(), 0, 3, 64, 0};
    const int error = modify(pair, attributes, IBV_QPS_RTR,
                             IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                 IBV_QP_MIN_RNR_TIMER);
    if (error != 0) return error;
    return modify(pair, attributes, IBV_QPS_RTS,
                  IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  }

  // Posts one write of `bytes` bytes from and to the same place. It is signalled.
  int write(int pair, const End& to, std::size_t at, std::uint32_t bytes, std::optional<std::uint32_t> tells = {}) {
    ibv_send_wr request{};
    request.opcode = tells ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
    request.imm_data = tells.value_or(0);
    request.wr.rdma.remote_addr = to.address(at);
    request.wr.rdma.rkey = to.region->rkey + key_offset;
    return post(pair, request, at, bytes);
  }
  // Posts a signalled request, whose memory at this end is at `at`.
  int post(int pair, ibv_send_wr request, std::size_t at, std::uint32_t bytes) {
    ibv_sge piece{address(at), bytes, region->lkey};
    ibv_send_wr* bad = nullptr;
    request.wr_id = number++;
    request.sg_list = &piece;
    request.num_sge = 1;
    request.send_flags = IBV_SEND_SIGNALED;
    return ibv_post_send(pairs[static_cast<std::size_t>(pair)], &request, &bad);
  }
  int receive(int pair, int count) {
    ibv_recv_wr request{}, *bad = nullptr;
    request.wr_id = 1'000'000;
    for (int error = 0; count > 0; --count) {
      if (shared != nullptr) {
        error = ibv_post_srq_recv(shared, &request, &bad);
      } else {
        error = ibv_post_recv(pairs[static_cast<std::size_t>(pair)], &request, &bad);
      }
      if (error != 0) return error;
    }
    return 0;
  }

  // Waits for `count` completions for 10 s, and returns those that came.
  std::vector<ibv_wc> await(std::size_t count, std::chrono::milliseconds most = std::chrono::seconds(10)) {
    std::vector<ibv_wc> came;
    const auto late = std::chrono::steady_clock::now() + most;
    while (came.size() < count && std::chrono::steady_clock::now() < late) {
      ibv_wc one{};
      if (ibv_poll_cq(queue, 1, &one) == 1) came.push_back(one);
    }
    return came;
  }
  // Waits for one completion and returns its status; -1 where none comes.
  int await_status(std::chrono::milliseconds most = std::chrono::seconds(10)) {
    const std::vector<ibv_wc> came = await(1, most);
    return came.empty() ? -1 : static_cast<int>(came[0].status);
  }
  // Waits for one asynchronous event and returns its type; -1 where none comes.
  int await_event() {
    pollfd ready{context->async_fd, POLLIN, 0};
    if (::poll(&ready, 1, 5000) != 1) return -1;
    ibv_async_event event{};
    if (VERBS_CALL(ibv_get_async_event)(context, &event) != 0) return -1;
    VERBS_CALL(ibv_ack_async_event)(&event);
    return event.event_type;
  }

 private:
  EndOptions options_;

 public:
  std::vector<std::byte> memory;
  ibv_context* context = nullptr;
  ibv_pd* domain = nullptr;
  ibv_mr* region = nullptr;
  ibv_comp_channel* channel = nullptr;
  ibv_cq* queue = nullptr;
  ibv_srq* shared = nullptr;
  std::vector<ibv_qp*> pairs;
  std::uint64_t number = 0;
  std::uint32_t key_offset = 0;
};

// Returns a descriptor of memory with so many bytes, all zero.
inline int make_memory(std::size_t bytes) {
  const int descriptor = ::memfd_create("fake", MFD_CLOEXEC);
  EXPECT_EQ(::ftruncate(descriptor, static_cast<off_t>(bytes)), 0);
  return descriptor;
}

// Two ends on two adapters, with their queue pairs connected.
struct Ends {
  explicit Ends(const EndOptions& options = {}) : a(0, options), b(1, options) {
    for (int i = 0; i < options.pairs; ++i) connect(i);
  }
  void connect(int pair, std::uint32_t packet = 7) {
    const auto at = static_cast<std::size_t>(pair);
    EXPECT_EQ(a.initialise(pair), 0);
    EXPECT_EQ(b.initialise(pair), 0);
    EXPECT_EQ(a.connect(pair, b, b.pairs[at], packet), 0);
    EXPECT_EQ(b.connect(pair, a, a.pairs[at], packet), 0);
  }
  End a;
  End b;
};

// Each test begins with new adapters, and ends with nothing left alive.
class FakeVerbsTest : public testing::Test {
 protected:
  void SetUp() override {
    fake = FakeVerbs::find();
    ASSERT_TRUE(fake) << "this is not the fake library";
    const FakeNetwork usual;
    ASSERT_TRUE(fake.configure(&usual));
  }
  void TearDown() override {
    ASSERT_TRUE(fake);
    EXPECT_EQ(fake.counters().alive, 0U);
  }
  void behave(FakeBehaviour behaviour) { fake.behave(&behaviour); }
  FakeVerbs fake{};
};

}  // namespace wreath::test
