// Adapters read and write memory of a device by themselves. A device sees what they have written once that was flushed,
// and the double of a device here sees nothing before.
#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "src/base/clock.hpp"
#include "src/base/dma_buf.hpp"
#include "src/base/memfd.hpp"
#include "src/fifo/access.hpp"
#include "src/put/link.hpp"
#include "tests/unit/transports_verbs/ends.hpp"

namespace wreath::verbs_device_memory {
namespace {

using testing::HasSubstr;

constexpr std::uint32_t kBytes = 64 * 1024;

FifoShape shape_of(bool checked = false) {
  return {.lanes = 1, .slot_count = 4, .slot_bytes = kBytes, .first_sequence = 0, .epoch = 1, .checked = checked};
}

// A device with one allocation.
class DeviceDouble final : public DmaBufDevice {
 public:
  explicit DeviceDouble(const test::FakeVerbs& fake)
      : fake_(fake), memory_(make_memfd("device", kBytes, "the test's").value()) {
    void* const mapped = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory_.get(), 0);
    if (mapped == MAP_FAILED) std::abort();
    data_ = static_cast<std::byte*>(mapped);
  }
  ~DeviceDouble() override { ::munmap(data_, kBytes); }
  DeviceDouble(const DeviceDouble&) = delete;
  DeviceDouble& operator=(const DeviceDouble&) = delete;

  Result<DmaBuf> dma_buf(const std::byte* /*begin*/) override {
    return DmaBuf{Fd::of_process(::dup(memory_.get())), 0, kBytes};
  }
  Status flush_adapter_writes() override {
    ++flushes;
    if (!can_flush) return Error{ErrorCode::Unavailable, "the double cannot flush"};
    if (!leaves_out) fake_.flush();
    return {};
  }
  DeviceRange range() { return {this, 7, data_, data_, kBytes}; }
  std::byte* data() const { return data_; }
  void fill(int first) {
    for (std::uint32_t i = 0; i < kBytes; ++i) data_[i] = static_cast<std::byte>(first + static_cast<int>(i / 7));
  }

  int flushes = 0;
  bool can_flush = true;
  bool leaves_out = false;

 private:
  const test::FakeVerbs& fake_;
  Fd memory_;
  std::byte* data_ = nullptr;
};

// One rank with its link to the other one.
struct End {
  End(const std::string& adapter, Rank peer, const FifoShape& shape)
      : port(PutPort::make(VerbsAdapter::open(test::settings_for(adapter), 1 - peer, 2)).value()),
        link(PutLink::make(peer, port, shape, {.waiting = {20'000, 20'000 * kNsPerMs}}).value()) {}
  std::shared_ptr<PutPort> port;
  std::unique_ptr<PutLink> link;
};

class VerbsDeviceMemory : public test::VerbsTest {
 protected:
  void SetUp() override {
    test::VerbsTest::SetUp();
    test::FakeBehaviour behaviour;
    behaviour.delay_us = 20;
    behaviour.hold_device_writes = true;
    behave(behaviour);
  }
  void link(const FifoShape& shape = shape_of()) {
    a = std::make_unique<End>("fake_0", 1, shape);
    b = std::make_unique<End>("fake_1", 0, shape);
    ASSERT_TRUE(a->link->connect(b->link->offer()));
    ASSERT_TRUE(b->link->connect(a->link->offer()));
    ASSERT_TRUE(a->link->prepare(0));
  }
  // Links the ends, and lets the memory of both devices in, which differs.
  void link_devices() {
    link();
    ASSERT_TRUE(a->link->let_in(from.range()));
    ASSERT_TRUE(b->link->let_in(to.range()));
    from.fill(1);
    to.fill(100);
  }
  void TearDown() override {
    a.reset();
    b.reset();
    test::VerbsTest::TearDown();
  }
  // Publishes a message of rank 0 that lies at `data`.
  void send(const std::byte* data) const {
    SendFifo& fifo = a->link->send_fifo(0);
    ASSERT_TRUE(has_credit(fifo));
    SlotHeader& slot = next_slot(fifo);
    slot.epoch = 1;
    slot.signature = 3;
    slot.bytes = kBytes;
    slot.flags = kSlotLands;
    slot.region = kLocalAddress;
    slot.offset = reinterpret_cast<std::uintptr_t>(data);
    publish(fifo);
  }
  // Goes on until rank 1 has the message, or an end fails. Returns the error's text.
  std::string receive() const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (peek(b->link->recv_fifo(0)) == nullptr) {
      if (std::chrono::steady_clock::now() > end) return "nothing within 20 s";
      for (const auto& [own, other] : {std::pair(a.get(), b.get()), std::pair(b.get(), a.get())}) {
        const auto moved = own->link->progress(true);
        if (!moved) return moved.error().message;
        while (auto word = own->link->take_word()) {
          if (const Status taken = other->link->on_word(*std::move(word)); !taken) return taken.error().message;
        }
      }
    }
    return "";
  }
  // Returns where the message is that rank 1 has.
  const std::byte* received() const {
    RecvFifo& fifo = b->link->recv_fifo(0);
    return locate(fifo, *peek(fifo)).data;
  }
  void post(std::byte* place) const {
    RecvFifo& fifo = b->link->recv_fifo(0);
    fifo.posted = fifo.next;
    post_ahead(fifo, place, kBytes);
  }

