// Tests the messages by which ranks link, as bytes.
#include "src/membership/link_messages.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace wreath {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(LinkMessages, CandidatesAreReadAsTheyWereWritten) {
  EXPECT_THAT(decode_candidates(encode_candidates({"shm", "tcp"})).value(), ElementsAre("shm", "tcp"));
  EXPECT_THAT(decode_candidates(encode_candidates({})).value(), IsEmpty());
}

TEST(LinkMessages, FactsAreReadAsTheyWereWritten) {
  for (const std::string wire : {"", "tcp"}) {
    for (const bool crowded : {false, true}) {
      for (const bool gpus : {false, true}) {
        const LinkFacts read = decode_link_facts(encode_link_facts({wire, crowded, gpus, 1U << 21})).value();
        EXPECT_EQ(read.wire, wire);
        EXPECT_EQ(read.crowded, crowded);
        EXPECT_EQ(read.gpus, gpus);
        EXPECT_EQ(read.ring_bytes, 1U << 21);
      }
    }
  }
}

TEST(LinkMessages, AllHaveTheWireThatIsTheOnlyOneAreCrowdedIfOneIsAndUseGpusIfEachDoes) {
  LinkFacts all{"", false, true};
  all.add({"", false, true});
  EXPECT_EQ(all.wire, "");
  EXPECT_FALSE(all.crowded);
  EXPECT_TRUE(all.gpus);
  all.add({"tcp", true, false});
  all.add({"", false, true});
  all.add({"tcp", false, true});
  EXPECT_EQ(all.wire, "tcp");
  EXPECT_TRUE(all.crowded);
  EXPECT_FALSE(all.gpus);
  for (const std::string next : {"verbs", "tcp", ""}) {
    all.add({next, false, true});
    EXPECT_EQ(all.wire, kSeveralWires) << next;
  }
}

TEST(LinkMessages, AllHaveTheSmallestRing) {
  LinkFacts all{"", false, true, 1U << 21};
  all.add({"", false, true, 1U << 18});
  all.add({"", false, true, 1U << 20});
  EXPECT_EQ(all.ring_bytes, 1U << 18);
}

TEST(LinkMessages, AllFillPingPongSlotsIfEachDoes) {
  LinkFacts all{"", false, true, 0, true};
  all.add(decode_link_facts(encode_link_facts({"", false, true, 0, true})).value());
  EXPECT_TRUE(all.ping_pong);
  all.add({"", false, true, 0, false});
  EXPECT_FALSE(all.ping_pong);
}

TEST(LinkMessages, AllHaveTheSmallestCachesAndCopyIfEachMay) {
  LinkFacts all{"", false, true, 0, true, true, {2048, 9000}};
  all.add(decode_link_facts(encode_link_facts({"", false, true, 0, true, true, {1024, 10000}})).value());
  EXPECT_EQ(all.caches.near_bytes, 1024U);
  EXPECT_EQ(all.caches.last_bytes, 9000U);
  EXPECT_TRUE(all.single_copy);
  all.add({"", false, true, 0, true, false, {2048, 9000}});
  EXPECT_FALSE(all.single_copy);
}

// The decoders refuse whatever a peer sends in place of either message.
TEST(LinkMessages, BytesThatAreNoMessageAreRefused) {
  const std::string candidates = encode_candidates({"shm", "tcp"});
  const std::string facts = encode_link_facts({"tcp", true, true});
  for (std::size_t bytes = 0; bytes < candidates.size(); ++bytes) {
    EXPECT_FALSE(decode_candidates(candidates.substr(0, bytes))) << bytes;
  }
  for (std::size_t bytes = 0; bytes < facts.size(); ++bytes) EXPECT_FALSE(decode_link_facts(facts.substr(0, bytes)));
  EXPECT_FALSE(decode_candidates(candidates + "x"));
  EXPECT_FALSE(decode_link_facts(facts + "x"));
  EXPECT_FALSE(decode_candidates(std::string("\xFF")));
  std::string no_flag = encode_link_facts({"", true, true});
  no_flag[no_flag.find('\1')] = '\2';
  EXPECT_FALSE(decode_link_facts(no_flag));
}

}  // namespace
}  // namespace wreath
