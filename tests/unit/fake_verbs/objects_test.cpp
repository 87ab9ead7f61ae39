// Tests what the fake library refuses as a real one does: changes of state, sizes, memory that is not there.
#include <sys/mman.h>

#include <array>

#include "tests/unit/fake_verbs/ends.hpp"

using namespace wreath::test;

namespace {

using VerbsObjects = FakeVerbsTest;

TEST_F(VerbsObjects, DevicesHavePortsWithAddresses) {
  FakeNetwork two;
  two.adapter[1].name = "ib";
  two.adapter[1].ports = 2;
  two.adapter[1].port[1].infiniband = true;
  ASSERT_TRUE(fake.configure(&two));
  const End end(1, {});
  EXPECT_STREQ(end.context->device->name, "ib");
  ibv_device_attr device{};
  ASSERT_EQ(VERBS_CALL(ibv_query_device)(end.context, &device), 0);
  EXPECT_EQ(device.phys_port_cnt, 2);
  const auto query_port = verbs_get_ctx(end.context)->query_port;
  ibv_port_attr port{};
  ASSERT_EQ(query_port(end.context, 1, &port, sizeof port), 0);
  EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_ETHERNET);
  EXPECT_EQ(port.lid, 0);
  ASSERT_EQ(query_port(end.context, 2, &port, sizeof port), 0);
  EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_INFINIBAND);
  EXPECT_NE(port.lid, 0);
  EXPECT_EQ(query_port(end.context, 3, &port, sizeof port), EINVAL);
  std::array<ibv_gid_entry, 16> table{};
  ASSERT_EQ(VERBS_CALL(_ibv_query_gid_table)(end.context, table.data(), table.size(), 0, sizeof table[0]), 5);
  EXPECT_EQ(table[2].gid_type, IBV_GID_TYPE_ROCE_V1);
  EXPECT_EQ(table[3].gid_type, IBV_GID_TYPE_ROCE_V2);
  EXPECT_EQ(table[4].gid_type, IBV_GID_TYPE_IB);
  EXPECT_EQ(table[4].port_num, 2U);
  EXPECT_FALSE(fake.configure(&two)) << "a context is open";
}

