// Control connections: what arrives is what was sent, or the connection is given up with the reason.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <condition_variable>

#include "src/base/socket.hpp"
#include "src/bootstrap/bootstrap.hpp"
#include "src/membership/pairwise_members.hpp"

namespace wreath::members_tests {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Handles every kind of message and says what came.
class Notes {
 public:
  void handle(ControlHandlers& handlers) {
    for (std::size_t kind = 0; kind < kMessageKinds; ++kind) {
      handlers.add(static_cast<MessageKind>(kind), [this](Rank, ControlMessage& message) { note(message.text); });
    }
    handlers.add_lost(
        [this](const Loss& loss) { note((loss.how == Loss::How::Broken ? "lost: " : "closed: ") + loss.reason); });
    handlers.add_unable([this](const Error& error) { note(error.message); });
  }
  // The texts that came, and why no more do, once there are `count` of them.
  std::vector<std::string> heard(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(10), [&] { return heard_.size() >= count; });
    return heard_;
  }

 private:
  void note(const std::string& text) {
    if (text.empty()) return;
    const std::lock_guard lock(mutex_);
    heard_.push_back(text);
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> heard_;
};

// One of two ranks.
class End {
 public:
  explicit End(Membership membership) : members_(membership.rank, membership.members, std::move(membership.control)) {
    notes_.handle(members_.handlers());
    EXPECT_TRUE(members_.start(*progress_));
  }

  void say(const std::string& text) {
    ControlMessage message;
    message.kind = MessageKind::Verdict;
    message.text = text;
    members_.send(1 - members_.rank(), std::move(message));
  }
  std::vector<std::string> heard(std::size_t count) { return notes_.heard(count); }
  Members& members() { return members_; }

 private:
  Notes notes_;
  std::shared_ptr<Progress> progress_ = Progress::instance().value();
  PairwiseMembers members_;
};

TEST(Members, MessagesArriveInTheirOrder) {
  auto members = join_local(2, "").value();
  End low(std::move(members[0]));
  End high(std::move(members[1]));
  low.say("one");
  low.say("two");
  high.say("three");
  EXPECT_THAT(high.heard(2), ElementsAre("one", "two"));
  EXPECT_THAT(low.heard(1), ElementsAre("three"));
}

// Any bit of the second of three messages: the first one arrives, and no other.
TEST(Members, AMessageThatIsAlteredEndsTheConnection) {
  for (std::size_t bit = 0;; bit += 37) {
    auto members = join_local(2, "").value();
    auto wire = socket_pair().value();
    const Fd out = std::exchange(members[0].control[1].fd, std::move(wire.first));
    End low(std::move(members[0]));
    End high(std::move(members[1]));
    std::vector<std::byte> bytes(4096);
    for (const std::string text : {"one", "two", "three"}) {
      low.say(text);
      bytes.resize(4096);
      ASSERT_TRUE(wait_for(wire.second.get(), POLLIN, Deadline::after_ms(2000)));
      bytes.resize(static_cast<std::size_t>(try_recv(wire.second.get(), bytes)));
      if (text == "two" && bit < 8 * bytes.size()) bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
      if (text == "two" && bit >= 8 * bytes.size()) return;  // all have been tried
      ASSERT_TRUE(send_all(out.get(), bytes, Deadline::after_ms(2000)));
    }
    EXPECT_THAT(high.heard(2), ElementsAre("one", HasSubstr("lost: a message was altered on its way")))
        << "bit " << bit;
  }
}

TEST(Members, ARankThatSaysGoodbyeHasLeft) {
  auto members = join_local(2, "").value();
  End low(std::move(members[0]));
  End high(std::move(members[1]));
  EXPECT_FALSE(high.members().has_left(0));
  ControlMessage goodbye;
  goodbye.kind = MessageKind::Goodbye;
  goodbye.text = "goodbye";
  low.members().send(1, std::move(goodbye));
  EXPECT_THAT(high.heard(1), ElementsAre("goodbye"));
  EXPECT_TRUE(high.members().has_left(0));
  EXPECT_FALSE(low.members().has_left(1));
}

// A kind of message that a new room forgets would be dropped in silence.
TEST(Members, DoNotStartWhileAKindOfMessageHasNoHandler) {
  auto members = join_local(1, "").value();
  PairwiseMembers alone(0, members[0].members, std::move(members[0].control));
  const auto progress = Progress::instance().value();
  ControlHandlers& handlers = alone.handlers();
  for (std::size_t kind = 0; kind < kMessageKinds; ++kind) {
    if (static_cast<MessageKind>(kind) == MessageKind::Split) continue;
    handlers.add(static_cast<MessageKind>(kind), [](Rank, ControlMessage&) {});
  }
  handlers.add_lost([](const Loss&) {});
  EXPECT_THAT(alone.start(*progress).error().message, HasSubstr(": Split inability"));
  handlers.add(MessageKind::Split, [](Rank, ControlMessage&) {});
  handlers.add_unable([](const Error&) {});
  EXPECT_TRUE(alone.start(*progress));
}

}  // namespace
}  // namespace wreath::members_tests
