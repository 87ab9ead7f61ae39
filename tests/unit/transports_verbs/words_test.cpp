// Tests the words for what adapters say, the addresses that ends exchange, and the settings.
#include "transports/verbs/words.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/support/surroundings.hpp"
#include "transports/verbs/address.hpp"
#include "transports/verbs/library.hpp"
#include "transports/verbs/settings.hpp"

namespace wreath {
namespace {

using test::Environment;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(VerbsWords, EveryStatusHasItsOwn) {
  std::set<std::string> texts;
  for (int status = IBV_WC_LOC_LEN_ERR; status <= IBV_WC_TM_RNDV_INCOMPLETE; ++status) {
    const StatusWords words = status_words(static_cast<ibv_wc_status>(status), false);
    EXPECT_THAT(words.text, Not(HasSubstr("status"))) << status;
    texts.insert(words.text);
  }
  EXPECT_GE(texts.size(), 22u);  // requests fail in two ways on the adapter
  EXPECT_THAT(status_words(static_cast<ibv_wc_status>(30), true).text, HasSubstr("status 30"));
}

TEST(VerbsWords, SayWhichFailuresANewConnectionMends) {
  const auto retryable = [](ibv_wc_status status, bool disturbed) { return status_words(status, disturbed).retryable; };
  EXPECT_TRUE(retryable(IBV_WC_RETRY_EXC_ERR, false));
  EXPECT_FALSE(retryable(IBV_WC_LOC_QP_OP_ERR, false));
  EXPECT_TRUE(retryable(IBV_WC_LOC_QP_OP_ERR, true));
  EXPECT_FALSE(retryable(IBV_WC_WR_FLUSH_ERR, false));
  EXPECT_TRUE(retryable(IBV_WC_WR_FLUSH_ERR, true));
  for (const ibv_wc_status status : {IBV_WC_REM_ACCESS_ERR, IBV_WC_LOC_PROT_ERR, IBV_WC_RNR_RETRY_EXC_ERR,
                                     IBV_WC_REM_OP_ERR, IBV_WC_FATAL_ERR, IBV_WC_GENERAL_ERR}) {
    EXPECT_FALSE(retryable(status, true)) << status;
  }
  EXPECT_EQ(status_words(IBV_WC_RETRY_EXC_ERR, false).code, ErrorCode::PeerLost);
  EXPECT_EQ(status_words(IBV_WC_LOC_PROT_ERR, false).code, ErrorCode::System);
}

TEST(VerbsWords, EveryEventHasItsOwnAndConcernsSomething) {
  std::set<std::string> texts;
  for (int type = IBV_EVENT_CQ_ERR; type <= IBV_EVENT_WQ_FATAL; ++type) {
    const EventWords words = event_words(static_cast<ibv_event_type>(type));
    EXPECT_THAT(words.text, Not(HasSubstr("event"))) << type;
    texts.insert(words.text);
  }
  EXPECT_EQ(texts.size(), static_cast<std::size_t>(IBV_EVENT_WQ_FATAL) + 1);
  for (const ibv_event_type type : {IBV_EVENT_PORT_ERR, IBV_EVENT_LID_CHANGE, IBV_EVENT_GID_CHANGE}) {
    EXPECT_TRUE(event_words(type).disturbs) << type;
    EXPECT_EQ(event_words(type).scope, EventScope::Port) << type;
  }
  EXPECT_FALSE(event_words(IBV_EVENT_PORT_ACTIVE).disturbs);
  EXPECT_TRUE(event_words(IBV_EVENT_DEVICE_FATAL).disturbs);
  EXPECT_EQ(event_words(IBV_EVENT_COMM_EST).scope, EventScope::None);
  EXPECT_EQ(event_words(static_cast<ibv_event_type>(30)).text, "the adapter reports event 30");
}

VerbsAddress roce_address() {
  VerbsAddress address;
  address.active = true;
  address.mtu = 5;
  address.gid_type = GidType::RoceV2;
  address.gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 77, 0, 1};
  address.queue_pair = 0x123456;
  address.packet = 0xabcdef;
  return address;
}

VerbsAddress infiniband_address(std::uint16_t lid, std::uint8_t subnet) {
  VerbsAddress address = roce_address();
  address.infiniband = true;
  address.gid_type = GidType::InfiniBand;
  address.lid = lid;
  address.gid = {0xfe, 0x80, 0, 0, 0, 0, 0, subnet, 1};
  return address;
}

TEST(VerbsAddresses, AreDecodedAsTheyWereEncoded) {
  for (const VerbsAddress& address : {roce_address(), infiniband_address(7, 0)}) {
    const auto decoded = decode_address<VerbsAddress>(encode_address(address));
    ASSERT_TRUE(decoded) << decoded.error().message;
    EXPECT_EQ(encode_address(*decoded), encode_address(address));
    EXPECT_EQ(decoded->queue_pair, address.queue_pair);
    EXPECT_EQ(decoded->packet, address.packet);
    EXPECT_EQ(decoded->gid, address.gid);
    EXPECT_EQ(decoded->lid, address.lid);
  }
}

TEST(VerbsAddresses, OfStrangersAreRefusedInWords) {
  const std::vector<std::byte> good = encode_address(roce_address());
  for (std::size_t bytes = 0; bytes < good.size(); ++bytes) {
    const auto decoded = decode_address<VerbsAddress>(std::span(good).first(bytes));
    ASSERT_FALSE(decoded) << bytes;
    EXPECT_EQ(decoded.error().code, ErrorCode::Mismatch);
  }
  std::vector<std::byte> longer = good;
  longer.push_back(std::byte{0});
  EXPECT_THAT(decode_address<VerbsAddress>(longer).error().message, HasSubstr("malformed"));
  std::vector<std::byte> newer = good;
  newer[0] = std::byte{2};
  EXPECT_THAT(decode_address<VerbsAddress>(newer).error().message, HasSubstr("its version is 2, must be 1"));
  const auto complaint = [](auto change) {
    VerbsAddress address = roce_address();
    change(address);
    const auto decoded = decode_address<VerbsAddress>(encode_address(address));
    return decoded ? std::string() : decoded.error().message;
  };
  EXPECT_EQ(complaint([](VerbsAddress&) {}), "");
  EXPECT_THAT(complaint([](VerbsAddress& a) { a.mtu = 0; }), HasSubstr("its MTU is 0"));
  EXPECT_THAT(complaint([](VerbsAddress& a) { a.mtu = 6; }), HasSubstr("its MTU is 6"));
  EXPECT_THAT(complaint([](VerbsAddress& a) { a.gid = {}; }), HasSubstr("its GID"));
  EXPECT_THAT(complaint([](VerbsAddress& a) { a.infiniband = true; }), HasSubstr("its LID is 0"));
  EXPECT_THAT(complaint([](VerbsAddress& a) { a.queue_pair = 0; }), HasSubstr("its queue pair is 0"));
  EXPECT_THAT(complaint([](VerbsAddress& a) { a.queue_pair = 1U << 24; }), HasSubstr("24 bits"));
  EXPECT_THAT(complaint([](VerbsAddress& a) { a.packet = 1U << 24; }), HasSubstr("packet number"));
  EXPECT_THAT(complaint([](VerbsAddress& a) { a.gid_type = static_cast<GidType>(9); }),
              HasSubstr("type of its GID is 9"));
}

TEST(VerbsAddresses, ThatDoNotFitTogetherAreNamed) {
  const VerbsAddress own = roce_address();
  const auto complaint = [&](auto change) {
    VerbsAddress theirs = roce_address();
    change(theirs);
    const Status fits = check_pair(own, theirs);
    return fits ? std::string() : fits.error().message;
  };
  EXPECT_EQ(complaint([](VerbsAddress&) {}), "");
  EXPECT_EQ(complaint([](VerbsAddress& a) { a.gid_type = GidType::Unknown; }), "");
  EXPECT_THAT(complaint([](VerbsAddress& a) { a.infiniband = true; }),
              AllOf(HasSubstr("Ethernet here and InfiniBand at the peer"), HasSubstr("WREATH_HCA")));
  EXPECT_THAT(complaint([](VerbsAddress& a) { a.gid_type = GidType::RoceV1; }),
              AllOf(HasSubstr("RoCE v2 here and RoCE v1"), HasSubstr("WREATH_IB_GID_INDEX")));
  EXPECT_THAT(complaint([](VerbsAddress& a) { a.gid = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}; }),
              AllOf(HasSubstr("10.77.0.1 here and fe80::1"), HasSubstr("one family")));
  VerbsAddress down = roce_address();
  down.active = false;
  EXPECT_EQ(check_pair(own, down).error().code, ErrorCode::Unavailable);
}

