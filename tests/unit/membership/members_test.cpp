// Tests what rooms rely on when they name a rank, whatever way messages take to it.
#include "src/membership/members.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <memory>
#include <ostream>

#include "src/bootstrap/bootstrap.hpp"
#include "src/membership/pairwise_members.hpp"
#include "tests/support/routed_members.hpp"
#include "tests/unit/membership/notes.hpp"

namespace wreath::members_tests {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr int kRanks = 3;

struct Way {
  const char* name;
  std::vector<std::unique_ptr<Members>> (*make)();
  friend void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }
};

std::vector<std::unique_ptr<Members>> make_pairwise() {
  std::vector<std::unique_ptr<Members>> all;
  auto memberships = join_local(kRanks, "").value();
  for (Membership& one : memberships) {
    all.push_back(std::make_unique<PairwiseMembers>(one.rank, one.members, std::move(one.control)));
  }
  return all;
}

std::vector<std::unique_ptr<Members>> make_routed() {
  const auto route = std::make_shared<testing_support::Route>(kRanks);
  std::vector<std::unique_ptr<Members>> all;
  const auto memberships = join_local(kRanks, "").value();
  for (const Membership& one : memberships) {
    all.push_back(std::make_unique<testing_support::RoutedMembers>(one.rank, one.members, route));
  }
  return all;
}

class MembersByEveryWay : public ::testing::TestWithParam<Way> {
 protected:
  void start() {
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      notes_[rank].handle(members_[rank]->handlers());
      ASSERT_TRUE(members_[rank]->start(*progress_));
    }
  }
  void say(Rank from, Rank to, MessageKind kind, const std::string& text, int descriptor = -1) {
    ControlMessage message;
    message.kind = kind;
    message.text = text;
    if (descriptor >= 0) message.offer.descriptors.push_back(descriptor);
    at(from).send(to, std::move(message));
  }
  Members& at(Rank rank) { return *members_[static_cast<std::size_t>(rank)]; }
  std::vector<std::string> heard(Rank by, std::size_t count) {
    return notes_[static_cast<std::size_t>(by)].heard(count);
  }

  std::array<Notes, kRanks> notes_;
  std::shared_ptr<Progress> progress_ = Progress::instance().value();
  std::vector<std::unique_ptr<Members>> members_ = GetParam().make();
};

TEST_P(MembersByEveryWay, MessagesOfOneRankToAnotherArriveInTheirOrder) {
  start();
  std::vector<std::string> said;
  for (int i = 0; i < 100; ++i) {
    said.push_back(std::to_string(i));
    say(1, 2, MessageKind::Verdict, said.back());
  }
  say(2, 1, MessageKind::Verdict, "back");
  EXPECT_EQ(heard(2, 100), said);
  EXPECT_THAT(heard(1, 1), ElementsAre("back"));
  EXPECT_TRUE(at(1).reaches(2));
}

TEST_P(MembersByEveryWay, ABroadcastReachesEveryOtherRank) {
  start();
  ControlMessage message;
  message.kind = MessageKind::Failed;
  message.text = "all";
  at(1).broadcast(message);
  say(0, 1, MessageKind::Verdict, "last");
  EXPECT_THAT(heard(0, 1), ElementsAre("all"));
  EXPECT_THAT(heard(2, 1), ElementsAre("all"));
  // The rank does not hear its own broadcast.
  EXPECT_THAT(heard(1, 1), ElementsAre("last"));
}

TEST_P(MembersByEveryWay, ADescriptorGoesAlongToARankOfTheHost) {
  start();
  const Fd event(::eventfd(0, EFD_CLOEXEC));
  say(1, 2, MessageKind::Offer, "take this", ::dup(event.get()));
  EXPECT_THAT(heard(2, 1), ElementsAre("take this"));
  const std::vector<Fd> taken = notes_[2].descriptors();
  ASSERT_THAT(taken, SizeIs(1));
  const std::uint64_t seven = 7;
  ASSERT_EQ(::write(taken[0].get(), &seven, sizeof seven), static_cast<ssize_t>(sizeof seven));
  std::uint64_t read = 0;
  ASSERT_EQ(::read(event.get(), &read, sizeof read), static_cast<ssize_t>(sizeof read));
  EXPECT_EQ(read, 7u);
}

