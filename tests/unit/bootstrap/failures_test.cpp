// Tests starts that cannot succeed: every rank that came gets the reason in time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/bootstrap/frame.hpp"
#include "tests/unit/bootstrap/helpers.hpp"

namespace wreath {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

void expect_all_told(const Results& results, const ::testing::Matcher<std::string>& text, int failed_rank) {
  for (const auto& result : results) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::StartupFailed);
    EXPECT_THAT(result.error().message, text);
    EXPECT_EQ(result.error().failed_rank, failed_rank);
  }
}

// Connects to the meeting with the message `hello` and keeps the connection.
Connection raw_guest(const MeetingPlace& place, const Hello& hello) {
  Identity self = place.self;
  self.greeting.rank = hello.rank;
  auto fd = connect_to(place.candidates[0], Deadline::after_ms(1000));
  auto proved = prove(std::move(fd.value()), self, Deadline::after_ms(1000));
  send_message(proved.value().connection, hello, Deadline::after_ms(1000)).value();
  return std::move(proved->connection);
}

Hello raw_hello(int rank, int ranks) {
  Hello hello;
  hello.rank = rank;
  hello.ranks = ranks;
  hello.pid = 1000 + rank;
  hello.host_name = "elsewhere";
  hello.library_version = std::string(library_version());
  hello.timeout_ms = 10'000;
  return hello;
}

TEST(StartupFailure, NamesBothProcessesOfADoubledRank) {
  const MeetingPlace place = open_meeting();
  const Connection twin = raw_guest(place, raw_hello(1, 3));
  const auto results = join_all(2, [&](int i) { return meet(place, request(i, 3)); });
  expect_all_told(results,
                  AllOf(HasSubstr("two processes claim rank 1"), HasSubstr("pid 1001 on host elsewhere"),
                        HasSubstr("pid " + std::to_string(::getpid()))),
                  1);
}

TEST(StartupFailure, NamesMissingRanks) {
  const DescriptorCount before;
  const Deadline bound = Deadline::after_ms(3000);
  {
    const MeetingPlace place = open_meeting();
    const auto results = join_all(2, [&](int i) { return meet(place, request(3 * i, 5, 300)); });
    expect_all_told(results, HasSubstr("ranks 1, 2, 4 of 5 did not arrive within 300 ms"), 1);
  }
  EXPECT_FALSE(bound.passed());
  EXPECT_TRUE(before.settles());
}

TEST(StartupFailure, NamesDifferentLibraries) {
  const MeetingPlace place = open_meeting();
  const auto results = join_all(2, [&](int i) {
    MeetingPlace mine = place;
    if (i == 1) mine.self.greeting.version = "9.9.9";
    return meet(mine, request(i, 2));
  });
  for (const auto& result : results) {
    ASSERT_FALSE(result);
    EXPECT_THAT(result.error().message, AllOf(HasSubstr("library versions differ"), HasSubstr("9.9.9"),
                                              HasSubstr(std::string(library_version()))));
  }
}

TEST(StartupFailure, NamesDifferentProtocols) {
  const MeetingPlace place = open_meeting();
  const auto results = join_all(2, [&](int i) {
    MeetingPlace mine = place;
    if (i == 1) mine.self.greeting.protocol = 77;
    return meet(mine, request(i, 2));
  });
  for (const auto& result : results) {
    ASSERT_FALSE(result);
    EXPECT_THAT(result.error().message, AllOf(HasSubstr("library versions differ"), HasSubstr("protocol 77")));
  }
}

TEST(StartupFailure, NamesARankOutOfRange) {
  for (const int bad : {2, -1, 1 << 30}) {
    const MeetingPlace place = open_meeting();
    const auto results = join_all(2, [&](int i) { return meet(place, request(i == 0 ? 0 : bad, 2)); });
    expect_all_told(results, AllOf(HasSubstr("rank " + std::to_string(bad)), HasSubstr("job of 2 ranks")), bad);
  }
}

TEST(StartupFailure, RefusesABadNumberOfRanks) {
  const MeetingPlace place;
  for (const int ranks : {0, -5, kMaximumRanks + 1}) {
    auto result = meet(place, request(0, ranks));
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::InvalidArgument);
  }
}

// Takes a guest through the start-up messages up to the table of all ranks.
Connection at_the_table(Connection guest) {
  (void)recv_message(guest, Deadline::after_ms(5000));
  (void)send_message(guest, Listening{}, Deadline::after_ms(1000));
  (void)recv_message(guest, Deadline::after_ms(5000));
  return guest;
}

// Expects the error PeerLost and not StartupFailed: the program that started the ranks reads from the code which rank
// is at fault.
void expect_left(const Result<Membership>& result) {
  ASSERT_FALSE(result);
  EXPECT_EQ(name(result.error().code), name(ErrorCode::PeerLost)) << result.error().message;
  EXPECT_THAT(result.error().message, HasSubstr("rank 1 (host elsewhere, pid 1001) left during start-up"));
  EXPECT_EQ(result.error().failed_rank, 1);
}

