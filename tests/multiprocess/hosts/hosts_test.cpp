// Tests several hosts, made of network namespaces: how their ranks meet, over which card, and the errors when they
// cannot meet.
#include <gmock/gmock.h>

#include "tests/multiprocess/hosts/job.hpp"
#include "tests/support/network.hpp"

namespace wreath::testing_support::hosts {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

WREATH_ROLE(on_host) {
  if (!Network::enter(child.text("host"), child.text("names_" + child.text("host")))) return 98;
  auto communicator = Communicator::create_from_environment(child.options());
  if (!communicator) return child.failed(communicator.error());
  const int ranks = communicator->ranks();
  child.report("transport " + communicator->transport_to((communicator->rank() + ranks / 2) % ranks));
  const std::int64_t calls = child.number("calls");
  for (std::int64_t i = 0; i < calls; ++i) {
    std::vector<float> buffer(i % 2 == 0 ? 10 : 200'000, static_cast<float>(communicator->rank() + 1));
    if (const Status status = communicator->all_reduce(std::span<float>(buffer)); !status)
      return child.failed(status.error());
    if (buffer.back() != static_cast<float>(ranks * (ranks + 1) / 2)) return 1;
    if (i == 10) child.report("running");
  }
  child.report("at the end " + communicator->transport_to((communicator->rank() + ranks / 2) % ranks));
  return 0;
}

// Makes calls until all ranks have lost a card and have all cards again.
WREATH_ROLE(until_whole) {
  if (!Network::enter(child.text("host"), child.text("names_" + child.text("host")))) return 98;
  auto communicator = Communicator::create_from_environment(child.options());
  if (!communicator) return child.failed(communicator.error());
  const int ranks = communicator->ranks();
  const auto way = [&] { return communicator->transport_to((communicator->rank() + ranks / 2) % ranks); };
  child.report("transport " + way());
  bool lost = false;
  bool runs = false;
  for (float whole = 0; whole == 0;) {
    const bool now_lost = way().find("lost: ") != std::string::npos;
    if (now_lost && !lost) child.report("lost");
    lost = lost || now_lost;
    std::vector<float> buffer(200'000, static_cast<float>(communicator->rank() + 1));
    if (const Status status = communicator->all_reduce(std::span<float>(buffer)); !status)
      return child.failed(status.error());
    if (buffer.back() != static_cast<float>(ranks * (ranks + 1) / 2)) return 1;
    whole = lost && !now_lost ? 1 : 0;
    if (const Status status = communicator->all_reduce(std::span<float>(&whole, 1), ReduceOp::Min); !status)
      return child.failed(status.error());
    if (!std::exchange(runs, true)) child.report("running");
  }
  child.report("at the end " + way());
  return 0;
}

// Makes large calls for some seconds, and says how much one carried in the last third of the time. The line "over"
// names the ways to the ranks of the other host.
WREATH_ROLE(for_seconds) {
  if (!Network::enter(child.text("host"))) return 98;
  auto communicator = Communicator::create_from_environment(child.options());
  if (!communicator) return child.failed(communicator.error());
  const int ranks = communicator->ranks();
  const std::int64_t all_ns = child.number("seconds") * 1000 * kNsPerMs;
  const std::int64_t start_ns = now_ns();
  std::int64_t measured_since_ns = 0;
  double bytes = 0;
  std::vector<float> buffer(1 << 19);
  for (float goes_on = 1; goes_on == 1;) {
    for (std::size_t i = 0; i < buffer.size(); ++i) buffer[i] = static_cast<float>(i % 1000);
    if (const Status status = communicator->all_reduce(std::span<float>(buffer)); !status)
      return child.failed(status.error());
    for (std::size_t i = 0; i < buffer.size(); ++i) {
      if (buffer[i] != static_cast<float>(ranks) * static_cast<float>(i % 1000)) return 1;
    }
    if (measured_since_ns > 0) bytes += static_cast<double>(buffer.size() * sizeof(float));
    if (measured_since_ns == 0 && now_ns() - start_ns > all_ns * 2 / 3) measured_since_ns = now_ns();
    goes_on = now_ns() - start_ns < all_ns ? 1 : 0;
    if (const Status status = communicator->all_reduce(std::span<float>(&goes_on, 1), ReduceOp::Min); !status)
      return child.failed(status.error());
  }
  const double seconds = static_cast<double>(now_ns() - measured_since_ns) / 1e9;
  child.report("transport " + communicator->transport_to((communicator->rank() + ranks / 2) % ranks));
  std::string ways;
  for (int peer = 0; peer < ranks; ++peer) {
    if (peer / 2 != communicator->rank() / 2) ways += communicator->transport_to(peer) + "; ";
  }
  child.report("over " + ways);
  child.report("carried " + std::to_string(static_cast<int>(bytes / 1e6 / seconds)));
  return 0;
}

TEST(Hosts, MeetWithAKey) {
  for (const int hosts : {2, 3}) {
    const Network network(hosts);
    if (!network.made()) GTEST_SKIP() << Network::kNeeds;
    Job(network, hosts, with_key({{"WREATH_CHECK", hosts == 2 ? "0" : "1"}}), {{"calls", "200"}}).expect_to_end_well();
  }
}

TEST(Hosts, MeetOverIpv6Alone) {
  const Network network(2, Family::V6);
  if (!network.made()) GTEST_SKIP() << Network::kNeeds;
  Job(network, 2, kKey, {{"calls", "50"}}).expect_to_end_well();
}

// Debian writes a host's own name beside 127.0.1.1 into its /etc/hosts. Others know rank 0 by another address.
TEST(Hosts, MeetWhereANameMeansLoopbackOnItsOwnHost) {
  const Network network(2);
  if (!network.made()) GTEST_SKIP() << Network::kNeeds;
  const std::vector<std::string> names{"127.0.0.1 localhost\n127.0.1.1 node0\n" + network.address(1) + " node1\n",
                                       "127.0.0.1 localhost\n127.0.1.1 node1\n" + network.address(0) + " node0\n"};
  for (const Arguments& more : {Arguments{}, Arguments{{"WREATH_SOCKET_IFNAME", "=eth0"}}})
    Job(network, 2, with_key({{"MASTER_ADDR", "node0"}}, more), {{"calls", "20"}}, names).expect_to_end_well();
}

// An address that is valid on one network only is sent to others without this host's name of the network.
TEST(Hosts, MeetAtLinkLocalAddresses) {
  const Network network(2);
  if (!network.made()) GTEST_SKIP() << Network::kNeeds;
  const std::string address = network.add_link_local(0, 1);
  if (address.empty() || network.add_link_local(1, 1).empty()) GTEST_SKIP() << "run it on a kernel with IPv6";
  Job(network, 2, with_key({{"MASTER_ADDR", address + "%eth1"}}), {{"calls", "20"}}).expect_to_end_well();
  Job(network, 2, with_key({{"MASTER_ADDR", "[" + address + "]"}, {"WREATH_SOCKET_IFNAME", "eth1"}}), {{"calls", "20"}})
      .expect_to_end_well();
}

TEST(Hosts, DoNotMeetWithoutAKey) {
  const Network network(2);
  if (!network.made()) GTEST_SKIP() << Network::kNeeds;
  EXPECT_THAT(Job(network, 2, {}, {{"calls", "10"}, {"bootstrap_ms", "3000"}}).expect_no_start(),
              HasSubstr("WREATH_KEY"));
}

// Each side names a rank of the other side within 10 s.
TEST(Hosts, NoticeWhenOneIsCutOff) {
  const Network network(2);
  if (!network.made()) GTEST_SKIP() << Network::kNeeds;
  Job job(network, 2, kKey, {{"calls", "100000000"}});
  std::vector<RankProcess>& ranks = job.ranks();
  for (RankProcess& rank : ranks) ASSERT_TRUE(rank.wait_for("running", 20'000 * kSlower)) << Job::said(rank);
  ASSERT_TRUE(network.unplug(1));
  const Deadline deadline = Deadline::after_ms(10'500 * kSlower);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    ASSERT_TRUE(ranks[rank].wait_for("error ", deadline.left_ms())) << "rank " << rank << " said nothing within 10 s";
    const auto failure = ranks[rank].failure();
    EXPECT_EQ(failure->code, ErrorCode::PeerLost) << failure->message;
    EXPECT_EQ(failure->failed_rank / 2, rank < 2 ? 1 : 0) << failure->message;
    EXPECT_EQ(ranks[rank].join(10'000), 3);
  }
}

// The card that leads to rank 0 leads to all ranks, whatever other cards there are.
TEST(Hosts, PassADeadCardThatNobodyNamed) {
  const Network network(3);
  if (!network.made()) GTEST_SKIP() << Network::kNeeds;
  ASSERT_TRUE(network.break_switch(1));
  Job(network, 3, kKey, {{"calls", "20"}}).expect_to_end_well();
}

// Both cards may be used, but the first has no carrier.
TEST(Hosts, PassACardWithoutACarrier) {
  const Network network(3);
  if (!network.made()) GTEST_SKIP() << Network::kNeeds;
  for (int host = 0; host < 3; ++host) ASSERT_TRUE(network.unplug(host, 0));
  Job(network, 3, with_key({{"MASTER_ADDR", network.address(0, 1)}, {"WREATH_SOCKET_IFNAME", "eth"}}),
      {{"calls", "20"}})
      .expect_to_end_well();
}

// Both cards may be used, but the first loses all packets. Ranks find that out by trying.
TEST(Hosts, FailOverFromACardThatLosesAll) {
  const Network network(3);
  if (!network.made()) GTEST_SKIP() << Network::kNeeds;
  ASSERT_TRUE(network.break_switch(0));
  Job(network, 3, with_key({{"MASTER_ADDR", network.address(0, 1)}, {"WREATH_SOCKET_IFNAME", "eth"}}),
      {{"calls", "20"}, {"bootstrap_ms", "30000"}})
      .expect_to_end_well();
}

// Each pair has a socket over each card. Where one card fails, messages go over the other one.
TEST(Hosts, GoOnOverOneOfTwoCards) {
  const Network network(2);
  if (!network.made()) GTEST_SKIP() << Network::kNeeds;
  Job job(network, 2, with_key({{"WREATH_SOCKET_IFNAME", "eth"}, {"WREATH_TCP_SOCKETS", "2"}}), {{"calls", "1000"}});
  for (RankProcess& rank : job.ranks()) ASSERT_TRUE(rank.wait_for("running", 20'000 * kSlower)) << Job::said(rank);
  ASSERT_TRUE(network.unplug(1, 1));
  job.expect_to_end_well();
  for (const RankProcess& rank : job.ranks()) {
    EXPECT_THAT(rank.lines().front(), HasSubstr("transport tcp over eth0 + eth1 ("));
    EXPECT_THAT(rank.lines().back(), HasSubstr("at the end tcp over eth0, lost: eth1 ("));
    EXPECT_THAT(rank.log(), ContainsRegex("tcp link to rank [0-3]: the socket eth1 to 10.74.0.[12]:[0-9]+ is lost: (no "
                                          "answer|the peer has lost it); its messages go over the other one"));
  }
}

// The lost socket is replaced once there is a way again.
TEST(Hosts, TakeACardBackThatReturns) {
  const Network network(2);
  if (!network.made()) GTEST_SKIP() << Network::kNeeds;
  Job job(network, 2, with_key({{"WREATH_SOCKET_IFNAME", "eth"}, {"WREATH_TCP_SOCKETS", "2"}}),
          {{"role", "until_whole"}});
  for (RankProcess& rank : job.ranks()) ASSERT_TRUE(rank.wait_for("running", 20'000 * kSlower)) << Job::said(rank);
  ASSERT_TRUE(network.unplug(1, 1));
  for (RankProcess& rank : job.ranks()) ASSERT_TRUE(rank.wait_for("lost", 20'000 * kSlower)) << Job::said(rank);
  ASSERT_TRUE(network.plug_in(1, 1));
  job.expect_to_end_well();
  for (const RankProcess& rank : job.ranks()) {
    EXPECT_THAT(rank.lines().back(), HasSubstr("at the end tcp over eth0 + eth1 ("));
    EXPECT_THAT(rank.log(), ContainsRegex("tcp link to rank [0-3]: the socket eth1 to 10.74.0.[12]:[0-9]+ replaces the "
                                          "one that was lost"));
  }
}

// Nobody named a number of sockets, so links that carry large messages find one by measuring. The ways are as fast as
// the machine here, so it may be any.
TEST(Hosts, MeasureHowManySocketsGain) {
  const Network network(2);
  if (!network.made()) GTEST_SKIP() << Network::kNeeds;
  Job job(network, 2, with_key({{"WREATH_DEBUG", "INFO"}}),
          {{"role", "for_seconds"}, {"seconds", std::to_string(14 * kSlower)}});
  job.expect_to_end_well();
  std::string logs;
  for (const RankProcess& rank : job.ranks()) {
    logs += rank.log();
    std::cerr << rank.lines().back() << " MB/s " << rank.lines()[1] << "\n";
  }
  EXPECT_THAT(logs, ContainsRegex("tcp link to rank [0-3]: 2 sockets carried [0-9.]+ times as much as 1: it "));
  EXPECT_THAT(logs, Not(HasSubstr("is lost")));
}

TEST(Hosts, FindRankZeroAtTheAddressThatWorks) {
  const Network network(2);
  if (!network.made()) GTEST_SKIP() << Network::kNeeds;
  ASSERT_TRUE(network.break_switch(0));
  Job(network, 2, with_key({{"WREATH_ADDRESS", network.address(0, 0) + "," + network.address(0, 1)}}),
      {{"calls", "20"}, {"bootstrap_ms", "30000"}})
      .expect_to_end_well();
}

// Rank 0 does not listen at the other address that the user named.
TEST(Hosts, ListenOnlyWhereTheInterfaceSettingAdmits) {
  const Network network(2);
  if (!network.made()) GTEST_SKIP() << Network::kNeeds;
  Job job(network, 2,
          with_key({{"WREATH_ADDRESS", network.address(0, 0) + "," + network.address(0, 1)},
                    {"WREATH_SOCKET_IFNAME", "eth1"},
                    {"WREATH_DEBUG", "INFO"}}),
          {{"calls", "20"}});
  job.expect_to_end_well();
  EXPECT_THAT(job.ranks()[0].log(), AllOf(HasSubstr("rank 0 waits for 4 ranks at 10.74.0.1:"),
                                          Not(HasSubstr("rank 0 waits for 4 ranks at 10.73.0.1:"))));
}

// The errors name both ranks, the card, the address and the port, before the start's time is over.
TEST(Hosts, NameAFilteredPortBetweenRanks) {
  const Network network(2);
  if (!network.made()) GTEST_SKIP() << Network::kNeeds;
  if (!network.filter(0, 41'000, 41'010)) GTEST_SKIP() << "needs nft or iptables: install nftables";
  const std::string text =
      Job(network, 2, with_key({{"WREATH_PORT_RANGE", "41000-41010"}}), {{"calls", "10"}}).expect_no_start();
  EXPECT_THAT(text, AllOf(ContainsRegex("rank [23] .host [^)]*.: no connection to rank [01] .host "),
                          HasSubstr("10.73.0.1:4100"), HasSubstr("from 10.73.0.2 (eth0)"), HasSubstr("firewall")));
}

TEST(Hosts, NameAFilteredPortOfTheMeetingPoint) {
  const Network network(2);
  if (!network.made()) GTEST_SKIP() << Network::kNeeds;
  if (!network.filter(0, kPort, kPort + 15)) GTEST_SKIP() << "needs nft or iptables: install nftables";
  const std::string text = Job(network, 2, kKey, {{"calls", "10"}}).expect_no_start();
  EXPECT_THAT(text, AllOf(HasSubstr("rank 2 found no meeting point at 10.73.0.1:29873"), HasSubstr("rank 0 must be"),
                          HasSubstr("from 10.73.0.2 (eth0)"), HasSubstr("firewall")));
  EXPECT_THAT(text, HasSubstr("ranks 2, 3 of 4 did not arrive"));
}

}  // namespace
}  // namespace wreath::testing_support::hosts
