// Tests the words that the ends of a link say to each other: they arrive whatever the two ranks are at.
#include <gmock/gmock.h>

#include <chrono>
#include <string>
#include <thread>

#include "src/base/interrupt.hpp"
#include "src/bootstrap/bootstrap.hpp"
#include "src/membership/links.hpp"
#include "tests/support/surroundings.hpp"
#include "tests/unit/wires/double.hpp"
#include "wreath/wreath.hpp"

namespace wreath::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Words : public testing::Test {
 protected:
  Words() { reset_adapters(); }
  void link() {
    CommunicatorOptions options;
    options.debug.longest_sleep_ms = 60'000;
    communicators_ = Communicator::create_local(2, options).value();
  }

  static bool moves_until_free(int rank) {
    for (int i = 0; i < 10'000 && adapter_of(rank).blocked_rounds > 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return adapter_of(rank).blocked_rounds == 0;
  }

  RecordingsFolder recordings_;
  std::vector<Communicator> communicators_;
};

TEST_F(Words, SaidWhileRanksLinkArriveBeforeAnyCall) {
  for (const std::string text : {"one", "two", "three"}) adapter_of(0).say(text);
  link();
  EXPECT_TRUE(adapter_of(1).has_heard(3));
  EXPECT_THAT(adapter_of(1).heard(), ElementsAre("one", "two", "three"));
  EXPECT_THAT(adapter_of(0).heard(), ElementsAre());
}

// Rank 1 is in no call, and rank 0 sleeps in one when it answers.
TEST_F(Words, GoFromACallToAnIdleRankAndBack) {
  adapter_of(1).on_word([](const std::string& text) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    adapter_of(1).say("not " + text);
    return Status();
  });
  link();
  adapter_of(0).say("here");
  std::jthread in_call([&] {
    std::int32_t value = 0;
    EXPECT_TRUE(communicators_[0].recv(std::span(&value, 1), 1));
    EXPECT_EQ(value, 5);
  });
  EXPECT_TRUE(adapter_of(0).has_heard(1));
  EXPECT_THAT(adapter_of(1).heard(), ElementsAre("here"));
  EXPECT_THAT(adapter_of(0).heard(), ElementsAre("not here"));
  const std::int32_t five = 5;
  EXPECT_TRUE(communicators_[1].send(std::span(&five, 1), 0));
}

// A wire that connects anew has something to send until the peer has answered.
TEST_F(Words, KeepAnIdleWireMovingWhileItIsBlocked) {
  adapter_of(1).on_word([](const std::string&) {
    adapter_of(1).blocked_rounds = 20;
    return Status();
  });
  adapter_of(0).say("connect anew");
  link();
  EXPECT_TRUE(adapter_of(1).has_heard(1));
  EXPECT_TRUE(moves_until_free(1));
}

// An adapter may lose a message when its call is over, and nobody says a word.
TEST_F(Words, AreNotNeededToMoveAnIdleWireThatIsBlocked) {
  link();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // nothing moves any more
  adapter_of(1).blocked_rounds = 20;
  EXPECT_TRUE(moves_until_free(1));
}

TEST_F(Words, ThatAreWrongFailTheCommunicatorByTheirSender) {
  adapter_of(1).on_word([](const std::string& text) {
    return Status(Error{ErrorCode::Mismatch, "an address of " + std::to_string(text.size()) + " bytes"});
  });
  adapter_of(0).say("wrong");
  link();
  for (Communicator& communicator : communicators_) {
    for (int i = 0; i < 10'000 && communicator.error(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const Status failed = communicator.error();
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code, ErrorCode::Mismatch);
    EXPECT_EQ(failed.error().failed_rank, 0);
    EXPECT_THAT(failed.error().message, HasSubstr("a word of rank 0"));
    EXPECT_THAT(failed.error().message, HasSubstr("an address of 5 bytes"));
  }
}

TEST_F(Words, ThatAreTooLargeAreTheirSendersError) {
  adapter_of(0).say(std::string(kMaximumWordBytes + 1, 'w'));
  link();
  for (int i = 0; i < 10'000 && communicators_[0].error(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ASSERT_FALSE(communicators_[0].error());
  EXPECT_EQ(communicators_[0].error().error().code, ErrorCode::System);
  EXPECT_EQ(communicators_[0].error().error().failed_rank, 0);
  EXPECT_THAT(communicators_[0].error().error().message, HasSubstr("a word of 8193 bytes"));
}

TEST(WordsFromStrangers, AreBoundedAndWaitForTheLink) {
  const auto memberships = join_local(2, "").value();
  const FifoShape shape{1, 2, 4096, 0, 1};
  const auto links = Links::create(memberships[0], shape, CommunicatorOptions(), false).value();
  const auto word = [](std::size_t bytes) {
    Offer offer;
    offer.bytes.resize(bytes);
    return offer;
  };
  EXPECT_FALSE(links->has_words());
  const Status large = links->on_word(1, word(kMaximumWordBytes + 1));
  EXPECT_EQ(large.error().code, ErrorCode::Mismatch);
  EXPECT_EQ(large.error().failed_rank, 1);
  EXPECT_FALSE(links->has_words());
  for (std::size_t i = 0; i < kMaximumWaitingWords; ++i) EXPECT_TRUE(links->on_word(1, word(i)));
  const Status many = links->on_word(1, word(1));
  EXPECT_EQ(many.error().code, ErrorCode::Mismatch);
  EXPECT_THAT(many.error().message, HasSubstr("rank 1 says more than 64 words"));
  EXPECT_TRUE(links->has_words());
  const std::vector<Links::Word> taken = links->take_words();
  ASSERT_EQ(taken.size(), kMaximumWaitingWords);
  for (std::size_t i = 0; i < taken.size(); ++i) EXPECT_EQ(taken[i].offer.bytes.size(), i);
  EXPECT_FALSE(links->has_words());
  EXPECT_TRUE(links->on_word(1, word(1)));
}

}  // namespace
}  // namespace wreath::test
