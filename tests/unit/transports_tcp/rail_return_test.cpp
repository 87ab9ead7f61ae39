// A socket that was lost is replaced, by the peer alone, and carries messages again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <string>

#include "tests/unit/transports_tcp/rails.hpp"

namespace wreath::tcp_rail_return {
namespace {

using testing::HasSubstr;

constexpr std::uint32_t kSlotBytes = 256 * 1024;

// Calls progress() of both ends, carries their words, and sends a message from rank 0, until `done` returns true.
// Returns an empty text, or what went wrong.
template <typename Done>
std::string send_until(RailPair& pair, std::uint32_t& sent, Done done) {
  const std::int64_t start = now_ns();
  Received got;
  for (std::uint32_t seen = sent; !done();) {
    const auto data = filled(0, sent, kSlotBytes);
    if (seen == sent && !try_send(pair.a->send_fifo(0), data.data(), data.size())) return "no credit";
    sent += seen == sent ? 1 : 0;
    // The sender keeps the data until the peer has said that it is there.
    while (seen != sent || pair.a->in_flight() > 0) {
      if (const std::string wrong = step(pair); !wrong.empty()) return wrong;
      if (try_recv(pair.b->recv_fifo(0), got)) {
        if (got.data != filled(0, seen, kSlotBytes)) return "message " + std::to_string(seen) + " is wrong";
        ++seen;
      }
      if (expired(start)) return "nothing came";
    }
  }
  return "";
}

TEST(TcpRailReturn, ReplacesALostSocketAndCarriesMessages) {
  RailPair pair(shape_of(1, 4, kSlotBytes), 2, SocketKind::Tcp);
  std::uint32_t sent = 0;
  for (int round = 0; round < 2; ++round) {
    const std::string whole = pair.a->path();
    ASSERT_EQ(whole, "lo (2 sockets)");
    pair.cut(static_cast<std::size_t>(round));
    ASSERT_EQ(send_until(pair, sent, [&] { return pair.a->path() != whole && pair.b->path() != whole; }), "");
    EXPECT_EQ(pair.a->path(), "lo, lost: lo");
    ASSERT_EQ(send_until(pair, sent, [&] { return pair.a->path() == whole && pair.b->path() == whole; }), "")
        << pair.a->path() << "; " << pair.b->path();
  }
  // Neither of the first sockets is left, so the new ones carry this.
  const std::uint32_t before = sent;
  EXPECT_EQ(send_until(pair, sent, [&] { return sent == before + 20; }), "");
}

// The other end has not looked at its socket, and learns of the loss by the word.
TEST(TcpRailReturn, ALossIsToldToThePeer) {
  RailPair pair(shape_of(1, 4, kSlotBytes), 2, SocketKind::Tcp);
  pair.cut(0);
  std::optional<Offer> word;
  for (int i = 0; i < 1000 && !word; ++i) {
    ASSERT_TRUE(pair.a->progress(true));
    word = pair.a->take_word();
  }
  ASSERT_TRUE(word.has_value());
  ASSERT_FALSE(pair.b->take_word().has_value());
  ASSERT_TRUE(pair.b->on_word(*std::move(word)));
  EXPECT_TRUE(pair.b->take_word().has_value());
}

TEST(TcpRailReturn, WordsOfAnyOtherLengthOrKindAreRefused) {
  const RailAddresses socket{SocketAddress::loopback(AF_INET, 7), SocketAddress::loopback(AF_INET6, 8)};
  using Kind = RailWord::Kind;
  for (const Kind kind : {Kind::Lost, Kind::Awaited, Kind::Offered, Kind::Unneeded, Kind::Count}) {
    const RailWord word{.kind = kind, .socket = socket, .port = 9, .count = {2, 1}};
    std::vector<std::byte> bytes = encode_rail_word(word).bytes;
    const auto again = decode_rail_word(bytes);
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(encode_rail_word(*again).bytes, bytes);
    EXPECT_EQ(again->kind, kind);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_EQ(decode_rail_word({bytes.data(), size}).error().code, ErrorCode::Mismatch) << size;
    }
    bytes.push_back(std::byte{});
    EXPECT_FALSE(decode_rail_word(bytes)) << "a byte too many";
    bytes.pop_back();
    bytes[1] = std::byte{5};
    EXPECT_EQ(decode_rail_word(bytes).operator bool(), kind == Kind::Count) << "5 bytes of address";
    bytes[0] = std::byte{6};
    EXPECT_EQ(decode_rail_word(bytes).error().message, "word: its kind is 6, must be 1 to 5");
  }
}

TEST(TcpRailReturn, AWrongWordFailsTheLink) {
  RailPair pair(shape_of(1, 4, kSlotBytes), 2, SocketKind::Tcp);
  Offer word;
  word.bytes.resize(3);
  const Status taken = pair.a->on_word(std::move(word));
  ASSERT_FALSE(taken);
  EXPECT_THAT(taken.error().message, HasSubstr("tcp link to rank 1: word: its kind is 0, must be 1 to 5"));
  EXPECT_FALSE(pair.a->progress(true));
}

// An end that waits for a new socket, and time that passes as the test says.
struct Waiting {
  Waiting() {
    std::optional<RailWord> word;
    EXPECT_FALSE(waiting.step(now, word));
    EXPECT_TRUE(word.has_value());
    if (word) awaited = *word;
  }
  Fd come() const {
    return std::move(connect_to(addresses.local.with_port(awaited.port), Deadline::after_ms(5000)).value());
  }
  // Returns the new socket, if it comes soon.
  std::optional<Fd> take() {
    std::optional<RailWord> word;
    for (int i = 0; i < 20; ++i) {
      if (auto socket = waiting.step(now, word)) return socket;
      ::poll(nullptr, 0, 2);
    }
    return std::nullopt;
  }

