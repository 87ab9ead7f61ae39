// Tests what the links of a transport count.
#include <gtest/gtest.h>

#include <array>

#include "tests/unit/transports_tcp/pair.hpp"

namespace wreath::tcp_counts {
namespace {

constexpr std::uint32_t kSlotBytes = 256 * 1024;

// An end of a link over some sockets, with its transport.
struct End {
  End(std::vector<Fd> sockets, Rank peer) {
    TransportContext context{};
    context.self = {.rank = 1 - peer, .process = 1, .host = 1};
    context.ranks = 2;
    context.shape = shape_of(1, 4, kSlotBytes);
    context.streams = sockets.size();
    transport = find_transport("tcp")->make(context).value();
    Offer theirs;
    for (Fd& socket : sockets) theirs.descriptors.push_back(socket.release());
    link = transport->connect({.rank = peer, .process = 1, .host = 1}, std::move(theirs)).value();
  }
  // Returns the numbers of messages, sends and receives.
  std::array<std::uint64_t, 3> counted() const {
    const WireCounts all = transport->counts();
    EXPECT_EQ(all.counts.size(), 3U);
    EXPECT_EQ(all.counts[0].name, "messages");
    EXPECT_EQ(all.counts[1].name, "sends");
    EXPECT_EQ(all.counts[2].name, "receives");
    return {all.counts[0].number, all.counts[1].number, all.counts[2].number};
  }

  std::unique_ptr<Transport> transport;
  std::unique_ptr<Link> link;
};

// Returns the ends at ranks 0 and 1.
std::array<End, 2> connected_ends(std::size_t sockets) {
  std::vector<Fd> here;
  std::vector<Fd> there;
  for (std::size_t i = 0; i < sockets; ++i) {
    auto [first, second] = connected(SocketKind::Unix);
    here.push_back(std::move(first));
    there.push_back(std::move(second));
  }
  return {End(std::move(here), 1), End(std::move(there), 0)};
}

TEST(TcpCounts, AreOfMessagesAndSystemCalls) {
  using Numbers = std::array<std::uint64_t, 3>;
  for (const std::size_t sockets : {1U, 2U}) {
    const auto [a, b] = connected_ends(sockets);
    EXPECT_EQ(a.counted(), Numbers{});
    const std::vector<std::byte> small(100);
    ASSERT_TRUE(try_send(a.link->send_fifo(0), small.data(), small.size()));
    b.link->recv_fifo(0);
    ASSERT_TRUE(a.link->wire()->progress(false));
    EXPECT_EQ(a.counted(), (Numbers{1, 1, 0})) << sockets << " sockets";
    EXPECT_EQ(a.transport->counts().bytes, small.size());
    ASSERT_TRUE(b.link->wire()->progress(true));
    EXPECT_EQ(b.counted()[0], 0U) << "the messages are those that were sent";
    EXPECT_EQ(b.counted()[1], 0U);
    EXPECT_GE(b.counted()[2], sockets);
    const std::vector<std::byte> large(kSlotBytes);
    ASSERT_TRUE(try_send(a.link->send_fifo(0), large.data(), large.size()));
    ASSERT_TRUE(a.link->wire()->progress(false));
    EXPECT_EQ(a.counted()[0], 2U);
    EXPECT_GE(a.counted()[1], 1 + sockets);
    EXPECT_EQ(a.transport->counts().bytes, small.size() + large.size());
  }
}

// A look that finds nothing is a system call.
TEST(TcpCounts, OfLooksAreFewWhereNothingIsExpected) {
  for (const std::size_t sockets : {1U, 2U}) {
    const std::array<End, 2> ends = connected_ends(sockets);
    const End& b = ends[1];
    Wire& wire = *b.link->wire();
    const auto looks_of = [&](bool expecting, int calls) {
      const std::uint64_t before = b.counted()[2];
      for (int i = 0; i < calls; ++i) EXPECT_TRUE(wire.progress(expecting));
      return (b.counted()[2] - before) / sockets;
    };
    looks_of(true, 1);
    EXPECT_EQ(looks_of(true, 8), 8U);
    EXPECT_LE(looks_of(false, 8), 1U);
    EXPECT_TRUE(wire.arm());
    EXPECT_EQ(looks_of(false, 1), 1U) << "what came before a sleep would not wake it";
    EXPECT_LE(looks_of(false, 8), 1U);
  }
}

}  // namespace
}  // namespace wreath::tcp_counts