TEST(StartupFailure, NamesARankThatLeaves) {
  const Deadline bound = Deadline::after_ms(3000);
  for (const bool at_once : {true, false}) {
    const MeetingPlace place = open_meeting();
    const auto results = join_all(2, [&](int i) -> Result<Membership> {
      if (i == 0) return meet(place, request(0, at_once ? 3 : 2, 30'000));
      Connection guest = raw_guest(place, raw_hello(1, at_once ? 3 : 2));
      if (!at_once) guest = at_the_table(std::move(guest));
      sleep_ms(50);
      return Error{ErrorCode::System, "left"};
    });
    expect_left(results[0]);
  }
  EXPECT_FALSE(bound.passed());
}

// Another rank is the first to report an error, since its connection to the rank that left was refused.
TEST(StartupFailure, NamesARankThatLeavesAndNotWhoMissesIt) {
  for (int round = 0; round < 20; ++round) {
    const MeetingPlace place = open_meeting();
    const auto results = join_all(2, [&](int i) -> Result<Membership> {
      if (i == 0) return meet(place, request(0, 3, 30'000));
      Connection misses = raw_guest(place, raw_hello(2, 3));
      Connection gone = raw_guest(place, raw_hello(1, 3));
      std::thread other([&] { misses = at_the_table(std::move(misses)); });
      gone = at_the_table(std::move(gone));
      other.join();
      gone = Connection();
      Ready ready;
      ready.error = "no connection to rank 1";
      (void)send_message(misses, ready, Deadline::after_ms(1000));
      (void)recv_message(misses, Deadline::after_ms(5000));
      return Error{ErrorCode::System, "left"};
    });
    expect_left(results[0]);
  }
}

// All ranks have met, but one of them does not accept the connections of the others.
TEST(StartupFailure, NamesARankThatCannotBeReached) {
  const MeetingPlace place = open_meeting();
  const auto results = join_all(2, [&](int i) -> Result<Membership> {
    if (i == 1) return meet(place, request(1, 2, 10'000));
    Hello hello = raw_hello(0, 2);
    hello.host = place.host;
    hello.unix_name = "wreath-test-nobody-listens-here";
    Connection guest = at_the_table(raw_guest(place, hello));
    auto verdict = recv_message(guest, Deadline::after_ms(5000));
    return Error{ErrorCode::StartupFailed, std::get<Refusal>(verdict.value()).text};
  });
  for (const auto& result : results) {
    ASSERT_FALSE(result);
    EXPECT_THAT(result.error().message,
                AllOf(HasSubstr("rank 1"), HasSubstr("no connection to rank 0 (host elsewhere")));
  }
}

// The ranks share a UNIX socket but are of several hosts. Containers make this situation, and so does a host name that
// somebody changed.
TEST(StartupFailure, SaysWhySeveralHostsMetAtASocketOfOne) {
  MeetingPlace place;
  place.unfit_for_hosts = "this job has no key";
  place.self = test_identity();
  std::vector<Fd> listeners;
  listeners.push_back(listen_on(SocketAddress::abstract_unix("wreath-test-" + std::to_string(::getpid()))).value());
  place.candidates = {local_address(listeners[0].get())};
  serve_meeting(std::move(listeners), place.self).value();
  const auto results = join_all(2, [&](int i) -> Result<Membership> {
    MeetingPlace own = place;
    own.host += static_cast<std::uint64_t>(i);
    return meet(own, request(i, 2, 5'000));
  });
  for (const auto& result : results) {
    ASSERT_FALSE(result);
    EXPECT_THAT(result.error().message, HasSubstr("met at a UNIX socket of one: this job has no key"));
  }
}

TEST(StartupFailure, IsToldToThoseWhoComeLate) {
  const MeetingPlace place = open_meeting();
  const auto first = join_all(1, [&](int) { return meet(place, request(9, 2)); });
  ASSERT_FALSE(first[0]);
  auto late = meet(place, request(0, 2));
  ASSERT_FALSE(late);
  EXPECT_THAT(late.error().message, HasSubstr("rank 9"));
}

TEST(StartupFailure, EndsInTimeWithoutAMeetingPoint) {
  const Deadline bound = Deadline::after_ms(3000);
  MeetingPlace place;
  place.self = test_identity();
  {
    auto closed = listen_on(SocketAddress::loopback(AF_INET, 0));
    place.candidates = {local_address(closed->get())};
  }
  place.hint = "a hint";
  auto result = meet(place, request(1, 2, 200));
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, AllOf(HasSubstr("127.0.0.1"), HasSubstr("200 ms"), HasSubstr("a hint")));
  EXPECT_FALSE(bound.passed());
}

TEST(StartupFailure, EndsWhenAGuestIsSilent) {
  const MeetingPlace place = open_meeting();
  Hello silent = raw_hello(1, 2);
  silent.timeout_ms = 300;
  const Connection guest = raw_guest(place, silent);
  sleep_ms(20);
  auto result = meet(place, request(0, 2, 300));
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, HasSubstr("rank 1 of 2 did not answer"));
  EXPECT_EQ(result.error().failed_rank, 1);
}

}  // namespace
}  // namespace wreath