  RailAddresses addresses{SocketAddress::loopback(AF_INET, 1), SocketAddress::loopback(AF_INET, 2)};
  RailReturn waiting{addresses, true, 0};
  RailWord awaited;
  std::int64_t now = 1'000'000'000;
};

TEST(TcpRailReturn, TakesNoStrangersSocket) {
  Waiting end;
  const Fd wrong = end.come();
  RailSecret guess = end.awaited.secret;
  guess[15] ^= std::byte{1};
  ASSERT_EQ(try_send(wrong.get(), guess), 16);
  EXPECT_FALSE(end.take());
  std::byte byte;
  EXPECT_EQ(try_recv(wrong.get(), {&byte, 1}), -1) << "it is closed";
  const Fd silent = end.come();
  EXPECT_FALSE(end.take());
  const Fd peer = end.come();
  ASSERT_EQ(try_send(peer.get(), end.awaited.secret), 16);
  EXPECT_FALSE(end.take()) << "the silent one is looked at first";
  end.now += 3'000'000'001;
  EXPECT_TRUE(end.take());
  RailSecret answer;
  EXPECT_EQ(try_recv(peer.get(), answer), 16);
  EXPECT_EQ(answer, end.awaited.answer);
}

// Another program may listen at the port of the word by now.
TEST(TcpRailReturn, UsesNoSocketBeforeTheAnswer) {
  const Fd listener = std::move(listen_on(SocketAddress::loopback(AF_INET, 0)).value());
  const SocketAddress there = local_address(listener.get());
  for (const bool right : {false, true}) {
    RailReturn connecting({SocketAddress::loopback(AF_INET, 0), there}, false, 0);
    RailWord word;
    word.port = there.port();
    word.secret[0] = std::byte{1};
    word.answer[0] = std::byte{2};
    connecting.on_awaited(word, 0);
    std::optional<RailWord> none;
    for (int i = 0; i < 20; ++i) EXPECT_FALSE(connecting.step(0, none));
    ASSERT_TRUE(wait_for(listener.get(), POLLIN, Deadline::after_ms(5000)));
    const Fd other = Fd::of_process(::accept(listener.get(), nullptr, nullptr));
    EXPECT_FALSE(connecting.step(0, none));
    RailSecret said;
    ASSERT_TRUE(wait_for(other.get(), POLLIN, Deadline::after_ms(5000)));
    EXPECT_EQ(try_recv(other.get(), said), 16);
    EXPECT_EQ(said, word.secret);
    ASSERT_EQ(try_send(other.get(), right ? word.answer : word.secret), 16);
    ::poll(nullptr, 0, 20);
    EXPECT_EQ(connecting.step(0, none).has_value(), right);
  }
}

TEST(TcpRailReturn, EndsAnAttemptAndBeginsAgainLater) {
  Waiting end;
  std::optional<RailWord> word;
  end.now += 10'000'000'001;
  EXPECT_FALSE(end.waiting.step(end.now, word));
  EXPECT_FALSE(word) << "there is a pause";
  EXPECT_FALSE(connect_to(end.addresses.local.with_port(end.awaited.port), Deadline::after_ms(1000)));
  end.now += 1'000'000'000;
  EXPECT_FALSE(end.waiting.step(end.now, word));
  ASSERT_TRUE(word);
  EXPECT_NE(word->secret, end.awaited.secret);
}

}  // namespace
}  // namespace wreath::tcp_rail_return
