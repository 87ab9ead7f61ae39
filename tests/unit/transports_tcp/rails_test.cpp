// Links over several sockets: messages come whole and in order, in parts over all sockets, and no lost socket loses
// one.
#include "tests/unit/transports_tcp/rails.hpp"

#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>

#include "src/base/clock.hpp"
#include "src/fifo/access.hpp"

namespace wreath::tcp_rails {
namespace {

constexpr std::uint32_t kSlotBytes = 256 * 1024;
constexpr std::uint32_t kPart = 64 * 1024;
constexpr std::size_t kSizes[] = {0, 1, 64, 4096, 4097, kPart, kPart + 1, 3 * kPart - 1, kSlotBytes};

// The messages of one lane in one direction.
struct Stream {
  Stream(RailLink& from, RailLink& to, std::uint16_t its_lane, std::size_t messages)
      : send(&from.send_fifo(its_lane)), recv(&to.recv_fifo(its_lane)), lane(its_lane), count(messages) {}

  // Publishes what has room, and spoils memory that the link has given back.
  void send_all() {
    for (; sent < count; ++sent) {
      if (kept.size() == sent) kept.push_back(content(sent));
      if (!try_send(*send, kept[sent].data(), kept[sent].size(), lane)) break;
    }
    for (; given_back + (send->next - send->consumed->value) < sent; ++given_back) {
      std::ranges::fill(kept[given_back], std::byte{0xee});
    }
  }
  void take_all() {
    Received got;
    while (try_recv(*recv, got)) wrong += got.data != content(seen++) || got.signature != lane ? 1 : 0;
  }
  std::vector<std::byte> content(std::size_t message) const {
    return filled(lane, static_cast<std::uint32_t>(message), kSizes[(message * 7 + lane) % std::size(kSizes)]);
  }
  bool done() const { return seen == count; }