TEST(VerbsAddresses, TellWhetherPacketsCrossSubnets) {
  EXPECT_FALSE(crosses_subnets(infiniband_address(1, 0), infiniband_address(2, 0)));
  EXPECT_TRUE(crosses_subnets(infiniband_address(1, 0), infiniband_address(2, 1)));
}

TEST(VerbsSettings, AreReadFromTheEnvironment) {
  const Environment environment{{{"WREATH_HCA", "=mlx5_0:1"},
                                 {"WREATH_IB_GID_INDEX", "3"},
                                 {"WREATH_IB_TIMEOUT", "20"},
                                 {"WREATH_IB_RETRY_COUNT", "2"},
                                 {"WREATH_IB_SERVICE_LEVEL", "4"},
                                 {"WREATH_IB_TRAFFIC_CLASS", "106"},
                                 {"WREATH_IB_PKEY_INDEX", "1"},
                                 {"WREATH_IB_QUEUE_PAIRS", "4"},
                                 {"WREATH_IB_RELAXED_ORDERING", "0"}}};
  const VerbsSettings settings = VerbsSettings::read().value();
  EXPECT_EQ(settings.adapters, "=mlx5_0:1");
  EXPECT_EQ(settings.gid_index, 3);
  EXPECT_EQ(settings.timeout, 20);
  EXPECT_EQ(settings.retry_count, 2);
  EXPECT_EQ(settings.service_level, 4);
  EXPECT_EQ(settings.traffic_class, 106);
  EXPECT_EQ(settings.pkey_index, 1);
  EXPECT_EQ(settings.queue_pairs, 4u);
  EXPECT_FALSE(settings.relaxed_ordering);
}

