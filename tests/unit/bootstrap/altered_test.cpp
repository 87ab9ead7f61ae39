// Tests that a start fails, and says why, when bits are flipped between a rank and the meeting point.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>

#include "tests/unit/bootstrap/helpers.hpp"

namespace wreath {
namespace {

using ::testing::HasSubstr;

enum class Way { ToPoint, FromPoint };

// Returns the offset of the first byte after the proof: every change from there on must be noticed.
std::size_t behind_proof(Way way) { return (way == Way::ToPoint ? kOpeningBytes : kGreetingBytes) + kTagBytes; }

// Carries one connection to the meeting point, and flips one bit of the byte at `at` on its way.
class Relay {
 public:
  Relay(const SocketAddress& point, Way way, std::size_t at)
      : point_(point),
        way_(way),
        at_(at),
        listener_(std::move(listen_on(SocketAddress::loopback(AF_INET, 0)).value())) {
    address_ = local_address(listener_.get());
    thread_ = std::thread([this] { carry(); });
  }
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;
  ~Relay() {
    end_ = true;
    thread_.join();
  }
  const SocketAddress& address() const { return address_; }
  bool flipped() const { return flipped_; }

 private:
  void carry() {
    while (!end_ && !wait_for(listener_.get(), POLLIN, Deadline::after_ms(20))) {
    }
    const Fd rank(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    auto point = connect_to(point_, Deadline::after_ms(2000));
    if (!rank || !point) return;
    bool open = true;
    while (open && !end_) {
      std::array<pollfd, 2> set{pollfd{rank.get(), POLLIN, 0}, pollfd{point->get(), POLLIN, 0}};
      (void)::poll(set.data(), set.size(), 20);
      open = move(rank.get(), point->get(), Way::ToPoint) && move(point->get(), rank.get(), Way::FromPoint);
    }
  }

  bool move(int from, int to, Way way) {
    std::array<std::byte, 4096> bytes{};
    const std::ptrdiff_t got = try_recv(from, bytes);
    if (got <= 0) return got == 0;
    std::size_t& done = done_[static_cast<std::size_t>(way)];
    const auto size = static_cast<std::size_t>(got);
    if (way == way_ && at_ >= done && at_ < done + size) {
      bytes[at_ - done] ^= std::byte{4};
      flipped_ = true;
    }
    done += size;
    return static_cast<bool>(send_all(to, std::span(bytes).first(size), Deadline::after_ms(2000)));
  }

  SocketAddress point_;
  Way way_;
  std::size_t at_;
  Fd listener_;
  SocketAddress address_;
  std::array<std::size_t, 2> done_{};
  std::atomic<bool> end_{false};
  std::atomic<bool> flipped_{false};
  std::thread thread_;
};

// Starts two ranks, the second behind a relay. Returns the errors, or an empty text where both succeed. `flipped`
// becomes true where the connection had a byte at `at`.
std::string start_with_flip(Way way, std::size_t at, bool& flipped) {
  const MeetingPlace place = open_meeting();
  Relay relay(place.candidates[0], way, at);
  MeetingPlace behind = place;
  behind.candidates = {relay.address()};
  const auto results = join_all(2, [&](int rank) { return meet(rank == 0 ? place : behind, request(rank, 2, 1500)); });
  flipped = relay.flipped();
  std::string text;
  for (const auto& result : results) {
    if (!result) text += result.error().message + "; ";
  }
  return text;
}

class Altered : public ::testing::TestWithParam<Way> {};

TEST_P(Altered, StartUpMessagesAreNoticed) {
  bool flipped = true;
  int flips = 0;
  for (std::size_t at = behind_proof(GetParam()); flipped; at += 9) {
    const std::string text = start_with_flip(GetParam(), at, flipped);
    flips += flipped ? 1 : 0;
    if (flipped) {
      EXPECT_THAT(text, HasSubstr("a message was altered on its way")) << "byte " << at;
    } else {
      EXPECT_EQ(text, "");
    }
  }
  EXPECT_GT(flips, 20);
  wait_for_meetings(0);
}

INSTANTIATE_TEST_SUITE_P(Of, Altered, ::testing::Values(Way::ToPoint, Way::FromPoint),
                         [](const auto& way) { return way.param == Way::ToPoint ? "ARank" : "TheMeetingPoint"; });

}  // namespace
}  // namespace wreath
