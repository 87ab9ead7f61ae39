// Tests the choice of a port and of its GID, by plain values.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/topology/rdma_ports.hpp"

namespace wreath {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::uint32_t k400Gbit = 400'000;

PortFacts port(const char* device, int number, int node, std::uint32_t rate_mbit = k400Gbit,
               const char* state = "ACTIVE") {
  PortFacts facts;
  facts.device = device;
  facts.number = number;
  facts.state = state;
  facts.node = node;
  facts.rate_mbit = rate_mbit;
  return facts;
}

Gid ipv4(std::uint8_t last) { return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 77, 0, last}; }
Gid link_local() { return {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}; }
Gid ipv6() { return {0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}; }

// Two slow ports, and a fast one near each of two NUMA nodes but one.
const std::vector<PortFacts> kMachine = {port("irdma0", 1, 0, 25'000), port("mlx5_0", 1, 0), port("mlx5_1", 1, 1),
                                         port("mlx5_1", 2, 1), port("mlx5_2", 1, 1, k400Gbit, "DOWN")};

struct Choice {
  const char* choice;
  std::vector<int> nodes;
  int rank;
  std::string port;
};

TEST(VerbsPorts, AreChosenByFilterRateDistanceAndRank) {
  const Choice table[] = {
      {"", {0}, 0, "mlx5_0 port 1"},
      {"", {1}, 0, "mlx5_1 port 1"},
      {"", {1}, 1, "mlx5_1 port 2"},
      {"", {1}, 2, "mlx5_1 port 1"},
      {"", {}, 0, "mlx5_0 port 1"},  // no distance is known
      {"", {0, 1}, 2, "mlx5_1 port 2"},
      {"irdma", {1}, 0, "irdma0 port 1"},
      {"=mlx5_1", {0}, 1, "mlx5_1 port 2"},
      {"=mlx5_1:2", {0}, 0, "mlx5_1 port 2"},
      {"^mlx5_0", {0}, 0, "mlx5_1 port 1"},
      {"^=mlx5_0,mlx5_1:1", {0}, 0, "mlx5_1 port 2"},
      {"mlx5_2,irdma", {0}, 0, "irdma0 port 1"},
  };
  for (const Choice& row : table) {
    const auto chosen = choose_ports(kMachine, row.choice, row.nodes, row.rank, 1);
    ASSERT_TRUE(chosen) << row.choice;
    ASSERT_EQ(chosen->size(), 1u) << row.choice;
    EXPECT_EQ(port_text(kMachine[chosen->front()]), row.port) << row.choice << ", rank " << row.rank;
  }
}

// Ranks that take the same ports have them in the same order, so that each rail is one network.
TEST(VerbsPorts, OfSeveralRailsAreTheNearestInTheirOrder) {
  using Ports = std::vector<std::size_t>;
  EXPECT_EQ(choose_ports(kMachine, "", {1}, 0, 2).value(), (Ports{2, 3}));
  EXPECT_EQ(choose_ports(kMachine, "", {1}, 1, 2).value(), (Ports{2, 3}));
  EXPECT_EQ(choose_ports(kMachine, "", {0}, 0, 2).value(), (Ports{1, 2}));
  EXPECT_EQ(choose_ports(kMachine, "", {0}, 1, 2).value(), (Ports{1, 3})) << "ranks take turns among equals";
  EXPECT_EQ(choose_ports(kMachine, "", {0}, 0, 8).value(), (Ports{0, 1, 2, 3})) << "the one that is down is left out";
}

TEST(VerbsPorts, UnknownDistanceIsBetterThanAnotherNode) {
  const std::vector<PortFacts> ports = {port("far", 1, 1), port("unknown", 1, -1)};
  EXPECT_EQ(choose_ports(ports, "", {0}, 0, 1).value(), std::vector<std::size_t>{1});
}

TEST(VerbsPorts, ErrorsNameThePortsThatThereAre) {
  const auto none = choose_ports(kMachine, "bnxt", {}, 0, 1);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::StartupFailed);
  EXPECT_THAT(none.error().message,
              AllOf(HasSubstr("WREATH_HCA=bnxt admits no port"), HasSubstr("mlx5_2 port 1 DOWN")));
  const auto down = choose_ports(kMachine, "=mlx5_2", {}, 0, 1);
  ASSERT_FALSE(down);
  EXPECT_EQ(down.error().code, ErrorCode::Unavailable);
  EXPECT_THAT(down.error().message, AllOf(HasSubstr("no port is active"), HasSubstr("subnet manager")));
}

