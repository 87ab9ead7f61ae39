// Adapters read and write memory of a device by themselves. A device sees what they have written once that was flushed,
// and the double of a device here sees nothing before.
#include <algorithm>
#include <memory>
#include <string>

#include "tests/support/device_link.hpp"
#include "tests/unit/transports_verbs/ends.hpp"

namespace wreath::verbs_device_memory {
namespace {

using test::kDeviceBytes;
using testing::HasSubstr;

class VerbsDeviceMemory : public test::VerbsTest {
 protected:
  void SetUp() override {
    test::VerbsTest::SetUp();
    test::FakeBehaviour behaviour;
    behaviour.delay_us = 20;
    behaviour.hold_device_writes = true;
    behave(behaviour);
  }
  void link(const FifoShape& shape = test::device_shape()) {
    const auto end = [&](const char* adapter, Rank peer) {
      return std::make_unique<test::DeviceEnd>(VerbsAdapter::open(test::settings_for(adapter), 1 - peer, 2), peer,
                                               shape);
    };
    ranks.link(end("fake_0", 1), end("fake_1", 0));
  }
  void link_devices() {
    link();
    ranks.let_in();
  }
  void TearDown() override {
    ranks.a.reset();
    ranks.b.reset();
    test::VerbsTest::TearDown();
  }

  test::DeviceLink ranks{[this] { fake_.flush(); }};
  test::DeviceDouble& from = ranks.from;
  test::DeviceDouble& to = ranks.to;
};

TEST_F(VerbsDeviceMemory, IsReadAndWrittenByTheAdapters) {
  link_devices();
  const int flushes = to.flushes;
  ASSERT_EQ(ranks.send_and_receive(), "");
  EXPECT_TRUE(ranks.has_landed());
  EXPECT_EQ(to.flushes, flushes + 1);
  EXPECT_EQ(ranks.a->link->counts().copied_bytes, 0u);
  EXPECT_EQ(ranks.a->link->counts().by_reference, 1u);
  EXPECT_EQ(ranks.b->link->counts().landed_bytes, kDeviceBytes);
}

// The double would show a transport that leaves the flush out.
TEST_F(VerbsDeviceMemory, IsNotSeenWithoutAFlush) {
  link_devices();
  to.leaves_out = true;
  ASSERT_EQ(ranks.send_and_receive(), "");
  EXPECT_EQ(ranks.received(), to.data());
  EXPECT_FALSE(ranks.has_landed());
}

TEST_F(VerbsDeviceMemory, IsNotPublishedWhereAFlushFails) {
  link_devices();
  to.can_flush = false;
  EXPECT_THAT(ranks.send_and_receive(), HasSubstr("the double cannot flush"));
  EXPECT_EQ(peek(ranks.b->link->recv_fifo(0)), nullptr);
}

// The adapter may still read it.
TEST_F(VerbsDeviceMemory, TakesNothingWhereNobodyFlushes) {
  to.can_flush = false;
  link_devices();
  ASSERT_EQ(ranks.send_and_receive(), "");
  EXPECT_NE(ranks.received(), to.data());
  EXPECT_TRUE(std::equal(ranks.received(), ranks.received() + kDeviceBytes, from.data()));
  EXPECT_EQ(ranks.a->link->counts().copied_bytes, 0u);
  EXPECT_EQ(ranks.b->link->counts().landed_bytes, 0u);
}

TEST_F(VerbsDeviceMemory, IsStagedWhereItCannotBeRegistered) {
  test::FakeNetwork network;
  network.dma_buf = false;
  use(network);
  link();
  testing::internal::CaptureStderr();
  for (int time = 0; time < 2; ++time) {
    const Status let = ranks.a->link->let_in(from.range());
    ASSERT_FALSE(let);
    EXPECT_EQ(let.error().code, ErrorCode::Unavailable);
  }
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::AllOf(HasSubstr("fake_0 port 1: 256K of memory of a device cannot be registered"),
                             HasSubstr("ibv_reg_dmabuf_mr: Operation not supported")));
}

TEST_F(VerbsDeviceMemory, IsStagedWhereMessagesCarryChecksums) {
  link(test::device_shape(true));
  EXPECT_THAT(ranks.a->link->let_in(from.range()).error().message,
              HasSubstr("messages carry checksums (WREATH_CHECK=1)"));
}

}  // namespace
}  // namespace wreath::verbs_device_memory
