// Two links exchange messages: order, content, credit and landings are as promised.
#include "transports/tcp/link.hpp"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <thread>

#include "src/base/clock.hpp"
#include "src/fifo/access.hpp"
#include "tests/unit/transports_tcp/pair.hpp"

namespace wreath::tcp_link {
namespace {

constexpr std::uint32_t kSlotBytes = 16384;
const std::vector<std::size_t> kSizes = {0, 1, 63, 64, 65, 4095, 4096, 4097, 5000, kSlotBytes - 1, kSlotBytes};

// The messages of one lane in one direction, with the next one to send and the next one to receive.
struct Stream {
  SendFifo* send;
  RecvFifo* recv;
  std::uint32_t lane;
  std::vector<std::vector<std::byte>> messages;
  std::size_t offset;  // misaligns every message
  std::size_t sent = 0;
  std::size_t seen = 0;

  void send_all() {
    while (sent < messages.size()) {
      const auto& memory = messages[sent];
      if (!try_send(*send, memory.data() + offset, memory.size() - offset, lane)) return;
      ++sent;
    }
  }
  void take_all(std::uint32_t first_sequence) {
    Received got;
    while (try_recv(*recv, got)) {
      const auto& memory = messages[seen];
      ASSERT_EQ(got.sequence, first_sequence + static_cast<std::uint32_t>(seen));
      ASSERT_EQ(got.signature, lane);
      ASSERT_EQ(got.data.size(), memory.size() - offset);
      ASSERT_TRUE(got.data.empty() || std::memcmp(got.data.data(), memory.data() + offset, got.data.size()) == 0);
      ++seen;
    }
  }
  bool done() const { return seen == messages.size(); }
};

Stream make_stream(TcpLink& from, TcpLink& to, std::uint16_t lane, int rounds, std::size_t offset) {
  Stream stream{&from.send_fifo(lane), &to.recv_fifo(lane), lane, {}, offset};
  std::mt19937 random(lane);
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < kSizes.size(); ++i) {
      const std::size_t bytes = kSizes[random() % kSizes.size()];
      stream.messages.push_back(filled(lane, static_cast<std::uint32_t>(stream.messages.size()), bytes + offset));
    }
  }
  return stream;
}

struct Case {
  SocketKind kind;
  std::uint32_t slot_count;
  bool checked = false;
};

LinkPair pair_of(const Case& with, std::uint16_t lanes, std::uint32_t first = 0) {
  FifoShape shape = shape_of(lanes, with.slot_count, kSlotBytes, first);
  shape.checked = with.checked;
  return LinkPair(shape, with.kind);
}

class TcpLinks : public testing::TestWithParam<Case> {};

TEST_P(TcpLinks, DeliverEveryMessageInOrderOnManyLanesBothWays) {
  constexpr std::uint16_t kLanes = 5;
  const std::uint32_t first = 0xfffffffd;  // wraps after three messages
  LinkPair pair = pair_of(GetParam(), kLanes, first);
  std::vector<Stream> streams;
  for (std::uint16_t lane = 0; lane < kLanes; ++lane) {
    streams.push_back(make_stream(*pair.a, *pair.b, lane, 10, lane * 13u % 64));
    streams.push_back(make_stream(*pair.b, *pair.a, lane, 10, lane * 29u % 64));
  }
  std::string why;
  const bool done = drive(
      pair,
      [&] {
        bool all = true;
        for (Stream& stream : streams) {
          stream.send_all();
          stream.take_all(first);
          all = all && stream.done();
        }
        return all;
      },
      &why);
  EXPECT_TRUE(done) << why;
}

