// Adapters read and write memory of a device by themselves. A device sees what they have written once that was flushed,
// by its driver or by the adapter's read, and the double of a device here sees nothing before.
#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "src/base/clock.hpp"
#include "tests/support/device_link.hpp"
#include "tests/unit/transports_verbs/ends.hpp"

namespace wreath::verbs_device_memory {
namespace {

using test::device_shape;
using test::kDeviceBytes;
using testing::HasSubstr;

VerbsSettings settings_for(const std::vector<std::string>& adapters) {
  VerbsSettings settings = test::settings_for(adapters.front());
  for (std::size_t i = 1; i < adapters.size(); ++i) settings.adapters += "," + adapters[i];
  settings.rails = adapters.size();
  return settings;
}

class VerbsDeviceMemory : public test::VerbsTest, protected test::DeviceLink {
 protected:
  VerbsDeviceMemory() : DeviceLink([this] { fake_.flush(); }) {}
  void SetUp() override {
    test::VerbsTest::SetUp();
    behave_at_reads(test::FakeReads::Work);
  }
  void behave_at_reads(test::FakeReads reads) {
    test::FakeBehaviour behaviour;
    behaviour.delay_us = 20;
    behaviour.hold_device_writes = true;
    behaviour.reads = reads;
    behave(behaviour);
  }
  void link(const FifoShape& shape = device_shape(), int rails = 1) {
    const auto end = [&](const char* first, const char* second, Rank peer) {
      const std::vector<std::string> adapters =
          rails == 1 ? std::vector<std::string>{first} : std::vector<std::string>{first, second};
      return std::make_unique<test::DeviceEnd>(VerbsAdapter::open(settings_for(adapters), 1 - peer, 2), peer, shape);
    };
    DeviceLink::link(end("fake_0", "fake_2", 1), end("fake_1", "fake_3", 0));
  }
  void link_devices(int rails = 1) {
    link(device_shape(), rails);
    let_in();
  }
  // Does so with devices whose drivers cannot flush.
  void link_devices_without_flush(int rails = 1) {
    from.can_flush = to.can_flush = false;
    link_devices(rails);
  }
  void TearDown() override {
    a.reset();
    b.reset();
    test::VerbsTest::TearDown();
  }
  // Counts the queue pairs so far that let others read.
  std::ptrdiff_t readable_pairs() const {
    std::vector<test::FakeModify> all(1'000);
    all.resize(fake_.modifies(all.data(), all.size()));
    return std::ranges::count_if(all, [](const test::FakeModify& each) {
      return each.access >= 0 && (each.access & IBV_ACCESS_REMOTE_READ) != 0;
    });
  }
};

TEST_F(VerbsDeviceMemory, IsReadAndWrittenByTheAdapters) {
  link_devices();
  const int flushes = to.flushes;
  ASSERT_EQ(send_and_receive(), "");
  EXPECT_TRUE(has_landed());
  EXPECT_EQ(to.flushes, flushes + 1);
  EXPECT_EQ(a->link->counts().copied_bytes, 0u);
  EXPECT_EQ(a->link->counts().by_reference, 1u);
  EXPECT_EQ(b->link->counts().landed_bytes, kDeviceBytes);
  // Nobody may read anything.
  EXPECT_EQ(fake_.counters().begun_reads, 0u);
  EXPECT_EQ(fake_.counters().readable, 0u);
  EXPECT_EQ(readable_pairs(), 0);
}

// The double would show a transport that leaves the flush out.
TEST_F(VerbsDeviceMemory, IsNotSeenWithoutAFlush) {
  link_devices();
  to.leaves_out = true;
  ASSERT_EQ(send_and_receive(), "");
  EXPECT_EQ(received(), to.data());
  EXPECT_FALSE(has_landed());
}

TEST_F(VerbsDeviceMemory, IsNotPublishedWhereAFlushFails) {
  link_devices();
  to.can_flush = false;
  EXPECT_THAT(send_and_receive(), HasSubstr("the double cannot flush"));
  EXPECT_EQ(peek(b->link->recv_fifo(0)), nullptr);
}

// Each end tries a read when it lets memory in. The queue pair that reads is the only one that may be read through.
TEST_F(VerbsDeviceMemory, IsFlushedByAReadWhereItsDriverCannot) {
  link_devices_without_flush();
  EXPECT_EQ(fake_.counters().reads, 2u);
  EXPECT_EQ(fake_.counters().readable, 2u);
  EXPECT_EQ(readable_pairs(), 2);
  ASSERT_EQ(send_and_receive(), "");
  EXPECT_TRUE(has_landed());
  EXPECT_EQ(fake_.counters().reads, 3u);
  EXPECT_EQ(b->link->counts().landed_bytes, kDeviceBytes);
  EXPECT_EQ(readable_pairs(), 2);
  EXPECT_EQ(to.flushes, 1) << "the driver was asked once whether it can";
}

// The read of an adapter finds what that adapter has written, and nothing else.
TEST_F(VerbsDeviceMemory, IsFlushedByEachAdapterThatHasWritten) {
  test::FakeNetwork network;
  network.adapters = 4;
  use(network);
  behave_at_reads(test::FakeReads::Work);
  link_devices_without_flush(2);
  EXPECT_EQ(fake_.counters().reads, 4u);
  ASSERT_EQ(send_and_receive(), "");
  EXPECT_TRUE(has_landed());
  EXPECT_EQ(fake_.counters().reads, 6u);
}

TEST_F(VerbsDeviceMemory, IsReadByANewQueuePairWhereOneHasFailed) {
  link_devices_without_flush();
  behave_at_reads(test::FakeReads::RefuseOne);
  ASSERT_EQ(send_and_receive(), "");
  EXPECT_TRUE(has_landed());
  EXPECT_EQ(readable_pairs(), 3);
}

TEST_F(VerbsDeviceMemory, IsNotPublishedWhereAReadIsRefused) {
  link_devices_without_flush();
  behave_at_reads(test::FakeReads::Refuse);
  EXPECT_THAT(
      send_and_receive(),
      testing::AllOf(HasSubstr("memory of a device was not flushed: fake_1 port 1 gid 3 to 10.77.1.1 queue pair "),
                     HasSubstr("a read failed: the peer's adapter refused access to its memory")));
  EXPECT_EQ(peek(b->link->recv_fifo(0)), nullptr);
}

TEST_F(VerbsDeviceMemory, IsNotAwaitedForEver) {
  link_devices_without_flush();
  behave_at_reads(test::FakeReads::Stall);
  EXPECT_THAT(send_and_receive(), HasSubstr("a read failed: nothing came within 1469 ms"));
  EXPECT_EQ(peek(b->link->recv_fifo(0)), nullptr);
}

// The message is here, and its sender may have written over it: it cannot be put again. So the read waits for the port.
TEST_F(VerbsDeviceMemory, IsReadOnceThePortIsUpAgain) {
  link_devices_without_flush();
  behave_at_reads(test::FakeReads::Stall);
  const std::uint64_t reads = fake_.counters().begun_reads;
  const std::ptrdiff_t pairs = readable_pairs();
  const Deadline late = Deadline::after_ms(10'000);
  std::thread cable([&] {
    while (!late.passed() && fake_.counters().begun_reads == reads) std::this_thread::yield();
    fake_.set_port(1, 1, false);
    behave_at_reads(test::FakeReads::Work);
    while (!late.passed() && readable_pairs() < pairs + 2) std::this_thread::yield();
    fake_.set_port(1, 1, true);
  });
  const std::string error = send_and_receive();
  cable.join();
  ASSERT_EQ(error, "");
  EXPECT_TRUE(has_landed());
  EXPECT_GE(readable_pairs(), pairs + 2) << "no read found the port down";
}

TEST_F(VerbsDeviceMemory, DoesNotWaitForThePortForEver) {
  link_devices_without_flush();
  behave_at_reads(test::FakeReads::Stall);
  const std::uint64_t reads = fake_.counters().begun_reads;
  const Deadline late = Deadline::after_ms(10'000);
  std::thread cable([&] {
    while (!late.passed() && fake_.counters().begun_reads == reads) std::this_thread::yield();
    fake_.set_port(1, 1, false);
  });
  const std::string error = send_and_receive();
  cable.join();
  EXPECT_THAT(error, testing::AllOf(HasSubstr("memory of a device was not flushed: fake_1 port 1 gid 3"),
                                    HasSubstr("the port is DOWN")));
  EXPECT_EQ(peek(b->link->recv_fifo(0)), nullptr);
}

// The adapter may still read it.
TEST_F(VerbsDeviceMemory, TakesNothingWhereNobodyFlushes) {
  behave_at_reads(test::FakeReads::Refuse);
  to.can_flush = false;
  link_devices();
  ASSERT_EQ(send_and_receive(), "");
  EXPECT_NE(received(), to.data());
  EXPECT_TRUE(std::equal(received(), received() + kDeviceBytes, from.data()));
  EXPECT_EQ(a->link->counts().copied_bytes, 0u);
  EXPECT_EQ(b->link->counts().landed_bytes, 0u);
}

TEST_F(VerbsDeviceMemory, IsStagedWhereItCannotBeRegistered) {
  test::FakeNetwork network;
  network.dma_buf = false;
  use(network);
  link();
  testing::internal::CaptureStderr();
  for (int time = 0; time < 2; ++time) {
    const Status let = a->link->let_in(from.range());
    ASSERT_FALSE(let);
    EXPECT_EQ(let.error().code, ErrorCode::Unavailable);
  }
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::AllOf(HasSubstr("fake_0 port 1: 256K of memory of a device cannot be registered"),
                             HasSubstr("ibv_reg_dmabuf_mr: Operation not supported")));
}

TEST_F(VerbsDeviceMemory, IsStagedWhereMessagesCarryChecksums) {
  link(device_shape(true));
  EXPECT_THAT(a->link->let_in(from.range()).error().message, HasSubstr("messages carry checksums (WREATH_CHECK=1)"));
}

}  // namespace
}  // namespace wreath::verbs_device_memory
