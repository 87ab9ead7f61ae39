// Processors and caches are found on machines made for the test and on this machine.
#include <gmock/gmock.h>

#include "src/topology/parts.hpp"
#include "tests/support/fake_machine.hpp"

namespace wreath {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Processors, StandByPackageNodeAndCore) {
  const test::FakeMachine machine;
  machine.processors({2, 1, 2, 2});
  const Topology topology = read_topology(machine.root());
  std::vector<int> numbers;
  std::vector<int> cores;
  std::vector<int> packages;
  for (const Processor& processor : topology.processors) {
    numbers.push_back(processor.number);
    cores.push_back(processor.core);
    packages.push_back(processor.package);
    EXPECT_EQ(processor.node, processor.package);
  }
  EXPECT_THAT(numbers, ElementsAre(0, 4, 1, 5, 2, 6, 3, 7));
  EXPECT_THAT(cores, ElementsAre(0, 0, 1, 1, 2, 2, 3, 3));
  EXPECT_THAT(packages, ElementsAre(0, 0, 0, 0, 1, 1, 1, 1));
  EXPECT_THAT(topology.allowed, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(topology.unknown, IsEmpty());
}

TEST(Processors, HaveEachCacheOnce) {
  const test::FakeMachine machine;
  machine.processors({2, 1, 2, 2});
  const Topology topology = read_topology(machine.root());
  ASSERT_EQ(topology.caches.size(), 4u * 3 + 2);
  EXPECT_EQ(topology.caches.front().level, 1);
  EXPECT_EQ(topology.caches.front().kind, CacheKind::Data);
  EXPECT_EQ(topology.caches.front().bytes, 48u << 10);
  EXPECT_THAT(topology.caches.front().processors, ElementsAre(0, 4));
  EXPECT_EQ(topology.caches.back().bytes, 32u << 20);
  EXPECT_THAT(topology.caches.back().processors, ElementsAre(2, 3, 6, 7));
}

TEST(Processors, OfAKernelThatDoesNotKnowArePartsOfOnePackage) {
  const test::FakeMachine machine;
  machine.file("/sys/devices/system/cpu/online", "0-1");
  machine.file("/sys/devices/system/cpu/cpu0/topology/physical_package_id", "-1");
  const Topology topology = read_topology(machine.root());
  ASSERT_EQ(topology.processors.size(), 2u);
  EXPECT_EQ(topology.processors[0].package, 0);
  EXPECT_EQ(topology.processors[1].core, 1);
  EXPECT_THAT(topology.allowed, ElementsAre(0, 1));
}

TEST(Processors, WithoutSysAreThoseAllowedAndItIsSaid) {
  const test::FakeMachine machine;
  machine.allow("2-3");
  const Topology topology = read_topology(machine.root());
  ASSERT_EQ(topology.processors.size(), 2u);
  EXPECT_EQ(topology.processors[0].number, 2);
  EXPECT_THAT(topology.unknown, ElementsAre(HasSubstr("/sys/devices/system/cpu/online cannot be read")));
}

TEST(Processors, OfThisMachineHaveAPlace) {
  const Topology topology = read_topology();
  EXPECT_FALSE(topology.allowed.empty());
  EXPECT_GE(topology.processors.size(), topology.allowed.size());
}

}  // namespace
}  // namespace wreath