TEST_P(MembersByEveryWay, ARankThatSaysGoodbyeHasLeft) {
  start();
  EXPECT_FALSE(at(2).has_left(1));
  say(1, 2, MessageKind::Goodbye, "goodbye");
  EXPECT_THAT(heard(2, 1), ElementsAre("goodbye"));
  EXPECT_TRUE(at(2).has_left(1));
  EXPECT_FALSE(at(2).has_left(0));
  EXPECT_FALSE(at(1).has_left(2));
}

TEST_P(MembersByEveryWay, WhatWasDeliveredIsUnderWayNoMore) {
  start();
  say(2, 1, MessageKind::Verdict, "here");
  EXPECT_THAT(heard(1, 1), ElementsAre("here"));
  const Deadline soon = Deadline::after_ms(5'000);
  while (at(2).under_way() && !soon.passed()) ::usleep(1'000);
  EXPECT_FALSE(at(2).under_way());
}

TEST_P(MembersByEveryWay, RanksOfOneHostNeedNoAddress) {
  start();
  EXPECT_TRUE(at(1).of_one_host(0, 2));
  EXPECT_EQ(at(1).address_to(2), "");
}

// A new room may forget a kind of message, which would then be dropped in silence.
TEST_P(MembersByEveryWay, DoNotStartWhileAKindOfMessageHasNoHandler) {
  ControlHandlers& handlers = at(0).handlers();
  for (std::size_t kind = 0; kind < kMessageKinds; ++kind) {
    if (static_cast<MessageKind>(kind) == MessageKind::Split) continue;
    handlers.add(static_cast<MessageKind>(kind), [](Rank, ControlMessage&) {});
  }
  handlers.add_lost([](const Loss&) {});
  EXPECT_THAT(at(0).start(*progress_).error().message, HasSubstr(": Split inability"));
  handlers.add(MessageKind::Split, [](Rank, ControlMessage&) {});
  handlers.add_unable([](const Error&) {});
  EXPECT_TRUE(at(0).start(*progress_));
}

INSTANTIATE_TEST_SUITE_P(All, MembersByEveryWay,
                         ::testing::Values(Way{"pairwise", make_pairwise}, Way{"routed", make_routed}),
                         [](const auto& way) { return std::string(way.param.name); });

TEST(RoutedMembers, AnEndIsHeardAfterAllThatTheRankSaid) {
  const auto route = std::make_shared<testing_support::Route>(kRanks);
  std::array<Notes, kRanks> notes;
  const auto progress = Progress::instance().value();
  std::vector<std::unique_ptr<Members>> all;
  const auto memberships = join_local(kRanks, "").value();
  for (const Membership& one : memberships) {
    all.push_back(std::make_unique<testing_support::RoutedMembers>(one.rank, one.members, route));
    notes[static_cast<std::size_t>(one.rank)].handle(all.back()->handlers());
    ASSERT_TRUE(all.back()->start(*progress));
  }
  ControlMessage message;
  message.kind = MessageKind::Verdict;
  message.text = "still here";
  all[1]->broadcast(message);
  route->kill(1);
  // A dead rank says nothing.
  all[1]->broadcast(message);
  EXPECT_THAT(notes[2].heard(2), ElementsAre("still here", "closed: its process has ended"));
  EXPECT_THAT(notes[0].heard(2), ElementsAre("still here", "closed: its process has ended"));
  EXPECT_FALSE(all[2]->reaches(1));
  EXPECT_TRUE(all[2]->reaches(0));
  EXPECT_GE(route->passed_on(), 2u);
}

}  // namespace
}  // namespace wreath::members_tests