  SendFifo* send;
  RecvFifo* recv;
  std::uint16_t lane;
  std::size_t count;
  std::vector<std::vector<std::byte>> kept;
  std::size_t sent = 0;
  std::size_t seen = 0;
  std::size_t given_back = 0;
  int wrong = 0;
};

// Drives both ends until all streams are done. `each` is called in each round.
template <typename Each>
std::string exchange(RailPair& pair, std::vector<Stream>& streams, Each each) {
  const std::int64_t start = now_ns();
  for (;;) {
    bool all = true;
    for (Stream& stream : streams) {
      stream.send_all();
      stream.take_all();
      all = all && stream.done();
    }
    if (all && pair.a->in_flight() == 0 && pair.b->in_flight() == 0) return {};
    for (RailLink* link : {pair.a.get(), pair.b.get()}) {
      const auto moved = link->progress(true);
      if (!moved) return moved.error().message;
    }
    if (expired(start)) return "half a minute has passed";
    each();
  }
}

std::vector<Stream> streams_of(RailPair& pair, std::uint16_t lanes, std::size_t messages) {
  std::vector<Stream> streams;
  for (std::uint16_t lane = 0; lane < lanes; ++lane) {
    streams.emplace_back(*pair.a, *pair.b, lane, messages);
    streams.emplace_back(*pair.b, *pair.a, lane, messages);
  }
  return streams;
}

struct Case {
  SocketKind kind;
  std::size_t rails;
  std::uint32_t slot_count;
  bool checked = false;
};

class TcpRails : public testing::TestWithParam<Case> {};

TEST_P(TcpRails, DeliverEveryMessageInOrderOnManyLanesBothWays) {
  FifoShape shape = shape_of(4, GetParam().slot_count, kSlotBytes, 0xfffffffd);  // wraps after three messages
  shape.checked = GetParam().checked;
  RailPair pair(shape, GetParam().rails, GetParam().kind);
  std::vector<Stream> streams = streams_of(pair, 4, 60);
  EXPECT_EQ(exchange(pair, streams, [] {}), "");
  for (const Stream& stream : streams) EXPECT_EQ(stream.wrong, 0);
}

INSTANTIATE_TEST_SUITE_P(Rails, TcpRails,
                         testing::Values(Case{SocketKind::Unix, 2, 1}, Case{SocketKind::Unix, 3, 2},
                                         Case{SocketKind::Tcp, 2, 4}, Case{SocketKind::Tcp, 8, 4},
                                         Case{SocketKind::Unix, 3, 4, true}, Case{SocketKind::Tcp, 3, 2, true}),
                         [](const auto& row) {
                           return std::string(row.param.kind == SocketKind::Unix ? "Unix" : "Tcp") +
                                  std::to_string(row.param.rails) + "Slots" + std::to_string(row.param.slot_count) +
                                  (row.param.checked ? "Checked" : "");
                         });

// Reads one frame that has come to `raw`.
WireHeader frame_at(const Fd& raw, const FifoShape& shape, std::vector<std::byte>& payload) {
  std::byte prefix[kWireHeaderBytes];
  const ssize_t got = ::recv(raw.get(), prefix, sizeof prefix, MSG_DONTWAIT);
  EXPECT_EQ(got, static_cast<ssize_t>(sizeof prefix));
  if (got != static_cast<ssize_t>(sizeof prefix)) return {};
  const WireHeader header =
      decode(std::span<const std::byte, kWireHeaderBytes>(prefix, kWireHeaderBytes), shape, Framing::Parts).value();
  const FrameExtent parts = extent(header, range(header, shape).bytes);
  std::vector<std::byte> rest(parts.prefix - kWireHeaderBytes + parts.bytes + parts.tail);
  EXPECT_EQ(::recv(raw.get(), rest.data(), rest.size(), MSG_DONTWAIT), static_cast<ssize_t>(rest.size()));
  payload.assign(rest.begin() + static_cast<std::ptrdiff_t>(parts.prefix - kWireHeaderBytes),
                 rest.end() - static_cast<std::ptrdiff_t>(parts.tail));
  return header;
}

TEST(TcpRail, CarriesAPartOfALargeMessage) {
  const FifoShape shape = shape_of(1, 2, kSlotBytes);
  RailVictim victim(shape, 3);
  const auto data = filled(0, 0, 3 * kPart - 100);
  ASSERT_TRUE(try_send(victim.link->send_fifo(0), data.data(), data.size()));
  ASSERT_TRUE(victim.link->progress(false));
  std::set<std::uint32_t> parts;
  for (const Fd& raw : victim.raw) {
    std::vector<std::byte> payload;
    const WireHeader header = frame_at(raw, shape, payload);
    EXPECT_EQ(header.kind, FrameKind::Part);
    EXPECT_EQ(header.bytes, data.size());
    parts.insert(header.credit);
    EXPECT_TRUE(std::equal(payload.begin(), payload.end(), data.begin() + header.credit * kPart));
  }
  EXPECT_EQ(parts, (std::set<std::uint32_t>{0, 1, 2}));
}

// Sends a message from a to b, and returns what b received.
Received carried(RailPair& pair, const std::vector<std::byte>& data) {
  EXPECT_TRUE(try_send(pair.a->send_fifo(0), data.data(), static_cast<std::uint32_t>(data.size())));
  Received got;
  const std::int64_t start = now_ns();
  while (!try_recv(pair.b->recv_fifo(0), got) && !expired(start)) {
    EXPECT_TRUE(pair.a->progress(false));
    EXPECT_TRUE(pair.b->progress(true));
  }
  return got;
}

TEST(TcpRail, PutsPartsWhereTheStepWantsTheMessage) {
  RailPair pair(shape_of(1, 2, kSlotBytes), 3);
  const auto data = filled(0, 0, kSlotBytes);
  std::vector<std::byte> target(data.size());
  *pair.b->recv_fifo(0).landing = {target.data(), 0, kSlotBytes};
  const Received got = carried(pair, data);
  EXPECT_EQ(got.at, target.data());
  EXPECT_EQ(target, data);
}

TEST(TcpRail, PutsNothingWhereTheStepWantsAnotherMessage) {
  const auto data = filled(0, 0, kSlotBytes);
  for (const auto& [sequence, bytes] : {std::pair{1U, kSlotBytes}, std::pair{0U, kSlotBytes / 2}}) {
    RailPair pair(shape_of(1, 2, kSlotBytes), 3);
    std::vector<std::byte> target(data.size());
    *pair.b->recv_fifo(0).landing = {target.data(), sequence, bytes};
    const Received got = carried(pair, data);
    EXPECT_EQ(got.data, data);
    EXPECT_EQ(target, std::vector<std::byte>(data.size())) << "message " << sequence << " of " << bytes << " bytes";
  }
}

TEST(TcpRail, KeepsALargeMessageUntilThePeerHasIt) {
  RailPair pair(shape_of(1, 4, kSlotBytes), 2);
  const auto large = filled(0, 0, 5000);
  const auto small = filled(0, 1, 4096);
  ASSERT_TRUE(try_send(pair.a->send_fifo(0), small.data(), small.size()));
  ASSERT_TRUE(pair.a->progress(false));
  EXPECT_EQ(pair.a->in_flight(), 0U);
  ASSERT_TRUE(try_send(pair.a->send_fifo(0), large.data(), large.size()));
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(pair.a->progress(true));
  EXPECT_GT(pair.a->in_flight(), 0U);
  EXPECT_FALSE(pair.a->send_blocked());
  ASSERT_TRUE(pair.b->progress(true));  // receives
  EXPECT_TRUE(pair.b->needs_progress());
  ASSERT_TRUE(pair.b->progress(true));  // reports, and nobody has read the message
  EXPECT_FALSE(pair.b->needs_progress());
  ASSERT_TRUE(pair.a->progress(false));
  EXPECT_EQ(pair.a->in_flight(), 0U);
}

TEST(TcpRail, ThatIsLostLosesNoMessage) {
  std::size_t all_cuts = 0;
  for (std::uint32_t round = 0; round < 24; ++round) {
    std::mt19937 random(round);
    FifoShape shape = shape_of(3, 1U << random() % 3, kSlotBytes, 0xfffffff0);
    shape.checked = round % 4 == 0;
    const std::size_t rails = 2 + round % 3;
    RailPair pair(shape, rails, round % 2 == 0 ? SocketKind::Unix : SocketKind::Tcp);
    std::vector<Stream> streams = streams_of(pair, 3, 16);
    std::size_t rounds = 0;
    std::size_t cuts = 0;
    std::size_t next = 1 + random() % 10;
    ASSERT_EQ(exchange(pair, streams,
                       [&] {
                         if (++rounds < next || cuts + 1 == rails) return;
                         pair.cut(cuts++);
                         next = rounds + random() % 15;
                       }),
              "")
        << "round " << round;
    for (const Stream& stream : streams) ASSERT_EQ(stream.wrong, 0) << "round " << round;
    all_cuts += cuts;
  }
  EXPECT_GE(all_cuts, 24U);
}

// The peer is told again what has arrived, since the lost rail may have had the report.
TEST(TcpRail, ThatIsLostLosesNoReport) {
  for (const std::size_t cut : {0U, 1U}) {
    for (const int turns : {0, 1}) {
      RailPair pair(shape_of(1, 4, kSlotBytes), 2);
      const auto data = filled(0, 0, 5000);  // one part
      for (int i = 0; i < turns; ++i) ASSERT_TRUE(pair.b->progress(true));
      ASSERT_TRUE(try_send(pair.a->send_fifo(0), data.data(), data.size()));
      ASSERT_TRUE(pair.a->progress(false));
      ASSERT_TRUE(pair.b->progress(true));  // receives
      pair.cut(cut);
      for (int i = 0; i < 10; ++i) {
        ASSERT_TRUE(pair.b->progress(true));
        ASSERT_TRUE(pair.a->progress(true));
      }
      EXPECT_EQ(pair.a->in_flight(), 0U) << "rail " << cut << ", turn " << turns;
    }
  }
}

// The call may be over when the loss is seen.
TEST(TcpRail, ThatIsLostNeedsProgressUntilAnotherHasItsMessages) {
  RailPair pair(shape_of(1, 4, kSlotBytes), 2);
  const auto data = filled(0, 0, 5000);
  ASSERT_TRUE(try_send(pair.a->send_fifo(0), data.data(), data.size()));
  ASSERT_TRUE(pair.a->progress(false));
  EXPECT_FALSE(pair.a->needs_progress());
  pair.cut(0);
  ASSERT_TRUE(pair.a->progress(true));
  EXPECT_TRUE(pair.a->needs_progress());
  EXPECT_TRUE(pair.a->closing_loses_data());
  ASSERT_TRUE(pair.a->progress(true));
  EXPECT_FALSE(pair.a->needs_progress());
}

TEST(TcpRail, IsNamedOnceItIsLost) {
  RailPair pair(shape_of(1, 2, kSlotBytes), 3, SocketKind::Tcp);
  EXPECT_EQ(pair.a->path(), "lo (3 sockets)");
  pair.cut(1);
  testing::internal::CaptureStderr();
  const std::int64_t start = now_ns();
  while (now_ns() - start < 1500 * kNsPerMs) ASSERT_TRUE(pair.a->progress(true));
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(pair.a->path(), "lo (2 sockets), lost: lo");
  const auto times = [&](const std::string& text) {
    int count = 0;
    for (std::size_t at = said.find(text); at != std::string::npos; at = said.find(text, at + 1)) ++count;
    return count;
  };
  EXPECT_EQ(times("wreath: warning: rank 0 (host "), 1) << said;
  EXPECT_EQ(times("tcp link to rank 1: the socket lo to 127.0.0.1:"), 1) << said;
  EXPECT_EQ(times("is lost: connection closed; its messages go over the other 2"), 1) << said;
}

// A peer that leaves loses all its rails, and nothing is said of each.
TEST(TcpRail, IsTheLinkIfItIsTheLast) {
  RailPair pair(shape_of(1, 2, kSlotBytes), 2);
  const std::string whole = pair.a->path();
  testing::internal::CaptureStderr();
  pair.cut(0);
  ASSERT_TRUE(pair.a->progress(true));
  pair.cut(1);
  const auto moved = pair.a->progress(true);
  ASSERT_FALSE(moved);
  EXPECT_EQ(moved.error().code, ErrorCode::PeerLost);
  EXPECT_EQ(moved.error().failed_rank, 1);
  EXPECT_EQ(moved.error().message, "tcp link to rank 1: connection closed");
  EXPECT_FALSE(pair.a->send_blocked());
  EXPECT_EQ(pair.a->path(), whole);
  EXPECT_EQ(pair.a->progress(true).error().message, moved.error().message);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(TcpRail, WakesASleeper) {
  for (const SocketKind kind : {SocketKind::Unix, SocketKind::Tcp}) {
    RailPair pair(shape_of(1, 2, kSlotBytes), 3, kind);
    const std::byte data[8] = {};
    Received got;
    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE(pair.b->arm());
      ASSERT_EQ(pair.b->progress(false).value(), 0U);
      pollfd sleeper{pair.b->descriptor(), POLLIN, 0};
      ASSERT_EQ(::poll(&sleeper, 1, 0), 0) << "message " << i;
      ASSERT_TRUE(try_send(pair.a->send_fifo(0), data, sizeof data));
      ASSERT_TRUE(pair.a->progress(true));
      ASSERT_EQ(::poll(&sleeper, 1, 20'000), 1) << "message " << i;
      ASSERT_TRUE(pair.b->arm());
      ASSERT_TRUE(pair.b->progress(false));
      ASSERT_TRUE(try_recv(pair.b->recv_fifo(0), got));
      ASSERT_TRUE(pair.b->progress(true));  // gives credit
      ASSERT_TRUE(pair.a->progress(true));
    }
  }
}

TEST(TcpRail, WakesASleeperThatCouldNotSend) {
  RailPair pair(shape_of(1, 4, 8 << 20), 2, SocketKind::Tcp);
  const std::vector<std::byte> data(8 << 20);
  ASSERT_TRUE(try_send(pair.a->send_fifo(0), data.data(), data.size()));
  pollfd sleeper{pair.a->descriptor(), POLLIN | POLLOUT, 0};
  do {
    ASSERT_TRUE(pair.a->arm());
    ASSERT_TRUE(pair.a->progress(true));
  } while (::poll(&sleeper, 1, 100) == 1);
  ASSERT_TRUE(pair.a->send_blocked());
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(pair.b->progress(true));
  EXPECT_EQ(::poll(&sleeper, 1, 20'000), 1);
}

TEST(TcpRail, GetsWordsBetweenCallsAndHoldsNoMemory) {
  const RailPair pair(shape_of(1, 2, kSlotBytes), 2);
  EXPECT_TRUE(pair.a->has_words());
  EXPECT_FALSE(pair.a->take_word());
  EXPECT_TRUE(pair.a->stop());
  EXPECT_FALSE(pair.a->needs_progress());
}

}  // namespace
}  // namespace wreath::tcp_rails