TEST_P(TcpLinks, MayBeDrivenByTwoThreads) {
  constexpr std::uint16_t kLanes = 3;
  LinkPair pair = pair_of(GetParam(), kLanes);
  std::vector<std::vector<std::byte>> content;
  for (const std::size_t bytes : kSizes) content.push_back(filled(7, 7, bytes));
  constexpr std::uint32_t kMessages = 200;
  auto run = [&](TcpLink& link, bool& fine) {
    std::vector<std::uint32_t> sent(kLanes), seen(kLanes);
    const std::int64_t start = now_ns();
    fine = true;
    for (std::uint32_t finished = 0; finished < 2 * kLanes && fine;) {
      finished = 0;
      for (std::uint16_t lane = 0; lane < kLanes; ++lane) {
        const auto& out = content[(sent[lane] + lane) % content.size()];
        if (sent[lane] < kMessages && try_send(link.send_fifo(lane), out.data(), out.size())) ++sent[lane];
        Received got;
        if (try_recv(link.recv_fifo(lane), got))
          fine = fine && got.data == content[(seen[lane]++ + lane) % content.size()];
        const bool all_sent = sent[lane] == kMessages && drained(link.send_fifo(lane));
        finished += static_cast<std::uint32_t>(all_sent) + static_cast<std::uint32_t>(seen[lane] == kMessages);
      }
      fine = fine && static_cast<bool>(link.progress(true)) && !expired(start);
    }
  };
  bool fine_a = false;
  bool fine_b = false;
  std::thread other([&] { run(*pair.b, fine_b); });
  run(*pair.a, fine_a);
  other.join();
  EXPECT_TRUE(fine_a);
  EXPECT_TRUE(fine_b);
}

INSTANTIATE_TEST_SUITE_P(Wires, TcpLinks,
                         testing::Values(Case{SocketKind::Unix, 1}, Case{SocketKind::Unix, 2},
                                         Case{SocketKind::Unix, 8}, Case{SocketKind::Tcp, 1}, Case{SocketKind::Tcp, 2},
                                         Case{SocketKind::Tcp, 4}, Case{SocketKind::Tcp, 8},
                                         Case{SocketKind::Unix, 2, true}, Case{SocketKind::Tcp, 4, true}),
                         [](const auto& row) {
                           return std::string(row.param.kind == SocketKind::Unix ? "Unix" : "Tcp") +
                                  std::to_string(row.param.slot_count) + (row.param.checked ? "Checked" : "");
                         });

class TcpLanding : public testing::TestWithParam<std::size_t> {};

TEST_P(TcpLanding, PutsTheMessageWhereTheStepWantsIt) {
  LinkPair pair(shape_of(1, 2, kSlotBytes));
  const auto data = filled(0, 0, GetParam());
  std::vector<std::byte> target(data.size());
  *pair.b->recv_fifo(0).landing = {target.data(), 0, static_cast<std::uint32_t>(data.size())};
  ASSERT_TRUE(try_send(pair.a->send_fifo(0), data.data(), data.size()));
  Received got;
  ASSERT_TRUE(drive(pair, [&] { return try_recv(pair.b->recv_fifo(0), got); }));
  EXPECT_EQ(got.at, target.data());
  EXPECT_EQ(target, data);
}