TEST(VerbsSettings, HaveTheDefaultsOfTheTable) {
  const VerbsSettings read = VerbsSettings::read().value();
  const VerbsSettings made;
  EXPECT_EQ(read.gid_index, made.gid_index);
  EXPECT_EQ(read.timeout, made.timeout);
  EXPECT_EQ(read.retry_count, made.retry_count);
  EXPECT_EQ(read.queue_pairs, made.queue_pairs);
  EXPECT_EQ(read.relaxed_ordering, made.relaxed_ordering);
}

// Adapters take 7 for retries without end: a peer's death would never be seen.
TEST(VerbsSettings, SevenRetriesAreRefusedByName) {
  const Environment environment{{{"WREATH_IB_RETRY_COUNT", "7"}}};
  const auto settings = VerbsSettings::read();
  ASSERT_FALSE(settings);
  EXPECT_EQ(settings.error().code, ErrorCode::InvalidArgument);
  EXPECT_THAT(settings.error().message,
              AllOf(HasSubstr("WREATH_IB_RETRY_COUNT=7 must be a whole number from 0 to 6"), HasSubstr("without end")));
}

TEST(VerbsSettings, ATimeoutOfNoEndIsRefused) {
  const Environment environment{{{"WREATH_IB_TIMEOUT", "0"}}};
  EXPECT_THAT(VerbsSettings::read().error().message, HasSubstr("WREATH_IB_TIMEOUT=0"));
}

TEST(VerbsLibrary, ThatIsNotThereIsNamedWithItsPackage) {
  const auto none = VerbsLibrary::load("libibverbs-absent.so.1");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::Unavailable);
  EXPECT_THAT(none.error().message, AllOf(HasSubstr("no libibverbs-absent.so.1"), HasSubstr("install libibverbs1")));
}

TEST(VerbsLibrary, ThatLacksAFunctionIsNamed) {
  const auto other = VerbsLibrary::load("libm.so.6");
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, HasSubstr("libm.so.6 has no ibv_fork_init; install rdma-core"));
}

}  // namespace
}  // namespace wreath
