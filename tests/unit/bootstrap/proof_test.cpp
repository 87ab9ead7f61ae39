// Tests the proof of the key: ranks with the key pass, and nobody else does.
#include "src/bootstrap/proof.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/bootstrap/helpers.hpp"

namespace wreath {
namespace {

constexpr std::size_t kProofBytes = 32;

struct Ends {
  Handshake connector;
  Handshake acceptor;
};

Ends make_ends(const Identity& connector, const Identity& acceptor) {
  auto pair = socket_pair();
  return {Handshake::connector(std::move(pair.value().first), connector),
          Handshake::acceptor(std::move(pair.value().second), acceptor)};
}

// Advances both ends in turn until neither can go on.
void run(Ends& ends) {
  for (int i = 0; i < 8; ++i) {
    ends.connector.advance();
    ends.acceptor.advance();
  }
}

// Returns the bytes that the socket holds now, or the first 4096 of them.
std::vector<std::byte> drain(int socket) {
  std::vector<std::byte> bytes(4096);
  const std::ptrdiff_t size = try_recv(socket, bytes);
  bytes.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return bytes;
}

using State = Handshake::State;

TEST(Proof, PassesWithTheSameKey) {
  Ends ends = make_ends(test_identity(1, 3, Purpose::Stream), test_identity(1, 0, Purpose::Control));
  run(ends);
  ASSERT_EQ(ends.connector.state(), State::Proved);
  ASSERT_EQ(ends.acceptor.state(), State::Proved);
  const Proved seen_by_acceptor = ends.acceptor.take();
  EXPECT_EQ(seen_by_acceptor.peer.rank, 3);
  EXPECT_EQ(seen_by_acceptor.peer.purpose, Purpose::Stream);
  EXPECT_EQ(seen_by_acceptor.peer.version, library_version());
  EXPECT_EQ(ends.connector.take().peer.rank, 0);
}

TEST(Proof, LeavesNoByteBehind) {
  Ends ends = make_ends(test_identity(), test_identity());
  run(ends);
  const Proved connector = ends.connector.take();
  const Proved acceptor = ends.acceptor.take();
  EXPECT_TRUE(drain(connector.connection.get()).empty());
  EXPECT_TRUE(drain(acceptor.connection.get()).empty());
}

// Returns the first message of a connector with this key.
std::vector<std::byte> opening_of(const Identity& identity) {
  Ends ends = make_ends(identity, identity);
  ends.connector.advance();
  return drain(ends.acceptor.descriptor());
}

TEST(Proof, FailsAtTheFirstWordsWithAnotherKey) {
  auto pair = socket_pair();
  const int stranger = pair->first.get();
  Handshake acceptor = Handshake::acceptor(std::move(pair->second), test_identity(1));
  const auto opening = opening_of(test_identity(2));
  ASSERT_EQ(opening.size(), kOpeningBytes);
  ASSERT_TRUE(send_all(stranger, opening, Deadline::after_ms(100)));
  EXPECT_EQ(acceptor.advance(), State::Failed);
  EXPECT_FALSE(acceptor.ended());
  EXPECT_FALSE(acceptor.has_ticket());
  EXPECT_EQ(drain(stranger).size(), kGreetingBytes);
}

// A listener that repeats a rank's first message gets a place for it, and nothing else.
TEST(Proof, FailsWithARepeatedTicketAndGivesNoProofAway) {
  auto pair = socket_pair();
  const int stranger = pair->first.get();
  Handshake acceptor = Handshake::acceptor(std::move(pair->second), test_identity(1));
  ASSERT_TRUE(send_all(stranger, opening_of(test_identity(1)), Deadline::after_ms(100)));
  EXPECT_EQ(acceptor.advance(), State::Receiving);
  EXPECT_TRUE(acceptor.has_ticket());
  EXPECT_EQ(drain(stranger).size(), kGreetingBytes);
  ASSERT_TRUE(send_all(stranger, std::vector<std::byte>(kProofBytes), Deadline::after_ms(100)));
  EXPECT_EQ(acceptor.advance(), State::Failed);
  EXPECT_TRUE(drain(stranger).empty());
}

TEST(Proof, FailsOnBothEndsWhenKeysDiffer) {
  Ends ends = make_ends(test_identity(1), test_identity(2));
  run(ends);
  EXPECT_EQ(ends.acceptor.state(), State::Failed);
  EXPECT_EQ(ends.connector.state(), State::Failed);
  EXPECT_TRUE(ends.connector.refused());
}

// An attacker without the key sends back what it gets.
TEST(Proof, FailsWhenReflected) {
  for (const bool connects : {true, false}) {
    auto pair = socket_pair();
    const int mirror = pair->first.get();
    Handshake victim = connects ? Handshake::connector(std::move(pair->second), test_identity())
                                : Handshake::acceptor(std::move(pair->second), test_identity());
    // The acceptor waits for a first message, so the attacker sends one that it overheard.
    if (!connects) {
      ASSERT_TRUE(send_all(mirror, opening_of(test_identity()), Deadline::after_ms(100)));
    }
    for (int i = 0; i < 6 && victim.advance() != State::Failed; ++i) {
      auto bytes = drain(mirror);
      bytes.resize(std::max(bytes.size(), kProofBytes));
      (void)send_all(mirror, bytes, Deadline::after_ms(100));
    }
    EXPECT_EQ(victim.state(), State::Failed) << (connects ? "connector" : "acceptor");
  }
}

// The proof of one connection is worthless on the next, since nonces are fresh.
TEST(Proof, FailsWhenReplayed) {
  auto wire = socket_pair();
  Handshake honest = Handshake::connector(std::move(wire->second), test_identity());
  const int tap = wire->first.get();
  auto first = socket_pair();
  Handshake acceptor = Handshake::acceptor(std::move(first->second), test_identity());
  std::vector<std::byte> recorded;
  for (int i = 0; i < 4; ++i) {
    honest.advance();
    const auto from_connector = drain(tap);
    recorded.insert(recorded.end(), from_connector.begin(), from_connector.end());
    ASSERT_TRUE(send_all(first->first.get(), from_connector, Deadline::after_ms(100)));
    acceptor.advance();
    ASSERT_TRUE(send_all(tap, drain(first->first.get()), Deadline::after_ms(100)));
  }
  ASSERT_EQ(acceptor.state(), State::Proved);
  ASSERT_EQ(recorded.size(), kOpeningBytes + kProofBytes);
  auto second = socket_pair();
  Handshake again = Handshake::acceptor(std::move(second->second), test_identity());
  ASSERT_TRUE(send_all(second->first.get(), recorded, Deadline::after_ms(100)));
  EXPECT_EQ(again.advance(), State::Failed);
}

TEST(Proof, DropsGarbageAtTheFirstByte) {
  auto pair = socket_pair();
  Handshake acceptor = Handshake::acceptor(std::move(pair->second), test_identity());
  const std::array text{std::byte{'G'}};
  ASSERT_TRUE(send_all(pair->first.get(), text, Deadline::after_ms(100)));
  EXPECT_EQ(acceptor.advance(), State::Failed);
}

TEST(Proof, FailsWhenCutShort) {
  Ends whole = make_ends(test_identity(), test_identity());
  whole.connector.advance();
  const auto opening = drain(whole.acceptor.descriptor());
  for (std::size_t size = 0; size < opening.size(); size += 7) {
    auto pair = socket_pair();
    Handshake acceptor = Handshake::acceptor(std::move(pair->second), test_identity());
    ASSERT_TRUE(send_all(pair->first.get(), std::span(opening).first(size), Deadline::after_ms(100)));
    EXPECT_EQ(acceptor.advance(), State::Receiving);
    pair->first = Fd();
    EXPECT_EQ(acceptor.advance(), State::Failed);
  }
}

// Neither end proves the other when any bit is flipped, since the ticket and the proof cover what a greeting says.
TEST(Proof, FailsWhenABitIsChangedOnTheWay) {
  for (std::size_t position = 0; position < kOpeningBytes; ++position) {
    auto left = socket_pair();
    auto right = socket_pair();
    Handshake connector = Handshake::connector(std::move(left->second), test_identity());
    Handshake acceptor = Handshake::acceptor(std::move(right->second), test_identity());
    for (int i = 0; i < 4; ++i) {
      connector.advance();
      auto forward = drain(left->first.get());
      if (i == 0) forward[position] ^= std::byte{1};
      (void)send_all(right->first.get(), forward, Deadline::after_ms(100));
      acceptor.advance();
      (void)send_all(left->first.get(), drain(right->first.get()), Deadline::after_ms(100));
    }
    EXPECT_NE(acceptor.state(), State::Proved) << "byte " << position;
    EXPECT_NE(connector.state(), State::Proved) << "byte " << position;
  }
}

TEST(Proof, WorksOnePieceAtATime) {
  auto left = socket_pair();
  auto right = socket_pair();
  Handshake connector = Handshake::connector(std::move(left->second), test_identity());
  Handshake acceptor = Handshake::acceptor(std::move(right->second), test_identity());
  std::vector<std::byte> to_acceptor;
  std::vector<std::byte> to_connector;
  for (int i = 0; i < 1000 && connector.state() != State::Proved; ++i) {
    connector.advance();
    acceptor.advance();
    for (const std::byte byte : drain(left->first.get())) to_acceptor.push_back(byte);
    for (const std::byte byte : drain(right->first.get())) to_connector.push_back(byte);
    for (auto [queue, fd] :
         {std::pair(&to_acceptor, right->first.get()), std::pair(&to_connector, left->first.get())}) {
      if (queue->empty()) continue;
      ASSERT_TRUE(send_all(fd, std::span(*queue).first(1), Deadline::after_ms(100)));
      queue->erase(queue->begin());
    }
  }
  EXPECT_EQ(connector.state(), State::Proved);
  EXPECT_EQ(acceptor.state(), State::Proved);
}

TEST(Proof, EndsInTimeWhenNobodyAnswers) {
  auto pair = socket_pair();
  const Deadline bound = Deadline::after_ms(2000);
  auto proved = prove(std::move(pair->first), test_identity(), Deadline::after_ms(50));
  ASSERT_FALSE(proved);
  EXPECT_EQ(proved.error().code, ErrorCode::Timeout);
  EXPECT_FALSE(bound.passed());
}

// The signal SIGPIPE would end this program.
TEST(Proof, SurvivesAPeerThatIsGone) {
  auto pair = socket_pair();
  pair->second = Fd();
  auto proved = prove(std::move(pair->first), test_identity(), Deadline::after_ms(1000));
  ASSERT_FALSE(proved);
  EXPECT_EQ(proved.error().code, ErrorCode::PeerLost);
}

}  // namespace
}  // namespace wreath