  DeviceDouble from{fake_};
  DeviceDouble to{fake_};
  std::unique_ptr<End> a;
  std::unique_ptr<End> b;
};

TEST_F(VerbsDeviceMemory, IsReadAndWrittenByTheAdapters) {
  link_devices();
  const int flushes = to.flushes;
  post(to.data());
  send(from.data());
  ASSERT_EQ(receive(), "");
  EXPECT_EQ(received(), to.data());
  EXPECT_TRUE(std::equal(to.data(), to.data() + kBytes, from.data()));
  EXPECT_EQ(to.flushes, flushes + 1);
  EXPECT_EQ(a->link->counts().copied_bytes, 0u);
  EXPECT_EQ(a->link->counts().by_reference, 1u);
  EXPECT_EQ(b->link->counts().landed_bytes, kBytes);
}

// The double would show a transport that leaves the flush out.
TEST_F(VerbsDeviceMemory, IsNotSeenWithoutAFlush) {
  link_devices();
  to.leaves_out = true;
  post(to.data());
  send(from.data());
  ASSERT_EQ(receive(), "");
  EXPECT_EQ(received(), to.data());
  EXPECT_FALSE(std::equal(to.data(), to.data() + kBytes, from.data()));
}

TEST_F(VerbsDeviceMemory, IsNotPublishedWhereAFlushFails) {
  link_devices();
  to.can_flush = false;
  post(to.data());
  send(from.data());
  EXPECT_THAT(receive(), HasSubstr("the double cannot flush"));
  EXPECT_EQ(peek(b->link->recv_fifo(0)), nullptr);
}

// The adapter may still read it.
TEST_F(VerbsDeviceMemory, TakesNothingWhereNobodyFlushes) {
  link();
  to.can_flush = false;
  ASSERT_TRUE(a->link->let_in(from.range()));
  ASSERT_TRUE(b->link->let_in(to.range()));
  from.fill(1);
  post(to.data());
  send(from.data());
  ASSERT_EQ(receive(), "");
  EXPECT_NE(received(), to.data());
  EXPECT_TRUE(std::equal(received(), received() + kBytes, from.data()));
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
              testing::AllOf(HasSubstr("fake_0 port 1: 64K of memory of a device cannot be registered"),
                             HasSubstr("ibv_reg_dmabuf_mr: Operation not supported")));
}

TEST_F(VerbsDeviceMemory, IsStagedWhereMessagesCarryChecksums) {
  link(shape_of(true));
  EXPECT_THAT(a->link->let_in(from.range()).error().message, HasSubstr("messages carry checksums (WREATH_CHECK=1)"));
}

}  // namespace
}  // namespace wreath::verbs_device_memory
