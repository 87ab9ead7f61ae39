// Our reader of /sys is held to hwloc's, where that is installed: on this machine, and on those made for the test.
#include <gtest/gtest.h>

#include "tests/support/fake_devices.hpp"
#include "wreath/topology.hpp"

#if WREATH_HAS_HWLOC
#include <hwloc.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <tuple>

namespace wreath {
namespace {

using Loaded = std::unique_ptr<hwloc_topology, void (*)(hwloc_topology_t)>;

// Of `root`, or of this machine.
Loaded load(const std::string& root) {
  const test::Environment environment{{{"HWLOC_FSROOT", root}, {"HWLOC_COMPONENTS", "linux,stop"}}};
  hwloc_topology_t topology = nullptr;
  if (::hwloc_topology_init(&topology) != 0) return {nullptr, &::hwloc_topology_destroy};
  Loaded loaded(topology, &::hwloc_topology_destroy);
  ::hwloc_topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  if (::hwloc_topology_load(topology) != 0) loaded.reset();
  return loaded;
}

std::vector<int> numbers_of(hwloc_const_bitmap_t set) {
  std::vector<int> numbers;
  for (int number = ::hwloc_bitmap_first(set); number >= 0; number = ::hwloc_bitmap_next(set, number)) {
    numbers.push_back(number);
  }
  return numbers;
}

// {level, kind, bytes, processors} of caches for data.
using CacheRow = std::tuple<int, std::size_t, std::vector<int>>;

std::set<CacheRow> caches_of(hwloc_topology_t topology) {
  std::set<CacheRow> rows;
  for (const hwloc_obj_type_t type : {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L4CACHE}) {
    for (hwloc_obj_t cache = nullptr; (cache = ::hwloc_get_next_obj_by_type(topology, type, cache)) != nullptr;) {
      rows.emplace(static_cast<int>(cache->attr->cache.depth), cache->attr->cache.size, numbers_of(cache->cpuset));
    }
  }
  return rows;
}

std::set<CacheRow> caches_of(const Topology& topology) {
  std::set<CacheRow> rows;
  for (const Cache& cache : topology.caches) {
    if (cache.kind != CacheKind::Instruction) rows.emplace(cache.level, cache.bytes, cache.processors);
  }
  return rows;
}

std::set<std::vector<int>> sets_of(hwloc_topology_t topology, hwloc_obj_type_t type) {
  std::set<std::vector<int>> sets;
  for (hwloc_obj_t each = nullptr; (each = ::hwloc_get_next_obj_by_type(topology, type, each)) != nullptr;) {
    sets.insert(numbers_of(each->cpuset));
  }
  return sets;
}

// Processors that agree in `field`, as sets.
std::set<std::vector<int>> sets_of(const Topology& topology, int Processor::*field) {
  std::map<int, std::vector<int>> by_value;
  for (const Processor& processor : topology.processors) by_value[processor.*field].push_back(processor.number);
  std::set<std::vector<int>> sets;
  for (auto& [value, numbers] : by_value) {
    std::sort(numbers.begin(), numbers.end());
    sets.insert(std::move(numbers));
  }
  return sets;
}

void expect_alike(const std::string& root) {
  const Loaded theirs = load(root);
  ASSERT_NE(theirs, nullptr);
  const Topology ours = read_topology(root);
  EXPECT_EQ(sets_of(ours, &Processor::number), sets_of(theirs.get(), HWLOC_OBJ_PU));
  EXPECT_EQ(sets_of(ours, &Processor::core), sets_of(theirs.get(), HWLOC_OBJ_CORE));
  EXPECT_EQ(sets_of(ours, &Processor::package), sets_of(theirs.get(), HWLOC_OBJ_PACKAGE));
  EXPECT_EQ(sets_of(ours, &Processor::node), sets_of(theirs.get(), HWLOC_OBJ_NUMANODE));
  EXPECT_EQ(caches_of(ours), caches_of(theirs.get()));
}

TEST(Hwloc, SeesThisMachineAsWeDo) { expect_alike(""); }

TEST(Hwloc, SeesServersAsWeDo) {
  for (const test::Shape& shape : {test::Shape{2, 1, 4, 2}, test::Shape{2, 2, 8, 1}, test::Shape{1, 4, 16, 2}}) {
    const test::FakeMachine machine;
    machine.processors(shape);
    expect_alike(machine.root());
  }
}

}  // namespace
}  // namespace wreath
#else
TEST(Hwloc, SeesThisMachineAsWeDo) { GTEST_SKIP() << "built without hwloc"; }
#endif