TEST_P(TcpLanding, IsNotUsedForAnotherMessage) {
  LinkPair pair(shape_of(1, 2, kSlotBytes));
  const auto data = filled(0, 0, GetParam());
  const auto bytes = static_cast<std::uint32_t>(data.size());
  for (const Landing& landing :
       {Landing{nullptr, 1, bytes}, Landing{nullptr, 0, bytes + 1}, Landing{nullptr, 0, bytes - 1}}) {
    std::vector<std::byte> target(data.size() + 1);
    LinkPair other(shape_of(1, 2, kSlotBytes));
    *other.b->recv_fifo(0).landing = {target.data(), landing.sequence, landing.bytes};
    ASSERT_TRUE(try_send(other.a->send_fifo(0), data.data(), data.size()));
    Received got;
    ASSERT_TRUE(drive(other, [&] { return try_recv(other.b->recv_fifo(0), got); }));
    EXPECT_NE(got.at, target.data());
    EXPECT_EQ(got.data, data);
    EXPECT_EQ(target, std::vector<std::byte>(data.size() + 1));
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, TcpLanding, testing::Values(1, 64, 4096, 4097, kSlotBytes));

TEST(TcpLanding, PostedTooLateChangesNothing) {
  LinkPair pair(shape_of(1, 1, kSlotBytes));
  auto [raw, socket] = connected(SocketKind::Unix);
  auto link = link_over(std::move(socket), shape_of(1, 1, kSlotBytes), 0);
  WireHeader header;
  header.epoch = kTestEpoch;
  header.bytes = kSlotBytes;
  std::vector<std::byte> frame(64 + kSlotBytes);
  encode(header, frame.data());
  const auto data = filled(0, 0, kSlotBytes);
  std::copy(data.begin(), data.end(), frame.begin() + 64);
  ASSERT_EQ(::send(raw.get(), frame.data(), 10'000, 0), 10'000);
  ASSERT_TRUE(link->progress(true));
  std::vector<std::byte> target(kSlotBytes);
  *link->recv_fifo(0).landing = {target.data(), 0, kSlotBytes};
  ASSERT_EQ(::send(raw.get(), frame.data() + 10'000, frame.size() - 10'000, 0),
            static_cast<ssize_t>(frame.size() - 10'000));
  ASSERT_TRUE(link->progress(true));
  Received got;
  ASSERT_TRUE(try_recv(link->recv_fifo(0), got));
  EXPECT_NE(got.at, target.data());
  EXPECT_EQ(got.data, data);
}

TEST(TcpLanding, OfTheNextMessageMayBePostedAfterTheFirstOne) {
  LinkPair pair(shape_of(1, 2, kSlotBytes));
  const auto data = filled(0, 0, kSlotBytes);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(try_send(pair.a->send_fifo(0), data.data(), data.size()));
  ASSERT_TRUE(pair.a->progress(false));
  RecvFifo& fifo = pair.b->recv_fifo(0);
  for (std::uint32_t i = 0; i < 2; ++i) {
    std::vector<std::byte> target(kSlotBytes);
    *fifo.landing = {target.data(), i, kSlotBytes};
    ASSERT_GT(pair.b->progress(true).value(), 0u);
    Received got;
    ASSERT_TRUE(try_recv(fifo, got));
    EXPECT_EQ(got.at, target.data());
    EXPECT_EQ(got.data, data);
  }
}

// The other end of a link's stream, which sees every frame that comes back.
struct FrameWatcher {
  explicit FrameWatcher(const FifoShape& its_shape) : shape(its_shape) {
    auto [mine, socket] = connected(SocketKind::Unix);
    raw = std::move(mine);
    link = link_over(std::move(socket), shape, 0);
  }
  // Sends a message on lane 1, which is read at once, and lets the link answer.
  void exchange_one(std::uint32_t sequence, std::uint32_t bytes) {
    WireHeader header;
    header.epoch = kTestEpoch;
    header.lane = 1;
    header.sequence = sequence;
    header.bytes = bytes;
    const FrameExtent parts = extent(header);
    std::vector<std::byte> frame(parts.prefix + parts.bytes + parts.tail);
    encode(header, frame.data());
    ASSERT_EQ(::send(raw.get(), frame.data(), frame.size(), 0), static_cast<ssize_t>(frame.size()));
    Received got;
    for (int i = 0; i < 20; ++i) {
      link->progress(true).value();
      try_recv(link->recv_fifo(1), got);
    }
  }
  // Returns the header of the frame of 64 bytes that has come back, or nullopt if none has.
  std::optional<WireHeader> next_back() {
    std::byte back[kWireHeaderBytes + 96];
    if (::recv(raw.get(), back, sizeof back, MSG_DONTWAIT) != 64) return std::nullopt;
    return decode(std::span<const std::byte, kWireHeaderBytes>(back, kWireHeaderBytes), shape).value();
  }
  FifoShape shape;
  Fd raw;
  std::unique_ptr<TcpLink> link;
};

void expect_credit(const std::optional<WireHeader>& header, FrameKind kind, std::uint32_t credit) {
  ASSERT_TRUE(header);
  EXPECT_EQ(header->kind, kind);
  EXPECT_EQ(header->credit_lane, 1);
  EXPECT_EQ(header->credit, credit);
}

TEST(TcpLink, CreditTravelsWithMessagesAndAloneOnlyWhenHalfOfItIsOwed) {
  FrameWatcher watcher(shape_of(2, 2, kSlotBytes));  // a window of 8
  for (std::uint32_t i = 0; i < 3; ++i) watcher.exchange_one(i, 0);
  EXPECT_FALSE(watcher.next_back());
  watcher.exchange_one(3, 0);
  expect_credit(watcher.next_back(), FrameKind::Credit, 4);
  watcher.exchange_one(4, 0);
  const std::byte data[8] = {};
  ASSERT_TRUE(try_send(watcher.link->send_fifo(0), data, 8));
  watcher.link->progress(true).value();
  expect_credit(watcher.next_back(), FrameKind::Data, 5);
}

TEST(TcpLink, HalfOfTheLargeMessagesIsReportedAtOnce) {
  FrameWatcher watcher(shape_of(2, 4, kSlotBytes));
  watcher.exchange_one(0, kSlotBytes);
  watcher.exchange_one(1, 8);
  EXPECT_FALSE(watcher.next_back());
  watcher.exchange_one(2, kSlotBytes);
  expect_credit(watcher.next_back(), FrameKind::Credit, 3);
}

TEST(TcpLink, ASlowLaneHoldsUpNoOther) {
  for (const std::uint32_t slots : {1u, 2u, 8u}) {
    LinkPair pair(shape_of(2, slots, kSlotBytes));
    const auto data = filled(0, 0, kSlotBytes);
    std::uint32_t on_slow = 0;
    std::uint32_t seen = 0;
    EXPECT_TRUE(drive(pair, [&] {  // lane 0 is filled and never read
      while (try_send(pair.a->send_fifo(0), data.data(), data.size())) ++on_slow;
      try_send(pair.a->send_fifo(1), data.data(), data.size());
      Received got;
      if (try_recv(pair.b->recv_fifo(1), got)) ++seen;
      return seen == 500;
    })) << slots;
    // The receiver has room for `slots` messages, and as many wait at the sender.
    EXPECT_LE(on_slow, 2 * slots);
    EXPECT_GT(on_slow, slots);
  }
}

// Messages of `bytes` each, of which `room` may be unread.
struct Load {
  std::size_t bytes;
  std::uint32_t room;
};

// Sends messages of `bytes` that nobody reads, and returns how many of them the wire took.
std::uint32_t taken_unread(LinkPair& pair, std::size_t bytes) {
  const std::vector<std::byte> data(bytes);
  std::uint32_t taken = 0;
  for (int idle = 0; idle < 50; ++idle) {
    SendFifo& fifo = pair.a->send_fifo(0);
    while (try_send(fifo, data.data(), data.size())) idle = 0;
    EXPECT_TRUE(pair.a->progress(true));
    EXPECT_TRUE(pair.b->progress(true));
    taken = fifo.consumed->value;
  }
  return taken;
}

TEST(TcpLink, FourTimesAsManySmallMessagesAsSlotsMayBeUnread) {
  for (const std::uint32_t slots : {1u, 4u}) {
    for (const auto& [bytes, messages] :
         {Load{0, 4 * slots}, Load{kCopiedBytes, 4 * slots}, Load{kCopiedBytes + 1, slots}, Load{kSlotBytes, slots}}) {
      LinkPair pair(shape_of(1, slots, kSlotBytes));
      EXPECT_EQ(taken_unread(pair, bytes), messages) << slots << " slots, " << bytes << " bytes";
    }
  }
}

TEST(TcpLink, LargeMessagesAmongSmallOnesStayWithinTheirSlots) {
  LinkPair pair(shape_of(1, 2, kSlotBytes, 0xfffffff0U));
  std::vector<std::vector<std::byte>> messages;
  for (std::uint32_t i = 0; i < 300; ++i) {
    messages.push_back(filled(0, i, i % 3 == 0 || i % 7 == 0 ? kSlotBytes - i : i));
  }
  std::size_t sent = 0;
  std::size_t seen = 0;
  std::string why;
  EXPECT_TRUE(drive(
      pair,
      [&] {
        while (sent < messages.size() && try_send(pair.a->send_fifo(0), messages[sent].data(), messages[sent].size()))
          ++sent;
        Received got;  // one at a time, so that many wait
        if (try_recv(pair.b->recv_fifo(0), got)) {
          EXPECT_EQ(got.data, messages[seen++]);
        }
        return seen == messages.size();
      },
      &why))
      << why;
}

TEST(TcpLink, AllSlotsAreUsableInTheEnd) {
  for (const std::uint32_t slots : {1u, 2u, 4u, 8u}) {
    for (const auto& [bytes, room] : {Load{8, 4 * slots}, Load{kSlotBytes, slots}}) {
      LinkPair pair(shape_of(1, slots, kSlotBytes));
      const std::vector<std::byte> data(bytes);
      Received got;
      for (std::uint32_t i = 0; i < room; ++i) {
        ASSERT_TRUE(try_send(pair.a->send_fifo(0), data.data(), bytes));
        ASSERT_TRUE(drive(pair, [&] { return drained(pair.a->send_fifo(0)); }));
      }
      // The receiver reads one message. One more message must then arrive, without any frame from the receiver.
      for (std::uint32_t read = 1; read < 3 * room; ++read) {
        ASSERT_TRUE(drive(pair, [&] { return try_recv(pair.b->recv_fifo(0), got); }));
        ASSERT_TRUE(try_send(pair.a->send_fifo(0), data.data(), bytes));
        ASSERT_TRUE(drive(pair, [&] { return drained(pair.a->send_fifo(0)); })) << slots << " slots, message " << read;
      }
    }
  }
}

TEST(TcpLink, ResumesPartialSends) {
  LinkPair pair(shape_of(3, 4, 1 << 20));
  const int tiny = 4096;
  ASSERT_EQ(::setsockopt(pair.a->descriptor(), SOL_SOCKET, SO_SNDBUF, &tiny, sizeof tiny), 0);
  std::vector<std::vector<std::byte>> data;
  for (std::uint32_t lane = 0; lane < 3; ++lane) data.push_back(filled(lane, 0, (1 << 20) - lane * 17));
  for (std::uint16_t lane = 0; lane < 3; ++lane)
    ASSERT_TRUE(try_send(pair.a->send_fifo(lane), data[lane].data(), data[lane].size()));
  EXPECT_EQ(pair.a->in_flight(), data[0].size() + data[1].size() + data[2].size() + 3 * kWireHeaderBytes);
  ASSERT_TRUE(pair.a->progress(false));
  EXPECT_TRUE(pair.a->send_blocked());
  EXPECT_FALSE(drained(pair.a->send_fifo(0)));
  std::vector<bool> seen(3);
  ASSERT_TRUE(drive(pair, [&] {
    for (std::uint16_t lane = 0; lane < 3; ++lane) {
      Received got;
      if (!try_recv(pair.b->recv_fifo(lane), got)) continue;
      EXPECT_EQ(got.data, data[lane]);
      seen[lane] = true;
    }
    return seen[0] && seen[1] && seen[2];
  }));
  EXPECT_EQ(pair.a->in_flight(), 0u);
  EXPECT_FALSE(pair.a->send_blocked());
}

TEST(TcpLink, CountsMessagesThatWaitForThePeersSlots) {
  LinkPair pair(shape_of(1, 1, kSlotBytes));
  const std::vector<std::byte> data(kSlotBytes);
  ASSERT_TRUE(try_send(pair.a->send_fifo(0), data.data(), data.size()));
  EXPECT_GT(pair.a->in_flight(), 0u);
  ASSERT_TRUE(pair.a->progress(false));
  EXPECT_EQ(pair.a->in_flight(), 0u);
  ASSERT_TRUE(try_send(pair.a->send_fifo(0), data.data(), data.size()));
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(pair.a->progress(false));
  EXPECT_GT(pair.a->in_flight(), 0u);
  EXPECT_FALSE(pair.a->send_blocked());
  Received got;
  ASSERT_TRUE(drive(pair, [&] { return try_recv(pair.b->recv_fifo(0), got); }));
  EXPECT_TRUE(drive(pair, [&] { return pair.a->in_flight() == 0; }));
}

TEST(TcpLink, GivesStagingForCopiedMessages) {
  LinkPair pair(shape_of(2, 2, kSlotBytes));
  SendFifo& fifo = pair.a->send_fifo(1);
  EXPECT_TRUE(fifo.by_reference);
  EXPECT_EQ(fifo.staging, nullptr);
  ASSERT_TRUE(pair.a->prepare(1));
  for (std::uint32_t i = 0; i < 20; ++i) {
    const auto data = filled(1, i, kSlotBytes);
    std::memcpy(stage(fifo), data.data(), data.size());
    SlotHeader& slot = next_slot(fifo);
    slot.epoch = kTestEpoch;
    slot.signature = i;
    slot.bytes = kSlotBytes;
    publish(fifo);
    Received got;
    ASSERT_TRUE(drive(pair, [&] { return try_recv(pair.b->recv_fifo(1), got); }));
    EXPECT_EQ(got.data, data);
    EXPECT_EQ(got.signature, i);
  }
}

TEST(TcpLink, ReceivesSeldomWhenNothingIsExpected) {
  LinkPair pair(shape_of(1, 2, kSlotBytes));
  const std::byte data[8] = {};
  ASSERT_TRUE(try_send(pair.a->send_fifo(0), data, 8));
  ASSERT_TRUE(pair.a->progress(false));
  int calls = 0;
  while (peek(pair.b->recv_fifo(0)) == nullptr && calls < 100) {
    ASSERT_TRUE(pair.b->progress(false));
    ++calls;
  }
  EXPECT_EQ(calls, 16);
}

TEST(TcpLink, SetsNoDelay) {
  LinkPair pair(shape_of(1, 2, kSlotBytes), SocketKind::Tcp);
  int value = 0;
  socklen_t bytes = sizeof value;
  ASSERT_EQ(::getsockopt(pair.a->descriptor(), IPPROTO_TCP, TCP_NODELAY, &value, &bytes), 0);
  EXPECT_NE(value, 0);
}

// A peer that lives and is silent acknowledges the end of the stream only after 40 ms. The test takes the fastest of
// several turns, because other programs may use the cores.
TEST(TcpLink, EndsAtOnceWhenThePeerHasEverything) {
  const std::byte data[8] = {};
  std::int64_t fastest_ns = std::numeric_limits<std::int64_t>::max();
  for (int turn = 0; turn < 10; ++turn) {
    LinkPair pair(shape_of(1, 2, kSlotBytes), SocketKind::Tcp);
    Received got;
    ASSERT_TRUE(try_send(pair.a->send_fifo(0), data, 8));
    ASSERT_TRUE(drive(pair, [&] { return try_recv(pair.b->recv_fifo(0), got); }));
    ASSERT_TRUE(try_send(pair.b->send_fifo(0), data, 8));
    ASSERT_TRUE(drive(pair, [&] { return try_recv(pair.a->recv_fifo(0), got); }));
    const std::int64_t start = now_ns();
    pair.a.reset();
    fastest_ns = std::min(fastest_ns, now_ns() - start);
  }
  EXPECT_LT(fastest_ns, 20'000'000);
}

TEST(TcpTransport, RefusesWhatItCannotUse) {
  TransportContext context{};
  context.shape = shape_of(1, 2, kSlotBytes);
  auto transport = find_transport("tcp")->make(context).value();
  EXPECT_EQ(transport->connect({.rank = 3, .process = 0, .host = 0}, Offer{}).error().code, ErrorCode::InvalidArgument);
  for (auto change : {+[](FifoShape& s) { s.lanes = 0; }, +[](FifoShape& s) { s.slot_count = 3; },
                      +[](FifoShape& s) { s.slot_bytes = 0; }}) {
    TransportContext bad = context;
    change(bad.shape);
    EXPECT_EQ(find_transport("tcp")->make(bad).error().code, ErrorCode::InvalidArgument);
  }
}

}  // namespace
}  // namespace wreath::tcp_link
