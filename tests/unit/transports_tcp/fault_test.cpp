// Peers leave, or send what no correct peer sends. Each time the link gives an error, and nothing worse happens.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <random>

#include "src/fifo/access.hpp"
#include "tests/unit/transports_tcp/pair.hpp"
#include "transports/tcp/wire.hpp"

namespace wreath {
namespace {

constexpr std::uint32_t kSlotBytes = 8192;

FifoShape usual_shape() { return shape_of(2, 2, kSlotBytes); }

// A link whose peer is the test itself.
struct Victim {
  explicit Victim(SocketKind kind = SocketKind::Unix, bool checked = false) {
    auto [mine, theirs] = connected(kind);
    raw = std::move(mine);
    FifoShape shape = usual_shape();
    shape.checked = checked;
    link = link_over(std::move(theirs), shape, 0);
  }
  void write(const std::vector<std::byte>& bytes) {
    ASSERT_EQ(::send(raw.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  // Returns the error that progress() ends with; its message is empty if many calls give none.
  Error outcome() {
    for (int i = 0; i < 100; ++i) {
      auto moved = link->progress(true);
      if (!moved) return moved.error();
      Received got;
      for (std::uint16_t lane = 0; lane < 2; ++lane) {
        while (try_recv(link->recv_fifo(lane), got)) ++messages;
      }
    }
    return {ErrorCode::NotReady, "", -1};
  }
  Fd raw;
  std::unique_ptr<TcpLink> link;
  int messages = 0;
};

WireHeader data_header(std::uint32_t bytes) {
  WireHeader header;
  header.epoch = kTestEpoch;
  header.bytes = bytes;
  return header;
}

// Returns a frame as a correct peer sends it.
std::vector<std::byte> frame(const WireHeader& header) {
  const FrameExtent parts = extent(header);
  std::vector<std::byte> bytes(parts.prefix + parts.bytes + parts.tail);
  encode(header, bytes.data());
  return bytes;
}

std::string outcome_of(const WireHeader& header) {
  Victim victim;
  victim.write(frame(header));
  const Error error = victim.outcome();
  if (!error.message.empty()) {
    EXPECT_EQ(error.code, ErrorCode::PeerLost);
    EXPECT_EQ(error.failed_rank, 0);
  }
  return error.message;
}

TEST(TcpFault, NamesFieldAndPeer) {
  EXPECT_EQ(outcome_of(data_header(100)), "");
  WireHeader header = data_header(100);
  header.sequence = 1;
  EXPECT_EQ(outcome_of(header), "tcp link to rank 0: frame header: sequence is 1, expected 0 (lane 0)");
  header = data_header(100);
  header.credit = 1;
  EXPECT_EQ(outcome_of(header), "tcp link to rank 0: frame header: credit is 1, must be between 0 and 0 (lane 0)");
  header = data_header(100);
  header.lane = 2;
  EXPECT_EQ(outcome_of(header), "tcp link to rank 0: frame header: lane is 2, must be below 2");
  header = data_header(kSlotBytes + 1);
  EXPECT_EQ(outcome_of(header), "tcp link to rank 0: frame header: bytes is 8193, must be at most 8192");
}

// Returns the link's error after `count` messages of `bytes` that nobody reads.
std::string outcome_unread(std::uint32_t count, std::uint32_t bytes) {
  Victim victim;
  for (std::uint32_t i = 0; i < count; ++i) {
    WireHeader header = data_header(bytes);
    header.sequence = i;
    victim.write(frame(header));
    for (int call = 0; call < 4; ++call) {
      if (auto moved = victim.link->progress(true); !moved) return moved.error().message;
    }
  }
  return "";
}

TEST(TcpFault, MoreMessagesThanTheWindowHoldsAreRefused) {
  EXPECT_EQ(outcome_unread(8, 4096), "");
  EXPECT_EQ(
      outcome_unread(9, 4096),
      "tcp link to rank 0: frame header: sequence is 8, but there is no room for 4096 bytes beside the 8 messages "
      "since 0 (lane 0)");
  EXPECT_EQ(outcome_unread(2, 4097), "");
  EXPECT_EQ(
      outcome_unread(3, 4097),
      "tcp link to rank 0: frame header: sequence is 2, but there is no room for 4097 bytes beside the 2 messages "
      "since 0 (lane 0)");
}

TEST(TcpFault, FramesOfAnotherEpochAreDropped) {
  for (const std::uint32_t bytes : {0u, 100u, 4097u, kSlotBytes}) {
    Victim victim;
    WireHeader old = data_header(bytes);
    old.epoch = kTestEpoch - 1;
    old.sequence = 99;
    old.lane = 77;
    old.credit = 5;
    for (int i = 0; i < 3; ++i) victim.write(frame(old));
    victim.write(frame(data_header(64)));
    EXPECT_EQ(victim.outcome().message, "");
    EXPECT_EQ(victim.messages, 1);
  }
}

TEST(TcpFault, ErrorsAreFinal) {
  Victim victim;
  victim.write(std::vector<std::byte>(64));
  const std::string first = victim.outcome().message;
  EXPECT_EQ(first, "tcp link to rank 0: frame header: magic is 0, must be 39080535");
  victim.write(frame(data_header(8)));
  EXPECT_EQ(victim.outcome().message, first);
}

TEST(TcpFault, EveryByteOfAHeaderMayBeWrong) {
  for (const std::uint32_t bytes : {8u, 5000u}) {
    const auto good = frame(data_header(bytes));
    for (std::size_t at = 0; at < kWireHeaderBytes; ++at) {
      for (int bit = 0; bit < 8; ++bit) {
        Victim victim;
        auto bad = good;
        bad[at] ^= static_cast<std::byte>(1 << bit);
        victim.write(bad);
        WireHeader next = data_header(8);
        next.sequence = 1;
        victim.write(frame(next));
        victim.raw = Fd();
        const Error error = victim.outcome();
        EXPECT_EQ(error.code, ErrorCode::PeerLost) << "byte " << at << " bit " << bit;
        EXPECT_NE(error.message.find("frame header"), std::string::npos)
            << "byte " << at << " bit " << bit << error.message;
        EXPECT_EQ(victim.messages, 0);
      }
    }
  }
}

// The peer sends random frames with random changes, cut anywhere.
TEST(TcpFault, GarbageIsAnErrorNeverMore) {
  std::mt19937 engine(7);
  auto below = [&](std::uint32_t bound) { return static_cast<std::uint32_t>(engine() % bound); };
  for (int round = 0; round < 10'000; ++round) {
    Victim victim;
    std::vector<std::byte> bytes;
    std::uint32_t sequence = 0;
    for (std::uint32_t frames = below(4); frames > 0; --frames) {
      WireHeader header = data_header(below(below(2) == 0 ? 200 : kSlotBytes + 1));
      header.sequence = sequence++;
      if (header.bytes > kCopiedBytes) header.padding = static_cast<std::uint8_t>(below(64));
      const auto one = frame(header);
      bytes.insert(bytes.end(), one.begin(), one.end());
    }
    for (std::uint32_t extra = below(100); extra > 0; --extra) bytes.push_back(static_cast<std::byte>(below(256)));
    for (std::uint32_t changes = below(4); changes > 0 && !bytes.empty(); --changes) {
      bytes[engine() % bytes.size()] = static_cast<std::byte>(below(256));
    }
    if (!bytes.empty()) bytes.resize(engine() % bytes.size() + 1);
    victim.write(bytes);
    victim.raw = Fd();
    const Error error = victim.outcome();
    // The link is lost at the latest when the stream has ended.
    ASSERT_EQ(error.code, ErrorCode::PeerLost);
    ASSERT_EQ(error.failed_rank, 0);
  }
}

// Returns what a link sends for a message of `bytes`.
std::vector<std::byte> sent_frame(std::uint32_t bytes, bool checked) {
  FifoShape shape = usual_shape();
  shape.checked = checked;
  auto [mine, theirs] = connected(SocketKind::Unix);
  const auto link = link_over(std::move(theirs), shape, 0);
  const std::vector<std::byte> data = filled(0, 0, bytes);
  EXPECT_TRUE(try_send(link->send_fifo(0), data.data(), bytes));
  EXPECT_TRUE(link->progress(false));
  std::vector<std::byte> frame(3 * kSlotBytes);
  frame.resize(static_cast<std::size_t>(::recv(mine.get(), frame.data(), frame.size(), MSG_DONTWAIT)));
  return frame;
}

// One byte behind the header is altered that is not padding. A link with checksums does not deliver the message.
TEST(TcpFault, DataThatIsAlteredIsNoticedWithChecksums) {
  for (const std::uint32_t bytes : {1u, 8u, 100u, 4096u, 4097u, kSlotBytes}) {
    const auto good = sent_frame(bytes, true);
    {
      Victim victim(SocketKind::Unix, true);
      victim.write(good);
      EXPECT_EQ(victim.outcome().message, "");
      EXPECT_EQ(victim.messages, 1);
    }
    WireHeader header = data_header(bytes);
    header.kind = FrameKind::Checked;
    header.padding = static_cast<std::uint8_t>(good[5]);
    const FrameExtent parts = extent(header);
    const std::size_t step = bytes / 40 + 1;
    for (std::size_t at = parts.prefix; at < parts.prefix + bytes; at += step) {
      Victim victim(SocketKind::Unix, true);
      auto bad = good;
      bad[at] ^= std::byte{16};
      victim.write(bad);
      const Error error = victim.outcome();
      EXPECT_EQ(error.code, ErrorCode::PeerLost);
      EXPECT_EQ(error.message, "tcp link to rank 0: message 0 of lane 0, " + std::to_string(bytes) +
                                   " bytes, was altered on its way: its checksum is wrong");
      EXPECT_EQ(victim.messages, 0);
    }
  }
}

// One byte of the data is altered. A link without checksums delivers what arrives, and adds nothing to what it sends.
TEST(TcpFault, DataIsNotCheckedWithoutChecksums) {
  auto bytes = sent_frame(32, false);
  EXPECT_EQ(bytes.size(), 64U);
  EXPECT_EQ(sent_frame(32, true).size(), 128U);
  bytes[40] ^= std::byte{16};
  Victim victim;
  victim.write(bytes);
  EXPECT_EQ(victim.outcome().message, "");
  EXPECT_EQ(victim.messages, 1);
}

class TcpLoss : public testing::TestWithParam<SocketKind> {};

TEST_P(TcpLoss, APeerThatLeavesIsNamed) {
  Victim victim(GetParam());
  victim.raw = Fd();
  const Error error = victim.outcome();
  EXPECT_EQ(error.code, ErrorCode::PeerLost);
  EXPECT_EQ(error.failed_rank, 0);
  EXPECT_EQ(error.message, "tcp link to rank 0: connection closed");
  EXPECT_EQ(victim.link->descriptor(), -1) << "a socket that has ended wakes its rank for nothing";
}

TEST_P(TcpLoss, LeavingInAMessageIsAnErrorAtEveryLength) {
  const auto whole = frame(data_header(5000));
  for (std::size_t length = 1; length < whole.size() - 63; length += 61) {
    Victim victim(GetParam());
    victim.write({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)});
    victim.raw = Fd();
    EXPECT_EQ(victim.outcome().message, "tcp link to rank 0: connection closed in the middle of a message");
    EXPECT_EQ(victim.messages, 0);
  }
}

TEST_P(TcpLoss, MessagesThatArrivedBeforeTheEndAreDelivered) {
  Victim victim(GetParam());
  victim.write(frame(data_header(5000)));
  victim.raw = Fd();
  const std::byte data[8] = {};
  ASSERT_TRUE(try_send(victim.link->send_fifo(0), data, 8));  // cannot be sent any more
  EXPECT_EQ(victim.outcome().code, ErrorCode::PeerLost);
  EXPECT_EQ(victim.messages, 1);
}

TEST_P(TcpLoss, SendingToAPeerThatLeftRaisesNoSignal) {
  Victim victim(GetParam());
  victim.raw = Fd();
  const std::vector<std::byte> data(kSlotBytes);
  while (try_send(victim.link->send_fifo(0), data.data(), data.size())) {
  }
  EXPECT_EQ(victim.outcome().code, ErrorCode::PeerLost);
}

// The peer may have all that it needed: then this rank must not wait to send it the rest.
TEST_P(TcpLoss, APeerThatLeftBlocksNoSends) {
  auto [raw, theirs] = connected(GetParam());
  const int tiny = 4096;
  ASSERT_EQ(::setsockopt(theirs.get(), SOL_SOCKET, SO_SNDBUF, &tiny, sizeof tiny), 0);
  constexpr std::uint32_t kBytes = 8 << 20;
  const auto link = link_over(std::move(theirs), shape_of(1, 4, kBytes), 0);
  const std::vector<std::byte> data(kBytes);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(try_send(link->send_fifo(0), data.data(), data.size()));
  ASSERT_TRUE(link->progress(false));
  ASSERT_TRUE(link->send_blocked());
  raw = Fd();
  Status alive;
  for (int i = 0; i < 100 && alive; ++i) {
    const auto moved = link->progress(true);
    if (!moved) alive = moved.error();
  }
  EXPECT_EQ(alive.error().code, ErrorCode::PeerLost);
  EXPECT_FALSE(link->send_blocked());
}

INSTANTIATE_TEST_SUITE_P(Wires, TcpLoss, testing::Values(SocketKind::Unix, SocketKind::Tcp),
                         [](const auto& row) { return row.param == SocketKind::Unix ? "Unix" : "Tcp"; });

TEST(TcpFault, AResetIsNamed) {
  Victim victim(SocketKind::Tcp);
  const linger now{.l_onoff = 1, .l_linger = 0};
  ASSERT_EQ(::setsockopt(victim.raw.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now), 0);
  victim.raw = Fd();
  EXPECT_EQ(victim.outcome().message, "tcp link to rank 0: connection reset");
}

TEST(TcpFault, ASlotThatNamesNoLocalMemoryIsOurOwnMistake) {
  LinkPair pair(usual_shape());
  SendFifo& fifo = pair.a->send_fifo(0);
  SlotHeader& slot = next_slot(fifo);
  slot.epoch = kTestEpoch;
  slot.bytes = 8;
  slot.region = 3;
  publish(fifo);
  auto moved = pair.a->progress(true);
  ASSERT_FALSE(moved);
  EXPECT_EQ(moved.error().code, ErrorCode::InvalidUsage);
  EXPECT_EQ(moved.error().failed_rank, -1);
}

}  // namespace
}  // namespace wreath
