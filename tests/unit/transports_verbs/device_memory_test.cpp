// Adapters read and write memory of a device by themselves. A device sees what they have written once that was flushed,
// by its driver or by the adapter's read, and the double of a device here sees nothing before.
#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/base/clock.hpp"
#include "src/base/dma_buf.hpp"
#include "src/base/memfd.hpp"
#include "src/fifo/access.hpp"
#include "src/put/link.hpp"
#include "tests/unit/transports_verbs/ends.hpp"

namespace wreath::verbs_device_memory {
namespace {

using testing::HasSubstr;

constexpr std::uint32_t kBytes = 256 * 1024;  // two rails share a message

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

VerbsSettings settings_for(const std::vector<std::string>& adapters) {
  VerbsSettings settings = test::settings_for(adapters.front());
  for (std::size_t i = 1; i < adapters.size(); ++i) settings.adapters += "," + adapters[i];
  settings.rails = adapters.size();
  return settings;
}

// One rank with its link to the other one.
struct End {
  End(const std::vector<std::string>& adapters, Rank peer, const FifoShape& shape)
      : port(PutPort::make(VerbsAdapter::open(settings_for(adapters), 1 - peer, 2)).value()),
        link(PutLink::make(peer, port, shape, {.waiting = {20'000, 20'000 * kNsPerMs}}).value()) {}
  std::shared_ptr<PutPort> port;
  std::unique_ptr<PutLink> link;
};

class VerbsDeviceMemory : public test::VerbsTest {
 protected:
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
  void link(const FifoShape& shape = shape_of(), int rails = 1) {
    const bool one = rails == 1;
    a = std::make_unique<End>(one ? std::vector<std::string>{"fake_0"} : std::vector<std::string>{"fake_0", "fake_2"},
                              1, shape);
    b = std::make_unique<End>(one ? std::vector<std::string>{"fake_1"} : std::vector<std::string>{"fake_1", "fake_3"},
                              0, shape);
    ASSERT_TRUE(a->link->connect(b->link->offer()));
    ASSERT_TRUE(b->link->connect(a->link->offer()));
    ASSERT_TRUE(a->link->prepare(0));
  }
  // Links the ends, and lets the memory of both devices in, which differs.
  void link_devices(int rails = 1) {
    link(shape_of(), rails);
    ASSERT_TRUE(a->link->let_in(from.range()));
    ASSERT_TRUE(b->link->let_in(to.range()));
    from.fill(1);
    to.fill(100);
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
  // Sends a message to where rank 1 wants it, and returns the error's text.
  std::string send_and_receive() const {
    post(to.data());
    send(from.data());
    return receive();
  }
  // Returns whether the device of rank 1 has the message, and sees it.
  bool has_landed() const { return received() == to.data() && std::equal(to.data(), to.data() + kBytes, from.data()); }
  // Counts the queue pairs so far that let others read.
  std::ptrdiff_t readable_pairs() const {
    std::vector<test::FakeModify> all(1'000);
    all.resize(fake_.modifies(all.data(), all.size()));
    return std::ranges::count_if(all, [](const test::FakeModify& each) {
      return each.access >= 0 && (each.access & IBV_ACCESS_REMOTE_READ) != 0;
    });
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
  // Nobody may read anything.
  EXPECT_EQ(fake_.counters().begun_reads, 0u);
  EXPECT_EQ(fake_.counters().readable, 0u);
  EXPECT_EQ(readable_pairs(), 0);
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

// Each end tries a read when it lets memory in. The queue pair that reads is the only one that may be read through.
TEST_F(VerbsDeviceMemory, IsFlushedByAReadWhereItsDriverCannot) {
  link_devices_without_flush();
  EXPECT_EQ(fake_.counters().reads, 2u);
  EXPECT_EQ(fake_.counters().readable, 2u);
  EXPECT_EQ(readable_pairs(), 2);
  ASSERT_EQ(send_and_receive(), "");
  EXPECT_TRUE(has_landed());
  EXPECT_EQ(fake_.counters().reads, 3u);
  EXPECT_EQ(b->link->counts().landed_bytes, kBytes);
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
              testing::AllOf(HasSubstr("fake_0 port 1: 256K of memory of a device cannot be registered"),
                             HasSubstr("ibv_reg_dmabuf_mr: Operation not supported")));
}

TEST_F(VerbsDeviceMemory, IsStagedWhereMessagesCarryChecksums) {
  link(shape_of(true));
  EXPECT_THAT(a->link->let_in(from.range()).error().message, HasSubstr("messages carry checksums (WREATH_CHECK=1)"));
}

}  // namespace
}  // namespace wreath::verbs_device_memory
