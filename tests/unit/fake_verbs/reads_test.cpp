// Tests reads: who may read what, what a read of a device's memory says of writes to it, and what it says of others.
#include <array>
#include <utility>

#include "tests/unit/fake_verbs/ends.hpp"

using namespace wreath::test;

namespace {

using VerbsReads = FakeVerbsTest;

constexpr unsigned kWritable = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
constexpr unsigned kReadable = kWritable | IBV_ACCESS_REMOTE_READ;

ibv_send_wr read_of(std::uint64_t address, std::uint32_t key) {
  ibv_send_wr request{};
  request.opcode = IBV_WR_RDMA_READ;
  request.wr.rdma = {address, key};
  return request;
}

EndOptions with_access(unsigned access) {
  EndOptions options;
  options.remote_access = access;
  return options;
}

TEST_F(VerbsReads, BringBytesFromMemoryThatMayBeRead) {
  Ends ends(with_access(kReadable));
  ends.b.memory[100] = std::byte{7};
  ASSERT_EQ(ends.a.post(0, read_of(ends.b.address(100), ends.b.region->rkey), 5, 1), 0);
  const std::vector<ibv_wc> came = ends.a.await(1);
  ASSERT_EQ(came.size(), 1U);
  EXPECT_EQ(came[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(came[0].opcode, IBV_WC_RDMA_READ);
  EXPECT_EQ(ends.a.memory[5], std::byte{7});
  EXPECT_EQ(fake.counters().reads, 1U);
  EXPECT_EQ(fake.counters().readable, 2U);
}

TEST_F(VerbsReads, AreRefusedWhereTheQueuePairOrTheMemoryMayNotBeRead) {
  for (const bool by_pair : {true, false}) {
    Ends ends(with_access(by_pair ? kWritable : kReadable));
    ibv_mr* const memory = VERBS_CALL(ibv_reg_mr_iova2)(ends.b.domain, ends.b.memory.data(), 64, ends.b.address(0),
                                                        by_pair ? kReadable : kWritable);
    ASSERT_EQ(ends.a.post(0, read_of(ends.b.address(0), memory->rkey), 0, 1), 0);
    EXPECT_EQ(ends.a.await_status(), IBV_WC_REM_ACCESS_ERR);
    EXPECT_EQ(ends.b.await_event(), IBV_EVENT_QP_ACCESS_ERR);
    EXPECT_EQ(VERBS_CALL(ibv_dereg_mr)(memory), 0);
  }
  EXPECT_EQ(fake.counters().reads, 0U);
}

TEST_F(VerbsReads, NeedMemoryThatTheyMayWriteAtTheirEnd) {
  Ends ends(with_access(kReadable));
  ibv_mr* constant = VERBS_CALL(ibv_reg_mr_iova2)(ends.a.domain, ends.a.memory.data(), 64, ends.a.address(0), 0);
  std::swap(ends.a.region, constant);
  ASSERT_EQ(ends.a.post(0, read_of(ends.b.address(0), ends.b.region->rkey), 0, 1), 0);
  std::swap(ends.a.region, constant);
  EXPECT_EQ(ends.a.await_status(), IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(VERBS_CALL(ibv_dereg_mr)(constant), 0);
}

// Memory of two devices at one adapter, and of the first one at another adapter.
struct Devices {
  explicit Devices(Ends& ends) : domains{ends.b.domain, ends.b.domain, ends.a.domain} {
    for (std::size_t i = 0; i < regions.size(); ++i) {
      regions[i] =
          VERBS_CALL(ibv_reg_dmabuf_mr)(domains[i], 0, 4096, 0x7000'0000, memory[i % 2], static_cast<int>(kReadable));
    }
  }
  ~Devices() {
    for (ibv_mr* const each : regions) EXPECT_EQ(VERBS_CALL(ibv_dereg_mr)(each), 0);
    for (const int each : memory) ::close(each);
  }
  Devices(const Devices&) = delete;
  Devices& operator=(const Devices&) = delete;
  // Returns the first byte that a device sees.
  std::byte seen(std::size_t device) const {
    std::byte byte{};
    EXPECT_EQ(::pread(memory[device], &byte, 1, 0), 1);
    return byte;
  }

  std::array<int, 2> memory{make_memory(4096), make_memory(4096)};
  std::array<ibv_pd*, 3> domains;
  std::array<ibv_mr*, 3> regions{};
};

TEST_F(VerbsReads, ShowTheWritesOfTheSameAdapterToTheSameDevice) {
  Ends ends(with_access(kReadable));
  FakeBehaviour held;
  held.hold_device_writes = true;
  behave(held);
  const Devices devices(ends);
  ends.a.memory[0] = std::byte{9};
  for (const std::size_t device : {0U, 1U}) {
    ibv_send_wr write{};
    write.opcode = IBV_WR_RDMA_WRITE;
    write.wr.rdma = {0x7000'0000, devices.regions[device]->rkey};
    ASSERT_EQ(ends.a.post(0, write, 0, 1), 0);
    ASSERT_EQ(ends.a.await_status(), IBV_WC_SUCCESS);
  }
  // The adapter of the other end has written nothing there.
  ASSERT_EQ(ends.b.post(0, read_of(0x7000'0000, devices.regions[2]->rkey), 1, 1), 0);
  ASSERT_EQ(ends.b.await_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(devices.seen(0), std::byte{0});
  // A read of nothing says nothing.
  ASSERT_EQ(ends.a.post(0, read_of(0x7000'0000, devices.regions[0]->rkey), 1, 0), 0);
  ASSERT_EQ(ends.a.await_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(devices.seen(0), std::byte{0});
  ASSERT_EQ(ends.a.post(0, read_of(0x7000'0800, devices.regions[0]->rkey), 1, 1), 0);
  ASSERT_EQ(ends.a.await_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(devices.seen(0), std::byte{9});
  EXPECT_EQ(devices.seen(1), std::byte{0});
  EXPECT_EQ(fake.flush(), 1U);
  EXPECT_EQ(devices.seen(1), std::byte{9});
}

// A queue pair may be its own other end.
TEST_F(VerbsReads, GoThroughAQueuePairThatIsConnectedWithItself) {
  End end(0, with_access(kReadable));
  ASSERT_EQ(end.initialise(0), 0);
  ASSERT_EQ(end.connect(0, end, end.pairs[0]), 0);
  end.memory[100] = std::byte{7};
  ASSERT_EQ(end.post(0, read_of(end.address(100), end.region->rkey), 5, 1), 0);
  EXPECT_EQ(end.await_status(), IBV_WC_SUCCESS);
  EXPECT_EQ(end.memory[5], std::byte{7});
  ASSERT_EQ(end.post(0, read_of(end.address(0), end.region->rkey + 1), 5, 1), 0);
  EXPECT_EQ(end.await_status(), IBV_WC_REM_ACCESS_ERR);
}

}  // namespace
