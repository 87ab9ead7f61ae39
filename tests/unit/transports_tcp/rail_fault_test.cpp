// Peers send over several sockets what no correct peer sends, or send it again. Nothing worse than an error happens.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "src/fifo/access.hpp"
#include "tests/unit/transports_tcp/rails.hpp"

namespace wreath::tcp_rail_faults {
namespace {

constexpr std::uint32_t kPart = 64 * 1024;
constexpr std::uint32_t kSlotBytes = 2 * kPart;

FifoShape usual_shape() { return shape_of(2, 2, kSlotBytes); }

WireHeader header_of_part(std::uint32_t sequence, std::uint32_t part, std::uint32_t bytes = kSlotBytes) {
  WireHeader header;
  header.kind = bytes <= kCopiedBytes ? FrameKind::Data : FrameKind::Part;
  header.epoch = kTestEpoch;
  header.sequence = sequence;
  header.bytes = bytes;
  header.credit = part;
  return header;
}

// Returns a frame as a correct peer sends it, with a payload of this byte.
std::vector<std::byte> frame(const WireHeader& header, std::byte content = {}) {
  const FrameExtent parts = extent(header, range(header, usual_shape()).bytes);
  std::vector<std::byte> bytes(parts.prefix + parts.bytes + parts.tail, content);
  encode(header, bytes.data());
  return bytes;
}

void write(const Fd& raw, const std::vector<std::byte>& bytes) {
  ASSERT_EQ(::send(raw.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT),
            static_cast<ssize_t>(bytes.size()));
}

// Sends the frames over one rail and then the other, and returns the link's error. Nobody reads the messages.
std::string outcome_of(const std::vector<WireHeader>& headers) {
  RailVictim victim(usual_shape(), 2);
  std::size_t rail = 0;
  for (const WireHeader& header : headers) {
    write(victim.raw[rail++ % 2], frame(header));
    for (int i = 0; i < 10; ++i) {
      const auto moved = victim.link->progress(true);
      if (moved) continue;
      EXPECT_EQ(moved.error().code, ErrorCode::PeerLost);
      EXPECT_EQ(moved.error().failed_rank, 0);
      return moved.error().message.substr(std::string("tcp link to rank 0: frame header: ").size());
    }
  }
  return "";
}

TEST(TcpRailFault, NamesTheField) {
  const WireHeader good = header_of_part(0, 0);
  EXPECT_EQ(outcome_of({good, header_of_part(0, 1)}), "");
  EXPECT_EQ(outcome_of({header_of_part(0, 2)}), "part is 2, must be below 2");
  WireHeader header = good;
  header.credit_lane = 1;
  EXPECT_EQ(outcome_of({header}), "credit_lane is 1, in a part it must be 0");
  header = good;
  header.kind = FrameKind::Data;
  EXPECT_EQ(outcome_of({header}), "kind is 1, as WREATH_CHECK is here it must be 4");
  header = good;
  header.kind = FrameKind::Credit;
  header.bytes = header.credit = 0;
  EXPECT_EQ(outcome_of({header}), "kind is 2, over several sockets it must be 6");
  header.kind = FrameKind::Arrival;
  header.credit = 1;
  EXPECT_EQ(outcome_of({header}), "credit is 1, must be 0 at most (lane 0)");
  header.credit = 0;
  header.sequence = 1;
  EXPECT_EQ(outcome_of({header}), "sequence is 1, must be 0 at most (lane 0)");
  EXPECT_EQ(outcome_of({header_of_part(8, 0)}),
            "sequence is 8, but there is no room for 131072 bytes beside the messages since 0 (lane 0)");
  EXPECT_EQ(outcome_of({good, header_of_part(1, 0), header_of_part(2, 0)}),
            "sequence is 2, but there is no room for 131072 bytes beside the messages since 0 (lane 0)");
  header = header_of_part(0, 1, kSlotBytes - 1);
  EXPECT_EQ(outcome_of({good, header}), "bytes is 131071, in another part it was 131072 (lane 0)");
  header = header_of_part(0, 1);
  header.signature = 9;
  EXPECT_EQ(outcome_of({good, header}), "signature is 9, in another part it was 0 (lane 0)");
}

TEST(TcpRailFault, OneSocketTakesNoParts) {
  const WireHeader part = header_of_part(0, 0);
  std::byte bytes[kWireHeaderBytes];
  encode(part, bytes);
  const auto read = decode(bytes, usual_shape());
  EXPECT_EQ(read.error().message, "frame header: kind is 4, must be 1 to 3");
  EXPECT_EQ(decode(bytes, usual_shape(), Framing::Parts).value(), part);
}

TEST(TcpRailFault, WhereTheNumberOfSocketsChangesALargeMessageMayComeEitherWay) {
  std::byte bytes[kWireHeaderBytes];
  WireHeader header = header_of_part(0, 0);
  for (const FrameKind kind : {FrameKind::Part, FrameKind::Data, FrameKind::Checked, FrameKind::CheckedPart}) {
    header.kind = kind;
    encode(header, bytes);
    const bool fits = kind == FrameKind::Part || kind == FrameKind::Data;
    EXPECT_EQ(decode(bytes, usual_shape(), Framing::Either).operator bool(), fits) << static_cast<int>(kind);
  }
  header.kind = FrameKind::Credit;
  header.bytes = 0;
  encode(header, bytes);
  EXPECT_FALSE(decode(bytes, usual_shape(), Framing::Either));
}

// Two parts are more than a socket takes at once.
constexpr std::uint32_t kLongSlotBytes = 16 << 20;

// Returns a link that has begun to send a message, of which both sockets hold a part.
RailVictim sending_victim(const std::vector<std::byte>& data) {
  RailVictim victim(shape_of(1, 2, kLongSlotBytes), 2);
  EXPECT_TRUE(try_send(victim.link->send_fifo(0), data.data(), data.size()));
  EXPECT_TRUE(victim.link->progress(true));
  EXPECT_TRUE(victim.link->send_blocked());
  return victim;
}

TEST(TcpRailFault, HoldsNoCall) {
  const std::vector<std::byte> data(2 * part_bytes(shape_of(1, 2, kLongSlotBytes)));
  RailVictim victim = sending_victim(data);
  write(victim.raw[0], std::vector<std::byte>(kWireHeaderBytes));
  ASSERT_FALSE(victim.link->progress(true));
  EXPECT_FALSE(victim.link->send_blocked());
}

// The kernel still reads what it has not taken.
TEST(TcpRailFault, AReportOfAMessageThatIsNotSentYetGivesNoMemoryBack) {
  const std::vector<std::byte> data(2 * part_bytes(shape_of(1, 2, kLongSlotBytes)));
  RailVictim victim = sending_victim(data);
  WireHeader report = header_of_part(1, 0, 0);
  report.kind = FrameKind::Arrival;
  write(victim.raw[0], frame(report));
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(victim.link->progress(true));
  EXPECT_GT(victim.link->in_flight(), 0U);
  std::vector<std::byte> sink(1 << 20);
  for (int i = 0; i < 1000 && victim.link->in_flight() > 0; ++i) {
    for (const Fd& raw : victim.raw) static_cast<void>(::recv(raw.get(), sink.data(), sink.size(), MSG_DONTWAIT));
    ASSERT_TRUE(victim.link->progress(true));
  }
  EXPECT_EQ(victim.link->in_flight(), 0U);
}

// Reads a message, which must be whole and of this byte.
void expect_message(RailLink& link, std::byte content) {
  Received got;
  for (int i = 0; i < 20 && !try_recv(link.recv_fifo(0), got); ++i) ASSERT_TRUE(link.progress(true));
  ASSERT_EQ(got.data.size(), kSlotBytes);
  EXPECT_TRUE(std::ranges::all_of(got.data, [&](std::byte each) { return each == content; }));
}

// Returns the bytes that have come to both ends of the peer, and takes them.
std::size_t come_to(const RailVictim& victim) {
  std::size_t all = 0;
  std::byte bytes[4096];
  for (const Fd& raw : victim.raw) {
    for (ssize_t got = 1; got > 0; all += got > 0 ? static_cast<std::size_t>(got) : 0) {
      got = ::recv(raw.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    }
  }
  return all;
}

TEST(TcpRailFault, APartThatComesTwiceCountsOnce) {
  constexpr std::uint32_t kFirst = 0xffffffff;  // 0 follows
  RailVictim victim(shape_of(2, 2, kSlotBytes, kFirst), 2);
  for (const std::size_t rail : {0U, 1U}) {
    write(victim.raw[rail], frame(header_of_part(kFirst, 0), rail == 0 ? std::byte{7} : std::byte{6}));
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(victim.link->progress(true));
  }
  EXPECT_EQ(peek(victim.link->recv_fifo(0)), nullptr);
  write(victim.raw[0], frame(header_of_part(kFirst, 1), std::byte{7}));
  expect_message(*victim.link, std::byte{7});
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(victim.link->progress(true));
  EXPECT_GT(come_to(victim), 0U) << "it is reported";
  // All of it comes again, after it was read, and then the next message.
  for (const std::uint32_t part : {0U, 1U}) write(victim.raw[1], frame(header_of_part(kFirst, part), std::byte{8}));
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(victim.link->progress(true));
  EXPECT_GT(come_to(victim), 0U) << "the peer has not heard of it";
  for (const std::uint32_t part : {0U, 1U}) write(victim.raw[0], frame(header_of_part(0, part), std::byte{9}));
  expect_message(*victim.link, std::byte{9});
}

// The rest of a part comes when another rail has brought it, and its place belongs to another message.
TEST(TcpRailFault, APartUnderWayThatComesAgainIsThrownAway) {
  RailVictim victim(shape_of(2, 1, kSlotBytes), 2);
  const auto slow = frame(header_of_part(0, 0), std::byte{1});
  write(victim.raw[0], {slow.begin(), slow.begin() + 20'000});
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(victim.link->progress(true));
  for (const std::uint32_t part : {0U, 1U}) write(victim.raw[1], frame(header_of_part(0, part), std::byte{1}));
  expect_message(*victim.link, std::byte{1});
  ASSERT_TRUE(victim.link->progress(true));
  for (const std::uint32_t part : {0U, 1U}) write(victim.raw[1], frame(header_of_part(1, part), std::byte{2}));
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(victim.link->progress(true));
  write(victim.raw[0], {slow.begin() + 20'000, slow.end()});
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(victim.link->progress(true));
  expect_message(*victim.link, std::byte{2});
}

// Whichever copy is read first, the message is whole when one of them is.
TEST(TcpRailFault, APartUnderWayTwiceIsWholeByTheRailThatIsLeft) {
  for (const std::size_t lost : {0U, 1U}) {
    RailVictim victim(shape_of(2, 1, kSlotBytes), 2);
    const auto part = frame(header_of_part(0, 0), std::byte{1});
    for (const Fd& raw : victim.raw) write(raw, {part.begin(), part.begin() + 20'000});
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(victim.link->progress(true));
    victim.raw[lost] = Fd();
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(victim.link->progress(true));
    const Fd& left = victim.raw[1 - lost];
    write(left, {part.begin() + 20'000, part.end()});
    write(left, frame(header_of_part(0, 1), std::byte{1}));
    expect_message(*victim.link, std::byte{1});
  }
}

// The peer sends random frames with random changes, cut anywhere.
TEST(TcpRailFault, GarbageIsAnErrorNeverMore) {
  std::mt19937 engine(7);
  const auto below = [&](std::uint32_t bound) { return static_cast<std::uint32_t>(engine() % bound); };
  for (int round = 0; round < 3000; ++round) {
    RailVictim victim(usual_shape(), 2);
    const std::vector<std::byte> data(kSlotBytes);
    for (int i = 0; i < 2; ++i) try_send(victim.link->send_fifo(0), data.data(), below(kSlotBytes));
    for (const Fd& raw : victim.raw) {
      std::vector<std::byte> bytes;
      for (std::uint32_t frames = below(4); frames > 0; --frames) {
        WireHeader header = header_of_part(below(4), below(2), below(2) == 0 ? below(200) : kPart + below(kPart) + 1);
        if (below(4) == 0) {
          header.kind = FrameKind::Arrival;
          header.bytes = 0;
        }
        const auto one = frame(header);
        bytes.insert(bytes.end(), one.begin(), one.end());
      }
      for (std::uint32_t extra = below(100); extra > 0; --extra) bytes.push_back(static_cast<std::byte>(below(256)));
      for (std::uint32_t changes = below(4); changes > 0 && !bytes.empty(); --changes) {
        bytes[engine() % bytes.size()] = static_cast<std::byte>(below(256));
      }
      // A socket without room takes a part of it.
      static_cast<void>(::send(raw.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
    }
    for (Fd& raw : victim.raw) raw = Fd();
    Received got;
    bool lost = false;
    for (int i = 0; i < 100 && !lost; ++i) {
      const auto moved = victim.link->progress(true);
      lost = !moved;
      ASSERT_TRUE(moved || moved.error().code == ErrorCode::PeerLost) << moved.error().message;
      for (std::uint16_t lane = 0; lane < 2; ++lane) {
        while (try_recv(victim.link->recv_fifo(lane), got)) {
        }
      }
    }
    ASSERT_TRUE(lost);
  }
}

}  // namespace
}  // namespace wreath::tcp_rail_faults