TEST_F(VerbsObjects, InfiniBandNeedsNoGlobalAddress) {
  FakeNetwork fabric;
  for (FakeAdapter& adapter : fabric.adapter) adapter.port[0].infiniband = true;
  ASSERT_TRUE(fake.configure(&fabric));
  End a(0, {});
  End b(1, {});
  const auto connect = [](End& end, const End& other) {
    ibv_port_attr port{};
    EXPECT_EQ(verbs_get_ctx(other.context)->query_port(other.context, 1, &port, sizeof port), 0);
    ibv_qp_attr attributes{};
    attributes.path_mtu = IBV_MTU_1024;
    attributes.dest_qp_num = other.pairs[0]->qp_num;
    attributes.ah_attr.dlid = port.lid;
    attributes.ah_attr.port_num = 1;
    attributes.timeout = 14;
    EXPECT_EQ(end.initialise(0), 0);
    EXPECT_EQ(end.modify(0, attributes, IBV_QPS_RTR,
                         IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                             IBV_QP_MIN_RNR_TIMER),
              0);
    EXPECT_EQ(
        end.modify(0, attributes, IBV_QPS_RTS,
                   IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
        0);
  };
  connect(a, b);
  connect(b, a);
  ASSERT_EQ(a.write(0, b, 0, 64), 0);
  EXPECT_EQ(a.await_status(), IBV_WC_SUCCESS);
}

TEST_F(VerbsObjects, StatesNeedTheirAttributes) {
  End a(0, {});
  End b(1, {});
  ibv_qp_attr attributes{};
  attributes.port_num = 1;
  constexpr int kInitial = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  EXPECT_EQ(a.write(0, b, 0, 64), EINVAL);
  EXPECT_EQ(a.modify(0, attributes, IBV_QPS_INIT, kInitial & ~IBV_QP_PORT), EINVAL);
  EXPECT_EQ(a.modify(0, attributes, IBV_QPS_INIT, kInitial | IBV_QP_TIMEOUT), EINVAL);
  EXPECT_EQ(a.modify(0, attributes, IBV_QPS_RTS, kInitial), EINVAL);
  attributes.port_num = 2;
  EXPECT_EQ(a.modify(0, attributes, IBV_QPS_INIT, kInitial), EINVAL);
  EXPECT_EQ(a.connect(0, b, b.pairs[0]), EINVAL) << "not initialised";
  EXPECT_EQ(a.initialise(0), 0);
  EXPECT_EQ(a.connect(0, b, b.pairs[0]), 0);
  EXPECT_EQ(a.connect(0, b, b.pairs[0]), EINVAL) << "connected already";
  std::array<FakeModify, 8> modifies;
  ASSERT_EQ(fake.modifies(modifies.data(), modifies.size()), 3U);
  EXPECT_EQ(modifies[0].timeout, -1);
  EXPECT_EQ(modifies[1].min_rnr_timer, 12);
  EXPECT_EQ(modifies[2].timeout, 14);
  EXPECT_EQ(modifies[2].retry_cnt, 6);
  EXPECT_EQ(modifies[2].rnr_retry, 6);
}

TEST_F(VerbsObjects, SizesHaveLimits) {
  Ends ends;
  const auto pair_with = [&](ibv_qp_cap wanted) {
    ibv_qp_init_attr attributes{};
    attributes.send_cq = attributes.recv_cq = ends.a.queue;
    attributes.cap = wanted;
    attributes.qp_type = IBV_QPT_RC;
    ibv_qp* const made = VERBS_CALL(ibv_create_qp)(ends.a.domain, &attributes);
    return made != nullptr && VERBS_CALL(ibv_destroy_qp)(made) == 0;
  };
  EXPECT_TRUE(pair_with({16'384, 16, 16, 1, 512}));
  EXPECT_FALSE(pair_with({16'385, 16, 16, 1, 512}));
  EXPECT_FALSE(pair_with({16'384, 16, 17, 1, 512}));
  EXPECT_FALSE(pair_with({16'384, 16, 16, 1, 513}));
  EXPECT_EQ(VERBS_CALL(ibv_create_cq)(ends.a.context, 65'537, nullptr, nullptr, 0), nullptr);
  std::array<ibv_sge, 3> pieces{};
  pieces[0] = {ends.a.address(0), 257, 0};
  ibv_send_wr request{}, *bad = nullptr;
  request.sg_list = pieces.data();
  request.num_sge = 1;
  request.send_flags = IBV_SEND_INLINE;
  EXPECT_EQ(ibv_post_send(ends.a.pairs[0], &request, &bad), EINVAL) << "more than the queue pair's 256 bytes";
  EXPECT_EQ(bad, &request);
  request.num_sge = 3;
  request.send_flags = 0;
  EXPECT_EQ(ibv_post_send(ends.a.pairs[0], &request, &bad), EINVAL) << "more than two pieces";
}

TEST_F(VerbsObjects, InlineBytesAreCopiedAtOnce) {
  Ends ends;
  ends.a.memory[0] = std::byte{5};
  ibv_sge piece{ends.a.address(0), 1, 0};
  ibv_send_wr request{}, *bad = nullptr;
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_WRITE;
  request.send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
  request.wr.rdma = {ends.b.address(0), ends.b.region->rkey};
  ASSERT_EQ(ibv_post_send(ends.a.pairs[0], &request, &bad), 0);
  ends.a.memory[0] = std::byte{6};
  EXPECT_EQ(ends.a.await_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(ends.b.memory[0], std::byte{5});
  EXPECT_EQ(fake.counters().inlined, 1U);
}

TEST_F(VerbsObjects, RegionsNeedMemoryAndRights) {
  const End end(0, {});
  const auto reg = VERBS_CALL(ibv_reg_mr);
  void* const hole = ::mmap(nullptr, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ::munmap(hole, 8192);
  EXPECT_EQ(reg(end.domain, hole, 8192, 0), nullptr);
  EXPECT_EQ(errno, EFAULT);
  std::array<std::byte, 64> memory{};
  EXPECT_EQ(reg(end.domain, memory.data(), 64, IBV_ACCESS_REMOTE_WRITE), nullptr) << "without the right to write";
  EXPECT_EQ(reg(end.domain, memory.data(), 64, IBV_ACCESS_ON_DEMAND), nullptr);
  EXPECT_EQ(VERBS_CALL(ibv_dealloc_pd)(end.domain), EBUSY);
  EXPECT_EQ(VERBS_CALL(ibv_destroy_cq)(end.queue), EBUSY);
}

TEST_F(VerbsObjects, ADescriptorsMemoryIsWrittenAtItsOffsetAfterAFlush) {
  Ends ends;
  FakeBehaviour held;
  held.hold_device_writes = true;
  behave(held);
  const int descriptor = make_memory(3 * 4096);
  constexpr std::uint64_t kFirst = 0x7000'0000;
  const auto reg = VERBS_CALL(ibv_reg_dmabuf_mr);
  constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  EXPECT_EQ(reg(ends.b.domain, 4096, 2 * 4096 + 1, kFirst, descriptor, kAccess), nullptr) << "longer than the memory";
  EXPECT_EQ(reg(ends.b.domain, 0, 4096, kFirst, -1, kAccess), nullptr);
  EXPECT_EQ(errno, EBADF);
  ibv_mr* const region = reg(ends.b.domain, 5000, 4096, kFirst, descriptor, kAccess);
  ASSERT_NE(region, nullptr);
  ends.a.memory[0] = std::byte{9};
  ibv_sge piece{ends.a.address(0), 1, ends.a.region->lkey};
  ibv_send_wr request{}, *bad = nullptr;
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_WRITE;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.rdma = {kFirst + 10, region->rkey};
  ASSERT_EQ(ibv_post_send(ends.a.pairs[0], &request, &bad), 0);
  EXPECT_EQ(ends.a.await_status(), IBV_WC_SUCCESS);
  std::array<std::byte, 3 * 4096> memory{};
  ASSERT_EQ(::pread(descriptor, memory.data(), memory.size(), 0), static_cast<ssize_t>(memory.size()));
  EXPECT_EQ(memory[5010], std::byte{0});
  EXPECT_EQ(fake.flush(), 1U);
  ASSERT_EQ(::pread(descriptor, memory.data(), memory.size(), 0), static_cast<ssize_t>(memory.size()));
  EXPECT_EQ(memory[5010], std::byte{9});
  EXPECT_EQ(VERBS_CALL(ibv_dereg_mr)(region), 0);
  ::close(descriptor);
}

TEST_F(VerbsObjects, ARegionKeepsItsPagesWhenOthersTakeTheirPlace) {
  Ends ends;
  FakeBehaviour pinning;
  pinning.pin_pages = true;
  behave(pinning);
  const auto map = [](void* at, int more) {
    return static_cast<std::byte*>(::mmap(at, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | more, -1, 0));
  };
  std::byte* const memory = map(nullptr, 0);
  memory[0] = std::byte{1};
  ibv_mr* const region = VERBS_CALL(ibv_reg_mr)(ends.a.domain, memory, 4096, 0);
  ASSERT_NE(region, nullptr);
  ASSERT_EQ(map(memory, MAP_FIXED), memory);
  memory[0] = std::byte{2};
  ibv_sge piece{region->length > 0 ? reinterpret_cast<std::uintptr_t>(memory) : 0, 1, region->lkey};
  ibv_send_wr request{}, *bad = nullptr;
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_WRITE;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.rdma = {ends.b.address(0), ends.b.region->rkey};
  ASSERT_EQ(ibv_post_send(ends.a.pairs[0], &request, &bad), 0);
  EXPECT_EQ(ends.a.await_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(ends.b.memory[0], std::byte{1});
  EXPECT_EQ(VERBS_CALL(ibv_dereg_mr)(region), 0);
  ::munmap(memory, 4096);
}

}  // namespace
