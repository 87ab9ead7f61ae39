// Tests split and shrink over members whose messages all go through rank 0: they know ranks, and no connection.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "src/base/clock.hpp"
#include "src/bootstrap/bootstrap.hpp"
#include "src/membership/join.hpp"
#include "src/membership/shrink.hpp"
#include "src/membership/split.hpp"
#include "tests/support/routed_members.hpp"

namespace wreath::children_tests {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_support::Route;
using testing_support::RoutedMembers;

constexpr int kRanks = 4;
constexpr std::int64_t kStartMs = 10'000;

Timeouts quick() {
  Timeouts timeouts;
  timeouts.bootstrap_ms = kStartMs;
  timeouts.arrival_ms = 5'000;
  return timeouts;
}

// Holds the ranks of the parent, in the child's order.
struct Child final : ChildCommunicator {
  explicit Child(std::vector<Rank> those) : members(std::move(those)) {}
  void leave() override { left = true; }
  std::vector<Rank> members;
  bool left = false;
};
using Outcome = Result<std::shared_ptr<ChildCommunicator>>;

std::vector<Rank> members_of(const Outcome& outcome) {
  if (!outcome || *outcome == nullptr) return {};
  return static_cast<const Child&>(**outcome).members;
}

// Stands for a rank that has members and no engine.
class Parent final : public ParentCommunicator {
 public:
  Parent(const Membership& membership, std::shared_ptr<Route> route)
      : members_(membership.rank, membership.members, std::move(route)),
        split_(*this, members_, quick()),
        shrink_(*this, members_, quick()) {
    ControlHandlers& handlers = members_.handlers();
    split_.handle(handlers);
    shrink_.handle(handlers);
    for (std::size_t kind = 0; kind < kMessageKinds; ++kind) {
      handlers.add(static_cast<MessageKind>(kind), [](Rank, ControlMessage&) {});
    }
    handlers.add_unable([](const Error&) {});
    EXPECT_TRUE(members_.start(*progress_));
  }
  ~Parent() override { members_.stop(); }

  Members& members() { return members_; }
  Split& split() { return split_; }
  Shrink& shrink() { return shrink_; }
  // Makes each attempt to make children of this rank fail.
  void refuse_children() { refuses_ = true; }
  // Calls `act` in place of each attempt.
  void instead_of_children(std::function<Outcome()> act) { instead_ = std::move(act); }

  std::string identity() const override { return "a rank without an engine"; }
  Status error() const override {
    const std::lock_guard lock(mutex_);
    return failure_ ? Status(*failure_) : Status();
  }
  void fail(ErrorCode code, Rank failed_rank, const std::string& reason) override {
    {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = Error{code, reason, failed_rank};
    }
    split_.on_failure();
  }
  bool differs() const override { return false; }
  Progressed progressed(Rank) const override { return {}; }
  Outcome join(const std::vector<Rank>& members, const UniqueId& id, const Interrupt& interrupt) override {
    if (refuses_) return Error{ErrorCode::System, "no memory", -1};
    if (instead_) return instead_();
    const auto self = std::find(members.begin(), members.end(), members_.rank());
    BootstrapRequest request{};
    request.rank = static_cast<int>(self - members.begin());
    request.ranks = static_cast<int>(members.size());
    request.timeout_ms = kStartMs;
    request.interrupt = interrupt.descriptor();
    const auto joined = wreath::join(id, request);
    if (!joined) return error_of_child(joined.error(), members);
    return std::shared_ptr<ChildCommunicator>(std::make_shared<Child>(members));
  }

 private:
  std::shared_ptr<Progress> progress_ = Progress::instance().value();
  RoutedMembers members_;
  Split split_;
  Shrink shrink_;
  bool refuses_ = false;
  std::function<Outcome()> instead_;
  mutable std::mutex mutex_;
  std::optional<Error> failure_;
};

// Runs each rank on a thread of its own. All ranks stay until the last is done, since rank 0 passes on the messages of
// the others.
class Job {
 public:
  Job() {
    const auto memberships = join_local(kRanks, "").value();
    for (const Membership& one : memberships) {
      ranks_.push_back(std::make_unique<Parent>(one, route_));
    }
  }
  Parent& at(Rank rank) { return *ranks_[static_cast<std::size_t>(rank)]; }
  Route& route() { return *route_; }
  std::vector<Outcome> run(const std::function<Outcome(Rank)>& body) {
    std::vector<Outcome> outcomes(kRanks, Error{ErrorCode::System, "did not end", -1});
    std::vector<std::jthread> threads;
    for (Rank rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] { outcomes[static_cast<std::size_t>(rank)] = body(rank); });
    }
    threads.clear();
    return outcomes;
  }

 private:
  std::shared_ptr<Route> route_ = std::make_shared<Route>(kRanks);
  std::vector<std::unique_ptr<Parent>> ranks_;
};

TEST(RoutedSplit, GroupsRanksByColorInTheOrderOfTheirKeys) {
  Job job;
  const auto outcomes = job.run([&](Rank rank) { return job.at(rank).split().run(rank == 3 ? -1 : rank % 2, -rank); });
  EXPECT_THAT(members_of(outcomes[0]), ElementsAre(2, 0));
  EXPECT_THAT(members_of(outcomes[2]), ElementsAre(2, 0));
  EXPECT_THAT(members_of(outcomes[1]), ElementsAre(1));
  ASSERT_TRUE(outcomes[3]);
  EXPECT_EQ(*outcomes[3], nullptr);
  EXPECT_GT(job.route().passed_on(), 0u);
}

