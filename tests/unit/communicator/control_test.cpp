// Control connections: what arrives is what was sent, or the connection is given up with the reason.
#include "src/communicator/control.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <condition_variable>

#include "src/base/socket.hpp"
#include "src/bootstrap/bootstrap.hpp"

namespace wreath::control_tests {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// One rank's end of its control connection to the other: it notes what comes.
class End : public ControlHandler, public Progress::Client {
 public:
  explicit End(Connection connection, Rank rank) : peer_(1 - rank) {
    std::vector<Connection> connections(2);
    connections[static_cast<std::size_t>(peer_)] = std::move(connection);
    plane_ = std::make_unique<ControlPlane>(std::move(connections), *this);
    progress_->add(*this);
    plane_->start(*progress_, *this);
  }
  End(const End&) = delete;
  End& operator=(const End&) = delete;
  ~End() override { progress_->remove(*this); }

  void say(const std::string& text) {
    ControlMessage message;
    message.kind = MessageKind::Verdict;
    message.text = text;
    plane_->send(peer_, std::move(message));
  }
  // The texts that came, and why no more do, once there are `count` of them.
  std::vector<std::string> heard(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(10), [&] { return heard_.size() >= count; });
    return heard_;
  }

 private:
  void on_event(std::uint64_t token, std::uint32_t) override { plane_->on_readable(static_cast<Rank>(token)); }
  Driven drive() override { return Driven::Nothing; }
  void begin_wait(std::vector<int>&) override {}
  void end_wait() override {}
  void on_message(Rank, ControlMessage message) override { note(message.text); }
  void on_lost(Rank, const std::string& reason, bool closed) override {
    note((closed ? "closed: " : "lost: ") + reason);
  }
  void on_unable(const Error& error) override { note(error.message); }
  void note(const std::string& text) {
    const std::lock_guard lock(mutex_);
    heard_.push_back(text);
    changed_.notify_all();
  }

  Rank peer_;
  std::shared_ptr<Progress> progress_ = Progress::instance().value();
  std::unique_ptr<ControlPlane> plane_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> heard_;
};

TEST(Control, MessagesArriveInTheirOrder) {
  auto members = join_local(2, "").value();
  End low(std::move(members[0].control[1]), 0);
  End high(std::move(members[1].control[0]), 1);
  low.say("one");
  low.say("two");
  high.say("three");
  EXPECT_THAT(high.heard(2), ElementsAre("one", "two"));
  EXPECT_THAT(low.heard(1), ElementsAre("three"));
}

// Any bit of the second of three messages: the first one arrives, and no other.
TEST(Control, AMessageThatIsAlteredEndsTheConnection) {
  for (std::size_t bit = 0;; bit += 37) {
    auto members = join_local(2, "").value();
    auto wire = socket_pair().value();
    const Fd out = std::exchange(members[0].control[1].fd, std::move(wire.first));
    End low(std::move(members[0].control[1]), 0);
    End high(std::move(members[1].control[0]), 1);
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

}  // namespace
}  // namespace wreath::control_tests
