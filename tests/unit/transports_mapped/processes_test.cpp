// Two real processes use shm: they exchange messages, one of them dies, frees memory or wakes the other.
#include "tests/unit/transports_mapped/processes.hpp"

#include <poll.h>
#include <signal.h>

#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/fifo/access.hpp"
#include "src/fifo/mapped_link.hpp"
#include "src/fifo/segment.hpp"
#include "wreath/memory.hpp"

namespace wreath::processes {
namespace {

constexpr FifoShape kShape{.lanes = 1, .slot_count = 4, .slot_bytes = 4096, .first_sequence = 0xfffffffeU, .epoch = 0};

// One end of a link, made after the fork. It does what a communicator does to link itself to one peer.
struct End {
  Fd control;
  Rank peer;
  std::unique_ptr<OwnSegment> segment;
  std::unique_ptr<Transport> transport;
  std::unique_ptr<Link> link;

  End(Rank rank, Fd socket) : control(std::move(socket)), peer(1 - rank) {
    segment = std::move(OwnSegment::create(rank, 2, kShape, host_segment_memory(true))).value();
    transport = std::move(find_transport("shm")->make({endpoint(rank), 2, kShape, segment.get()})).value();
    send_offer(control, std::move(transport->offer(endpoint(peer))).value());
    link = std::move(transport->connect(endpoint(peer), receive_offer(control))).value();
  }
  static Endpoint endpoint(Rank rank) { return {rank, static_cast<std::uint64_t>(rank), 1}; }

