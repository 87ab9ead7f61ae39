// Tests connections of strangers: the library drops them, and they neither keep a rank out nor slow it down.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>

#include <atomic>
#include <deque>
#include <random>

#include "src/bootstrap/acceptor.hpp"
#include "tests/support/processes.hpp"
#include "tests/unit/bootstrap/helpers.hpp"

namespace wreath {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct Door {
  Door() {
    std::vector<Fd> listeners;
    listeners.push_back(listen_on(SocketAddress::loopback(AF_INET, 0)).value());
    address = local_address(listeners[0].get());
    acceptor = std::make_unique<Acceptor>(std::move(listeners), test_identity());
  }
  Fd knock() const { return std::move(connect_to(address, Deadline::after_ms(2000)).value()); }
  SocketAddress address;
  std::unique_ptr<Acceptor> acceptor;
};

// Sends one stranger of kind `kind % 5`. Returns its connection where the kind leaves it half open, else none.
Fd send_stranger(const SocketAddress& address, unsigned kind) {
  auto fd = connect_to(address, Deadline::after_ms(2000));
  if (!fd || kind % 5 == 0) return Fd();
  if (kind % 5 == 1) return std::move(*fd);
  std::vector<std::byte> bytes(200);
  std::mt19937 random(kind);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  if (kind % 5 == 2) (void)send_all(fd->get(), bytes, Deadline::after_ms(100));
  if (kind % 5 == 3)
    (void)send_all(fd->get(), std::as_bytes(std::span("GET / HTTP/1.1\r\n\r\n")), Deadline::after_ms(100));
  if (kind % 5 == 4) (void)prove(std::move(*fd), test_identity(99), Deadline::after_ms(20));
  return Fd();
}

// Sends `count` strangers while 8 ranks meet. At most `kept` of the connections are half open at a time.
void flood_while_ranks_meet(unsigned count, std::size_t kept) {
  const MeetingPlace place = open_meeting();
  std::atomic<bool> started{false};
  std::atomic<bool> ended{false};
  std::thread strangers([&] {
    std::deque<Fd> half_open;
    for (unsigned i = 0; i < count; ++i) {
      if (Fd fd = send_stranger(place.candidates[0], i)) half_open.push_back(std::move(fd));
      if (half_open.size() > kept) half_open.pop_front();
      if (i == count / 4) started = true;
    }
    ended = true;
  });
  while (!started) sleep_ms(1);
  const auto results = join_all(8, [&](int rank) {
    // The meeting lasts as long as the flood.
    while (rank == 7 && !ended) sleep_ms(1);
    return meet(place, request(rank, 8));
  });
  for (const auto& result : results) EXPECT_TRUE(result) << result.error().message;
  strangers.join();
}

TEST(Strangers, DoNotKeepRanksFromMeeting) {
  const DescriptorCount before;
  flood_while_ranks_meet(400, 200);
  EXPECT_TRUE(before.settles());
}

// This test sends 10,000 strangers: it is the long one of this file, and still ends within 30 s.
TEST(StrangersLong, TenThousandDoNotKeepRanksFromMeeting) {
  const Deadline bound = Deadline::after_ms(30'000);
  flood_while_ranks_meet(10'000, 300);
  EXPECT_FALSE(bound.passed());
}

TEST(Strangers, AreCountedAndDropped) {
  Door door;
  std::vector<Fd> open;
  for (unsigned i = 0; i < 3; ++i) open.push_back(door.knock());
  (void)send_all(open[0].get(), std::as_bytes(std::span("SSH-2.0-x")), Deadline::after_ms(100));
  open[1] = Fd();
  auto nobody = door.acceptor->next(Deadline::after_ms(50));
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().code, ErrorCode::Timeout);
  EXPECT_EQ(door.acceptor->refused().wrong, 1U);
  EXPECT_EQ(door.acceptor->refused().ended, 1U);
  // The silent stranger has time left.
  EXPECT_EQ(door.acceptor->refused().late, 0U);
  EXPECT_EQ(door.acceptor->refused().text(),
            "1 connection did not prove the job's key: do all ranks have the same key?; 1 connection ended before a "
            "proof of the job's key");
}

TEST(Strangers, ThatSaySlowlyNothingAreDroppedAfterTwoSeconds) {
  Door door;
  const Fd silent = door.knock();
  ASSERT_FALSE(door.acceptor->next(Deadline::after_ms(Acceptor::kHandshakeMs + 300)));
  EXPECT_EQ(door.acceptor->refused().late, 1U);
  EXPECT_EQ(door.acceptor->refused().total(), 1U);
}

// A rank whose start ends while its handshake goes on has proved nothing wrong.
TEST(Strangers, AreNotThoseWhoWereMerelyLate) {
  testing::internal::CaptureStderr();
  {
    Door door;
    const Fd silent = door.knock();
    // This stranger closes its connection at once.
    (void)door.knock();
    ASSERT_FALSE(door.acceptor->next(Deadline::after_ms(100)));
  }
  const std::string logged = testing::internal::GetCapturedStderr();
  EXPECT_THAT(logged, Not(HasSubstr("warning"))) << logged;
}

TEST(Strangers, WithAnotherKeyAreWarnedOf) {
  testing::internal::CaptureStderr();
  {
    Door door;
    std::thread stranger([&] {
      const auto refused = prove(door.knock(), test_identity(7), Deadline::after_ms(5000));
      ASSERT_FALSE(refused);
      EXPECT_THAT(refused.error().message, HasSubstr("refused this rank's key: its own is another"));
    });
    ASSERT_FALSE(door.acceptor->next(Deadline::after_ms(500)));
    stranger.join();
  }
  const std::string logged = testing::internal::GetCapturedStderr();
  EXPECT_THAT(logged, AllOf(HasSubstr("warning"), HasSubstr("1 connection did not prove the job's key"))) << logged;
}

TEST(Strangers, GiveWayToRanksWhenTheyAreMany) {
  Door door;
  std::vector<Fd> silent;
  for (std::size_t i = 0; i < 2 * Acceptor::kMaxPending; ++i) silent.push_back(door.knock());
  std::thread rank([&] { EXPECT_TRUE(prove(door.knock(), test_identity(1, 5), Deadline::after_ms(5000))); });
  auto proved = door.acceptor->next(Deadline::after_ms(5000));
  rank.join();
  ASSERT_TRUE(proved) << proved.error().message;
  EXPECT_EQ(proved->peer.rank, 5);
  EXPECT_GE(door.acceptor->refused().crowded, Acceptor::kMaxPending);
  EXPECT_THAT(door.acceptor->refused().text(), Not(HasSubstr("do all ranks have the same key?")));
}

// Returns the first message of a connector with this key.
std::vector<std::byte> opening(int seed) {
  auto wire = socket_pair();
  Handshake::connector(std::move(wire.value().second), test_identity(seed)).advance();
  std::vector<std::byte> bytes(4096);
  bytes.resize(static_cast<std::size_t>(try_recv(wire->first.get(), bytes)));
  return bytes;
}

// Connects to `address` from the address `source` of this host, so that the acceptor takes the connection for another
// host's. Sends `first` over it.
Fd come_from(const std::string& source, const SocketAddress& address, std::span<const std::byte> first) {
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const SocketAddress from = SocketAddress::parse_ip(source, 0).value();
  EXPECT_EQ(::bind(fd.get(), from.get(), from.length()), 0);
  EXPECT_EQ(::connect(fd.get(), address.get(), address.length()), 0);
  (void)send_all(fd.get(), first, Deadline::after_ms(100));
  return fd;
}

// Sends some 2,000 strangers a second until the object ends. Each stranger sends `first`, and the latest
// 600 stay connected.
class Trickle {
 public:
  Trickle(const SocketAddress& address, std::string source, std::vector<std::byte> first)
      : thread_([this, address, source = std::move(source), first = std::move(first)] {
          std::deque<Fd> open;
          while (!end_) {
            open.push_back(come_from(source, address, first));
            if (open.size() > 600) open.pop_front();
            if (++count_ % 2 == 0) sleep_ms(1);
          }
        }) {}
  Trickle(const Trickle&) = delete;
  Trickle& operator=(const Trickle&) = delete;
  ~Trickle() {
    end_ = true;
    thread_.join();
  }
  int count() const { return count_; }

 private:
  std::atomic<bool> end_{false};
  std::atomic<int> count_{0};
  std::thread thread_;
};

// Proves the key like a rank with a round-trip time of 100 ms.
Handshake::State prove_from_afar(const Door& door) {
  Handshake handshake = Handshake::connector(door.knock(), test_identity(1, 5));
  for (int i = 0; i < 4 && handshake.advance() != Handshake::State::Failed; ++i) sleep_ms(100);
  return handshake.state();
}

// 200 strangers come while a rank's proof is on its way, and there are places for 128. Strangers without the key never
// hold a place for long. A stranger that repeats a rank's message takes only the places of its own address.
TEST(Strangers, InATrickleDoNotKeepAFarRankOut) {
  const std::vector<std::pair<std::string, std::vector<std::byte>>> kinds{
      {"127.0.0.1", {}}, {"127.0.0.1", opening(2)}, {"127.0.0.2", opening(1)}};
  for (const auto& [source, first] : kinds) {
    Door door;
    const Trickle trickle(door.address, source, first);
    while (trickle.count() < 300) (void)door.acceptor->next(Deadline::after_ms(1));
    std::atomic<Handshake::State> outcome{Handshake::State::Sending};
    std::thread rank([&] { outcome = prove_from_afar(door); });
    const auto proved = door.acceptor->next(Deadline::after_ms(1000));
    rank.join();
    ASSERT_TRUE(proved) << proved.error().message << " with " << first.size() << " bytes from " << source;
    EXPECT_EQ(proved->peer.rank, 5);
    EXPECT_EQ(outcome, Handshake::State::Proved);
  }
}

// Returns whether the other end has closed the connection.
bool closed(const Fd& connection) {
  std::array<std::byte, 4096> ignored{};
  std::ptrdiff_t got = 1;
  while (got > 0) got = try_recv(connection.get(), ignored);
  return got < 0;
}

TEST(Strangers, GiveWayWhereTheyAreMost) {
  for (const bool repeated : {false, true}) {
    const std::vector<std::byte> first = repeated ? opening(1) : std::vector<std::byte>();
    Door door;
    std::deque<Fd> few;
    for (int i = 0; i < 20; ++i) few.push_back(come_from("127.0.0.2", door.address, first));
    std::deque<Fd> many;
    for (int i = 0; i < 400; ++i) many.push_back(come_from("127.0.0.3", door.address, first));
    std::size_t gone = 0;
    const bool gave_way = testing_support::eventually(10'000, [&] {
      (void)door.acceptor->next(Deadline::after_ms(300));
      gone = static_cast<std::size_t>(std::ranges::count_if(many, closed));
      return gone >= 420 - Acceptor::kMaxPending;
    });
    EXPECT_TRUE(gave_way) << gone;
    EXPECT_EQ(gone, 420 - Acceptor::kMaxPending);
    EXPECT_EQ(std::ranges::count_if(few, closed), 0);
  }
}

// Holds RLIMIT_NOFILE at the descriptors that are open now, for the lifetime of the object.
class NoMoreDescriptors {
 public:
  explicit NoMoreDescriptors(int meetings) {
    // A meeting that ends later would give descriptors back.
    wait_for_meetings(meetings);
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const Fd highest(::dup(0));
    rlimit now = before_;
    now.rlim_cur = static_cast<rlim_t>(highest.get());
    ::setrlimit(RLIMIT_NOFILE, &now);
  }
  ~NoMoreDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST(Descriptors, ThatRunOutAreNamedAndWaitedFor) {
  Door door;
  Fd rank = door.knock();
  {
    const NoMoreDescriptors limit(0);
    auto nobody = door.acceptor->next(Deadline::after_ms(100));
    ASSERT_FALSE(nobody);
    EXPECT_EQ(nobody.error().code, ErrorCode::System);
    EXPECT_THAT(nobody.error().message, HasSubstr("RLIMIT_NOFILE"));
  }
  std::thread prover([&] { EXPECT_TRUE(prove(std::move(rank), test_identity(), Deadline::after_ms(5000))); });
  EXPECT_TRUE(door.acceptor->next(Deadline::after_ms(5000)));
  prover.join();
}

// An acceptor that has no descriptor for a waiting rank reports this while the others still wait for the proof.
TEST(Descriptors, ThatStayAwayEndAWaitLongBeforeItsDeadline) {
  // Nobody waits at the first listener: this must not hide the rank that waits at the second.
  std::vector<Fd> listeners;
  for (int i = 0; i < 2; ++i) listeners.push_back(listen_on(SocketAddress::loopback(AF_INET, 0)).value());
  const SocketAddress second = local_address(listeners[1].get());
  Acceptor acceptor(std::move(listeners), test_identity());
  const Fd rank = std::move(connect_to(second, Deadline::after_ms(2000)).value());
  const NoMoreDescriptors limit(0);
  const Deadline bound = Deadline::after_ms(30'000);
  auto nobody = acceptor.next(Deadline::after_ms(60'000));
  EXPECT_FALSE(bound.passed());
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().code, ErrorCode::System);
  EXPECT_THAT(nobody.error().message, HasSubstr("RLIMIT_NOFILE"));
}

// A rank of this process waits with the last descriptor for another one, gives up, and comes again, as a search does.
TEST(Descriptors, ThatOneRankHasInTurnsWithTheAcceptorAreNamed) {
  Door door;
  Fd rank = door.knock();
  const NoMoreDescriptors limit(0);
  std::jthread search([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      sleep_ms(250);
      rank = Fd();
      sleep_ms(60);
      if (auto again = connect_to(door.address, Deadline::after_ms(1000))) rank = std::move(*again);
    }
  });
  const Deadline bound = Deadline::after_ms(30'000);
  auto nobody = door.acceptor->next(Deadline::after_ms(60'000));
  EXPECT_FALSE(bound.passed());
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().code, ErrorCode::System);
  EXPECT_THAT(nobody.error().message, HasSubstr("RLIMIT_NOFILE"));
}

TEST(Descriptors, ThatRunOutEndAJoin) {
  const MeetingPlace place = open_meeting();
  {
    const NoMoreDescriptors limit(1);
    auto result = meet(place, request(0, 2));
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::System);
    EXPECT_THAT(result.error().message, HasSubstr("RLIMIT_NOFILE"));
  }
  // This call ends the meeting.
  EXPECT_TRUE(meet(place, request(0, 1)));
}

}  // namespace
}  // namespace wreath