TEST(RoutedSplit, AnErrorOfOneRankIsAnErrorOfAll) {
  Job job;
  job.at(1).refuse_children();
  const auto outcomes = job.run([&](Rank rank) { return job.at(rank).split().run(rank, 0); });
  for (const Outcome& outcome : outcomes) {
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().failed_rank, 1);
    EXPECT_THAT(outcome.error().message, HasSubstr("split: rank 1: no memory"));
  }
}

// The error is the parent's in any case. A rank that did not look at the parent would wait to the end of arrival_ms.
TEST(RoutedSplit, EndsWhenTheParentFails) {
  Job job;
  const Deadline half = Deadline::after_ms(quick().arrival_ms / 2);
  const auto outcomes = job.run([&](Rank rank) -> Outcome {
    if (rank != 2) return job.at(rank).split().run(0, rank);
    // The others wait for this rank's choice by then.
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    for (Rank peer = 0; peer < kRanks; ++peer) job.at(peer).fail(ErrorCode::PeerLost, 2, "rank 2 is gone");
    return Error{ErrorCode::PeerLost, "rank 2 is gone", 2};
  });
  for (const Outcome& outcome : outcomes) {
    ASSERT_FALSE(outcome);
    EXPECT_THAT(outcome.error().message, HasSubstr("rank 2 is gone"));
  }
  EXPECT_FALSE(half.passed());
}

// Rank 2 does not come to the meeting, and says nothing more. Without the failure's interrupt, the others would wait
// there for bootstrap_ms.
TEST(RoutedSplit, LeavesAMeetingWhenTheParentFails) {
  Job job;
  std::atomic<int> ended = 0;
  const Error gone{ErrorCode::PeerLost, "rank 2 is gone", 2};
  job.at(2).instead_of_children([&]() -> Outcome {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    for (Rank peer = 0; peer < kRanks; ++peer) job.at(peer).fail(gone.code, gone.failed_rank, gone.message);
    while (ended < kRanks - 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return gone;
  });
  const Deadline half = Deadline::after_ms(kStartMs / 2);
  const auto outcomes = job.run([&](Rank rank) {
    Outcome outcome = job.at(rank).split().run(0, rank);
    ++ended;
    return outcome;
  });
  for (const Rank rank : {0, 1, 3}) {
    const Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
    ASSERT_FALSE(outcome);
    EXPECT_THAT(outcome.error().message, HasSubstr("rank 2 is gone"));
  }
  EXPECT_FALSE(half.passed());
}

TEST(RoutedShrink, WithoutAFailureGivesTheSameMembers) {
  Job job;
  const auto outcomes = job.run([&](Rank rank) { return job.at(rank).shrink().run(2'000, {}); });
  for (const Outcome& outcome : outcomes) EXPECT_THAT(members_of(outcome), ElementsAre(0, 1, 2, 3));
}

TEST(RoutedShrink, ARankThatLeftOrAbortedIsLeftOut) {
  Job job;
  const auto outcomes = job.run([&](Rank rank) -> Outcome {
    if (rank == 1) {
      job.at(1).shrink().stop();
      return Error{ErrorCode::Aborted, "", 1};
    }
    if (rank != 3) return job.at(rank).shrink().run(2'000, {});
    ControlMessage goodbye;
    goodbye.kind = MessageKind::Goodbye;
    job.at(3).members().broadcast(goodbye);
    return Error{ErrorCode::PeerLost, "", 3};
  });
  EXPECT_THAT(members_of(outcomes[0]), ElementsAre(0, 2));
  EXPECT_THAT(members_of(outcomes[2]), ElementsAre(0, 2));
}

// Makes rank `victim` die in place of its message number `letters` + 1, whatever that says. Returns whether the rank
// had so many. The others learn of its end, and wait for no clock.
bool survive_death(Rank victim, std::size_t letters) {
  Job job;
  job.route().kill_after(victim, letters);
  std::atomic<int> running = kRanks - 1;
  const Deadline soon = Deadline::after_ms(5'000);
  const auto outcomes = job.run([&](Rank rank) {
    if (rank == victim) {
      // A rank's thread ends with its process.
      std::jthread dying([&] {
        while (!job.route().is_dead(victim) && running > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        if (job.route().is_dead(victim)) job.at(victim).shrink().stop();
      });
      return job.at(rank).shrink().run(10'000, {});
    }
    Outcome outcome = job.at(rank).shrink().run(10'000, {});
    --running;
    return outcome;
  });
  EXPECT_FALSE(soon.passed()) << "rank " << victim << " after " << letters << " messages";
  std::vector<Rank> survivors;
  for (Rank rank = 0; rank < kRanks; ++rank) {
    if (rank != victim) survivors.push_back(rank);
  }
  const std::vector<Rank> first = members_of(outcomes[0]);
  // The victim may die once all have joined.
  const std::vector<Rank> everybody = {0, 1, 2, 3};
  EXPECT_TRUE(first == survivors || first == everybody) << "rank " << victim << " after " << letters << " messages";
  for (const Rank rank : survivors) {
    const Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
    EXPECT_TRUE(outcome) << "rank " << rank << ": " << outcome.error().message;
    EXPECT_EQ(members_of(outcome), first) << "rank " << victim << " after " << letters << " messages";
  }
  return job.route().is_dead(victim);
}

TEST(RoutedShrink, SurvivesADeathBeforeEachMessage) {
  for (const Rank victim : {1, 3}) {
    std::size_t letters = 0;
    while (survive_death(victim, letters) && !HasFailure()) ++letters;
    // The victim holds the view, joined it and decided it, and says each to three others.
    EXPECT_GE(letters, 9u);
  }
}

}  // namespace
}  // namespace wreath::children_tests