  void announce() {
    const std::vector<Announcement> news = segment->take_announcements(peer).value();
    for (const Announcement& announcement : news) send_offer(control, announcement.offer);
  }
  void accept(std::uint32_t index) { link->mapped()->accept_region(index, receive_offer(control)).value(); }
  SendFifo& send() { return link->send_fifo(0); }
  RecvFifo& recv() { return link->recv_fifo(0); }
};

void send_words(SendFifo& fifo, std::uint32_t value) {
  while (!has_credit(fifo)) std::this_thread::yield();
  std::byte* const data = stage(fifo);
  for (std::size_t i = 0; i < 4096; i += sizeof(value)) std::memcpy(data + i, &value, sizeof(value));
  next_slot(fifo).bytes = 4096;
  publish(fifo);
}

// Waits for the next message and expects every word of it to be `value`.
void expect_words(RecvFifo& fifo, std::uint32_t value) {
  const SlotHeader* slot = nullptr;
  while ((slot = peek(fifo)) == nullptr) std::this_thread::yield();
  const Located located = locate(fifo, *slot);
  ASSERT_EQ(located.state, Locating::Found);
  for (std::size_t i = 0; i < slot->bytes; i += sizeof(value)) {
    std::uint32_t word;
    std::memcpy(&word, located.data + i, sizeof(word));
    ASSERT_EQ(word, value);
  }
  consume(fifo);
}

void prepare_and_announce(End& end) {
  end.link->prepare(0).value();
  end.announce();
  end.accept(1);
}

TEST(ShmProcesses, ExchangeMessagesBothWays) {
  const auto drive = [](Rank rank, Fd socket) {
    End end(rank, std::move(socket));
    prepare_and_announce(end);
    for (std::uint32_t i = 0; i < 500; ++i) {
      send_words(end.send(), i * 2 + static_cast<std::uint32_t>(rank));
      expect_words(end.recv(), i * 2 + static_cast<std::uint32_t>(1 - rank));
    }
  };
  auto [child, socket] = start_peer([&drive](Fd theirs) { drive(1, std::move(theirs)); });
  drive(0, std::move(socket));
  expect_success(child);
}

TEST(ShmProcesses, StayReadableWhenThePeerIsKilled) {
  auto [child, socket] = start_peer([](Fd theirs) {
    End end(1, std::move(theirs));
    prepare_and_announce(end);
    for (std::uint32_t i = 0; i < kShape.slot_count; ++i) send_words(end.send(), i);
    std::memset(end.segment->small_area(), 0x5a, small_area_bytes(2));
    ::raise(SIGKILL);
  });
  End end(0, std::move(socket));
  prepare_and_announce(end);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  for (std::uint32_t i = 0; i < kShape.slot_count; ++i) expect_words(end.recv(), i);
  EXPECT_EQ(peek(end.recv()), nullptr);
  EXPECT_EQ(end.link->mapped()->peer().small_area()[small_area_bytes(2) - 1], std::byte{0x5a});
  EXPECT_TRUE(read_is_valid(*end.link->mapped()->peer().aborted()));
  end.link->mapped()->wake();
}

struct Mapping {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  std::string access;
};

Mapping mapping_of(const void* data) {
  const auto at = reinterpret_cast<std::uintptr_t>(data);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    Mapping mapping;
    char dash = 0;
    std::istringstream(line) >> std::hex >> mapping.begin >> dash >> mapping.end >> mapping.access;
    if (mapping.begin <= at && at < mapping.end) return mapping;
  }
  return {};
}

TEST(ShmProcesses, MapAPeersMemoryReadOnlyButForPingPongSlots) {
  auto [child, socket] = start_peer([](Fd theirs) {
    End end(1, std::move(theirs));
    prepare_and_announce(end);
    receive_offer(end.control);
  });
  {
    End end(0, std::move(socket));
    prepare_and_announce(end);
    const PeerSegment& peer = end.link->mapped()->peer();
    EXPECT_EQ(mapping_of(peer.slots(0, 0)).access, "r--s");
    EXPECT_EQ(mapping_of(peer.small_area()).access, "r--s");
    EXPECT_EQ(mapping_of(end.recv().regions[1].base).access, "r--s") << "staging";
    const Mapping both = mapping_of(peer.ping_pong());
    EXPECT_EQ(both.access, "rw-s");
    EXPECT_EQ(both.begin, reinterpret_cast<std::uintptr_t>(peer.ping_pong()));
    EXPECT_EQ(both.end - both.begin, kPingPongShareBytes);
    EXPECT_EQ(mapping_of(end.segment->small_area()).access, "rw-s") << "the own one";
  }
  expect_success(child);
  EXPECT_EQ(mapped_memfds(), 0);
}

// The owner frees memory that a peer still reads. The memory is gone at once, and the peer reads zeros.
TEST(ShmProcesses, ReadFreedMemoryWithoutAFault) {
  auto [child, socket] = start_peer([](Fd theirs) {
    End end(1, std::move(theirs));
    std::optional<Memory> memory(std::move(allocate(1 << 20)).value());
    std::memset(memory->data(), 0x77, memory->size());
    EXPECT_EQ(end.segment->name_memory(memory->data(), memory->size())->index, 1U);
    end.announce();
    receive_offer(end.control);
    memory.reset();
    send_offer(end.control, Offer());
    receive_offer(end.control);
  });
  {
    End end(0, std::move(socket));
    end.accept(1);
    SlotHeader header{};
    header.region = 1;
    header.offset = 1 << 19;
    header.bytes = 1 << 19;
    const Located located = locate(end.recv(), header);
    ASSERT_EQ(located.state, Locating::Found);
    EXPECT_EQ(located.data[header.bytes - 1], std::byte{0x77});
    Offer go;
    go.bytes.resize(1);
    send_offer(end.control, go);
    receive_offer(end.control);
    EXPECT_EQ(located.data[header.bytes - 1], std::byte{0});
  }
  expect_success(child);
}

TEST(ShmProcesses, WakeASleepingPeer) {
  auto [child, socket] = start_peer([](Fd theirs) {
    End end(1, std::move(theirs));
    end.accept(1);
    end.segment->begin_sleep();
    if (peek(end.recv()) == nullptr) {
      Offer asleep;
      asleep.bytes.resize(1);
      send_offer(end.control, asleep);
      pollfd poll_doorbell{end.segment->doorbell(), POLLIN, 0};
      EXPECT_EQ(::poll(&poll_doorbell, 1, 20'000), 1);
    }
    end.segment->end_sleep();
    expect_words(end.recv(), 12);
  });
  End end(0, std::move(socket));
  end.link->prepare(0).value();
  end.announce();
  receive_offer(end.control);
  send_words(end.send(), 12);
  end.link->mapped()->wake();
  expect_success(child);
}

TEST(ShmProcesses, LeaveTheParentsMemoryAloneAfterAFork) {
  std::optional<Memory> memory(std::move(allocate(8192)).value());
  std::memset(memory->data(), 0x11, memory->size());
  const pid_t child = start_child([&memory] { memory.reset(); });
  expect_success(child);
  EXPECT_EQ(memory->data()[8191], std::byte{0x11});
}

}  // namespace
}  // namespace wreath::processes