int gid_of(std::vector<GidEntry> gids, bool infiniband = false, int index = -1) {
  PortFacts facts = port("mlx5_0", 1, 0);
  facts.infiniband = infiniband;
  facts.gids = std::move(gids);
  const auto chosen = choose_gid(facts, index);
  return chosen ? chosen->index : -1;
}

TEST(VerbsGids, AreChosenByTypeAndAddress) {
  constexpr GidType kV1 = GidType::RoceV1;
  constexpr GidType kV2 = GidType::RoceV2;
  EXPECT_EQ(gid_of({{0, link_local(), kV1}, {1, link_local(), kV2}, {2, ipv4(1), kV1}, {3, ipv4(1), kV2}}), 3);
  EXPECT_EQ(gid_of({{0, link_local(), kV2}, {1, ipv6(), kV2}, {2, ipv4(1), kV1}}), 1);
  EXPECT_EQ(gid_of({{0, ipv6(), kV2}, {1, ipv4(1), kV2}}), 1);
  EXPECT_EQ(gid_of({{0, link_local(), kV1}, {1, link_local(), kV2}}), 1);
  EXPECT_EQ(gid_of({{0, link_local(), kV1}, {5, ipv4(1), kV1}}), 5);
  EXPECT_EQ(gid_of({{2, ipv4(2), kV2}, {4, ipv4(1), kV2}}), 2);  // the first of equals
  EXPECT_EQ(gid_of({{0, link_local(), GidType::Unknown}, {1, ipv4(1), GidType::Unknown}}), 1);
  EXPECT_EQ(gid_of({{0, link_local(), GidType::InfiniBand}, {1, ipv6(), GidType::InfiniBand}}, true), 0);
  EXPECT_EQ(gid_of({}, true), 0);
  EXPECT_EQ(gid_of({{0, ipv4(1), kV1}, {1, ipv4(1), kV2}}, false, 0), 0);
  EXPECT_EQ(gid_of({}), -1);
}

TEST(VerbsGids, ErrorsSayWhatToDo) {
  PortFacts facts = port("mlx5_0", 1, 0);
  EXPECT_THAT(choose_gid(facts, -1).error().message, HasSubstr("mlx5_0 port 1 has no GID: give its interface an IP"));
  EXPECT_THAT(choose_gid(facts, 7).error().message, HasSubstr("WREATH_IB_GID_INDEX=7: mlx5_0 port 1 has no such GID"));
}

TEST(VerbsGids, AreWrittenAsAddresses) {
  EXPECT_EQ(gid_address(ipv4(2)), "10.77.0.2");
  EXPECT_EQ(gid_address(link_local()), "fe80::1");
  EXPECT_TRUE(is_ipv4(ipv4(9)));
  EXPECT_FALSE(is_ipv4(ipv6()));
}

TEST(VerbsPorts, RatesAreLanesTimesSpeed) {
  EXPECT_EQ(rate_of(2, 128), 400'000u);  // NDR, four lanes
  EXPECT_EQ(rate_of(2, 32), 100'000u);
  EXPECT_EQ(rate_of(1, 4), 10'000u);
  EXPECT_EQ(rate_of(16, 64), 100'000u);
  EXPECT_EQ(rate_of(3, 32), 0u);
  EXPECT_EQ(rate_of(2, 0), 0u);
}

TEST(VerbsPorts, StatesHaveTheirNames) {
  EXPECT_EQ(port_state(4), "ACTIVE");
  EXPECT_EQ(port_state(1), "DOWN");
  EXPECT_EQ(port_state(6), "of an unknown state");
  EXPECT_EQ(port_state(-1), "of an unknown state");
}

TEST(VerbsPorts, TheLimitOfLockedMemoryIsNamedWithTheWayToRaiseIt) {
  EXPECT_EQ(lock_complaint(1 << 20, 1 << 20), "");
  EXPECT_THAT(lock_complaint(32 << 20, 64 << 10),
              AllOf(HasSubstr("may lock 64K"), HasSubstr("32M are to be locked"), HasSubstr("ulimit -l unlimited"),
                    HasSubstr("LimitMEMLOCK"), HasSubstr("--ulimit memlock=-1")));
}

}  // namespace
}  // namespace wreath
