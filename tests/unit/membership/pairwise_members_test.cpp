// Tests a connection for each pair: what arrives is what was sent, or the connection is given up with the reason.
#include "src/membership/pairwise_members.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include "src/base/socket.hpp"
#include "src/bootstrap/bootstrap.hpp"
#include "tests/unit/membership/notes.hpp"

namespace wreath::members_tests {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Makes one of two ranks.
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

 private:
  Notes notes_;
  std::shared_ptr<Progress> progress_ = Progress::instance().value();
  PairwiseMembers members_;
};

// The test alters any bit of the second of three messages: the first one arrives, and no other.
TEST(PairwiseMembers, AMessageThatIsAlteredEndsTheConnection) {
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
      // The end of the message is reached.
      if (text == "two" && bit >= 8 * bytes.size()) return;
      ASSERT_TRUE(send_all(out.get(), bytes, Deadline::after_ms(2000)));
    }
    EXPECT_THAT(high.heard(2), ElementsAre("one", HasSubstr("lost: a message was altered on its way")))
        << "bit " << bit;
  }
}

}  // namespace
}  // namespace wreath::members_tests
