// Tests agreements with their clocks: eight ranks over channels of varied delay, in a time that only the test moves.
#include "src/membership/agreement.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <random>

namespace wreath {
namespace {

constexpr int kRanks = 8;
constexpr std::int64_t kMs = 1'000'000;
constexpr std::int64_t kStepMs = 10;
constexpr std::int64_t kLookMs = 50;
constexpr std::int64_t kMostDelayMs = 200;
constexpr std::int64_t kEndMs = 60'000;
constexpr Agreement::Limits kLimits = {3'000 * kMs, 1'000 * kMs, 12'000 * kMs};
constexpr std::int64_t kNever = kEndMs + 1;

// Says when each event happens to a rank, in milliseconds.
struct Fortune {
  std::int64_t enters = 0;
  std::int64_t dies = kNever;
  std::int64_t stops = kNever;
  std::int64_t goes_on = kNever;
};

class World {
 public:
  World(std::array<Fortune, kRanks> fortunes, unsigned seed) : fortunes_(fortunes), random_(seed) {
    for (Rank rank = 0; rank < kRanks; ++rank) members_.emplace_back(rank, kRanks);
  }

  void run() {
    for (now_ = 0; now_ < kEndMs; now_ += kStepMs) {
      for (Rank rank = 0; rank < kRanks; ++rank) step(rank);
    }
  }

  const Agreement& operator[](Rank rank) const { return members_[at(rank)].agreement; }

 private:
  struct Packet {
    std::int64_t due;
    // A packet without content is the end.
    std::optional<Agreement::Outgoing> content;
  };
  struct Member {
    Member(Rank rank, int ranks) : agreement(rank, ranks) {}
    Agreement agreement;
    bool entered = false;
    bool ended = false;
    std::optional<View> attempt;
    std::array<std::deque<Packet>, kRanks> arriving;  // by sender
  };

  static std::size_t at(Rank rank) { return static_cast<std::size_t>(rank); }
  std::int64_t below(std::int64_t limit) { return static_cast<std::int64_t>(random_()) % limit; }

  void step(Rank rank) {
    Member& self = members_[at(rank)];
    const Fortune& fortune = fortunes_[at(rank)];
    if (self.ended || (now_ >= fortune.stops && now_ < fortune.goes_on)) return;
    if (now_ >= fortune.dies) return end(rank);
    receive(self);
    if (!self.entered && now_ >= fortune.enters) {
      self.entered = true;
      self.agreement.begin(now_ * kMs, kLimits);
    }
    if (self.entered) act(rank);
    for (Agreement::Outgoing& outgoing : self.agreement.take_outgoing()) {
      const Rank to = outgoing.to;
      send(rank, to, std::move(outgoing));
    }
    // The rank leaves the parent.
    if (self.entered && self.agreement.over() && below(20) == 0) end(rank);
  }

  // Takes from each sender some of what has come.
  void receive(Member& self) {
    for (Rank sender = 0; sender < kRanks; ++sender) {
      std::deque<Packet>& queue = self.arriving[at(sender)];
      for (; !queue.empty() && queue.front().due <= now_ && below(8) != 0; queue.pop_front()) {
        const auto& content = queue.front().content;
        if (content) self.agreement.hear(sender, content->number, content->message);
        if (!content) self.agreement.lose(sender, Fate::Gone);
      }
    }
  }

  void act(Rank rank) {
    Member& self = members_[at(rank)];
    if (now_ % kLookMs == rank % (kLookMs / kStepMs) * kStepMs) self.agreement.look(now_ * kMs);
    if (self.agreement.attempt_is_void()) self.attempt.reset();
    if (const auto view = self.agreement.take_attempt()) {
      self.attempt = *view;
      if (self.agreement.meeting_at(*view) == nullptr) self.agreement.meet(*view, UniqueId{});
    }
    if (!self.attempt || below(10) != 0) return;
    const std::vector<Rank> needed = living(*self.attempt);
    const bool met = std::all_of(needed.begin(), needed.end(),
                                 [&](Rank peer) { return members_[at(peer)].attempt == self.attempt; });
    if (met) self.agreement.joined(*self.attempt);
  }

  void end(Rank rank) {
    members_[at(rank)].ended = true;
    for (Rank peer = 0; peer < kRanks; ++peer) {
      if (peer != rank) send(rank, peer, std::nullopt);
    }
  }

  void send(Rank from, Rank to, std::optional<Agreement::Outgoing> content) {
    std::deque<Packet>& queue = members_[at(to)].arriving[at(from)];
    const std::int64_t earliest = queue.empty() ? 0 : queue.back().due;
    queue.push_back({std::max(earliest, now_ + kStepMs + below(kMostDelayMs)), std::move(content)});
  }

  std::array<Fortune, kRanks> fortunes_;
  std::mt19937 random_;
  std::int64_t now_ = 0;
  std::deque<Member> members_;
};

constexpr Rank kStopped = 2;
constexpr Rank kKilled = 5;

// Expects that the others have the same members, and that the stopped rank knows that it is left out.
void expect_left_out(const World& world) {
  View expected(kRanks, Fate::Alive);
  expected[kStopped] = Fate::Unreachable;
  expected[kKilled] = Fate::Gone;
  for (Rank rank = 0; rank < kRanks; ++rank) {
    if (rank == kStopped || rank == kKilled) continue;
    ASSERT_EQ(world[rank].consensus().outcome(), Consensus::Outcome::Decided) << "rank " << rank;
    EXPECT_EQ(world[rank].consensus().decided(), expected) << "rank " << rank;
  }
  ASSERT_EQ(world[kStopped].consensus().outcome(), Consensus::Outcome::Refused);
  EXPECT_EQ(world[kStopped].consensus().error().code, ErrorCode::PeerLost);
}

// Makes ranks enter up to 2 s apart, so that their clocks run out up to 2 s apart.
std::array<Fortune, kRanks> apart(std::mt19937& random) {
  std::array<Fortune, kRanks> fortunes;
  for (Fortune& fortune : fortunes) fortune.enters = 100 + static_cast<std::int64_t>(random() % 2'000);
  fortunes[kKilled].dies = 50;
  fortunes[kStopped].goes_on = 40'000;
  return fortunes;
}

// Runs 50 worlds in which kStopped stops at `stops` and enters its call at `enters`. Where `enters` is empty, it enters
// at any time.
void expect_left_out_everywhere(std::int64_t stops, std::optional<std::int64_t> enters) {
  for (unsigned seed = 0; seed < 50 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::array<Fortune, kRanks> fortunes = apart(random);
    fortunes[kStopped].stops = stops;
    fortunes[kStopped].enters = enters.value_or(fortunes[kStopped].enters);
    World world(fortunes, seed);
    world.run();
    expect_left_out(world);
  }
}

TEST(Agreement, LeavesOutWhoWasStoppedBeforeItsCall) { expect_left_out_everywhere(0, std::nullopt); }

TEST(Agreement, LeavesOutWhoWasStoppedInItsCall) { expect_left_out_everywhere(50, 0); }

Statement holds(const View& view) { return {Statement::Kind::Holds, view, {}, {}, -1, {}}; }

TEST(Agreement, LosesOnlyWhomItWaitedForWhenTheClockRanOut) {
  Agreement agreement(0, 4);
  agreement.begin(0, kLimits);
  for (const Rank peer : {2, 3}) agreement.hear(peer, 1, {std::nullopt, holds(View(4, Fate::Alive))});
  agreement.look(kLimits.entering_ns);
  EXPECT_EQ(failed_ranks(agreement.consensus().view()), "no rank");
  agreement.look(kLimits.entering_ns + 1);
  EXPECT_EQ(failed_ranks(agreement.consensus().view()), "rank 1");
  agreement.look(kLimits.entering_ns + 2);
  agreement.look(kLimits.entering_ns + 2 + kLimits.answer_ns);
  EXPECT_EQ(failed_ranks(agreement.consensus().view()), "rank 1") << "the others have yet to answer";
  agreement.look(kLimits.entering_ns + 3 + kLimits.answer_ns);
  EXPECT_EQ(failed_ranks(agreement.consensus().view()), "ranks 1, 2, 3");
}

TEST(Agreement, GoesOnWithoutWhoDoesNotSayWhereToMeet) {
  Agreement agreement(2, 3);
  agreement.begin(0, kLimits);
  for (const Rank peer : {0, 1}) agreement.hear(peer, 1, {std::nullopt, holds(View(3, Fate::Alive))});
  ASSERT_TRUE(agreement.consensus().attempting());
  EXPECT_EQ(agreement.take_attempt(), std::nullopt);
  agreement.look(1);
  agreement.look(1 + kLimits.answer_ns + kLimits.joining_ns);
  EXPECT_EQ(failed_ranks(agreement.consensus().view()), "no rank");
  agreement.look(2 + kLimits.answer_ns + kLimits.joining_ns);
  EXPECT_EQ(failed_ranks(agreement.consensus().view()), "rank 0");
}

TEST(Agreement, HearsWhatCameBeforeItsCallAndBeforeTheEndOfWhoSaidIt) {
  Agreement agreement(1, 2);
  agreement.hear(0, 1, {std::nullopt, {Statement::Kind::Decided, {Fate::Alive, Fate::Unreachable}, {}, {}, -1, {}}});
  agreement.lose(0, Fate::Gone);
  agreement.begin(0, kLimits);
  EXPECT_EQ(agreement.consensus().outcome(), Consensus::Outcome::Refused);
  EXPECT_EQ(agreement.consensus().error().failed_rank, 1);
}

}  // namespace
}  // namespace wreath
