// Reads where processors are and which caches they share, as hwloc sees it.
#include <hwloc.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>

#include "src/topology/parts.hpp"

namespace wreath {
namespace {

using Loaded = std::unique_ptr<hwloc_topology, void (*)(hwloc_topology_t)>;

// Gives hwloc another root, which it takes from the environment alone.
class FileRoot {
 public:
  explicit FileRoot(const std::string& root) : set_(!root.empty()) {
    if (!set_) return;
    ::setenv("HWLOC_FSROOT", root.c_str(), 1);
    ::setenv("HWLOC_HIDE_ERRORS", "2", 1);
    // With this hwloc reads files alone, and asks this machine's processor nothing.
    ::setenv("HWLOC_COMPONENTS", "linux,stop", 1);
  }
  ~FileRoot() {
    if (!set_) return;
    ::unsetenv("HWLOC_FSROOT");
    ::unsetenv("HWLOC_HIDE_ERRORS");
    ::unsetenv("HWLOC_COMPONENTS");
  }
  FileRoot(const FileRoot&) = delete;
  FileRoot& operator=(const FileRoot&) = delete;

 private:
  bool set_;
};

// Loads the machine's topology; null where hwloc cannot.
Loaded load(const std::string& root) {
  const FileRoot file_root(root);
  hwloc_topology_t made = nullptr;
  if (::hwloc_topology_init(&made) != 0) return {nullptr, &::hwloc_topology_destroy};
  Loaded topology(made, &::hwloc_topology_destroy);
  ::hwloc_topology_set_flags(made, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  ::hwloc_topology_set_icache_types_filter(made, HWLOC_TYPE_FILTER_KEEP_ALL);
  if (::hwloc_topology_load(made) != 0) topology.reset();
  return topology;
}

template <typename Visit>
void for_each(hwloc_topology_t topology, hwloc_obj_type_t type, Visit visit) {
  for (hwloc_obj_t each = nullptr; (each = ::hwloc_get_next_obj_by_type(topology, type, each)) != nullptr;)
    visit(*each);
}

std::vector<int> numbers_of(hwloc_const_bitmap_t set) {
  std::vector<int> numbers;
  for (int number = ::hwloc_bitmap_first(set); number >= 0; number = ::hwloc_bitmap_next(set, number)) {
    numbers.push_back(number);
  }
  return numbers;
}

int known_or_zero(unsigned index) { return index == HWLOC_UNKNOWN_INDEX ? 0 : static_cast<int>(index); }

Processor processor_of(hwloc_topology_t topology, const hwloc_obj& unit) {
  Processor processor{static_cast<int>(unit.os_index), static_cast<int>(unit.os_index), 0, 0};
  auto* const itself = const_cast<hwloc_obj*>(&unit);
  if (const hwloc_obj* core = ::hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_CORE, itself)) {
    processor.core = ::hwloc_bitmap_first(core->cpuset);
  }
  if (const hwloc_obj* package = ::hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_PACKAGE, itself)) {
    processor.package = known_or_zero(package->os_index);
  }
  if (const int node = ::hwloc_bitmap_first(unit.nodeset); node >= 0) processor.node = node;
  return processor;
}

CacheKind kind_of(hwloc_obj_cache_type_t type) {
  switch (type) {
    case HWLOC_OBJ_CACHE_DATA: return CacheKind::Data;
    case HWLOC_OBJ_CACHE_INSTRUCTION: return CacheKind::Instruction;
    default: return CacheKind::Unified;
  }
}

}  // namespace

std::string read_places(const std::string& root, Topology& topology) {
  const std::string file = root + "/sys/devices/system/cpu/online";
  if (::access(file.c_str(), R_OK) != 0) return file + " cannot be read";
  const Loaded loaded = load(root);
  if (loaded == nullptr) return "hwloc cannot read this machine";
  for_each(loaded.get(), HWLOC_OBJ_PU,
           [&](const hwloc_obj& unit) { topology.processors.push_back(processor_of(loaded.get(), unit)); });
  for (const hwloc_obj_type_t type : {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L1ICACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L2ICACHE,
                                      HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L3ICACHE, HWLOC_OBJ_L4CACHE, HWLOC_OBJ_L5CACHE}) {
    for_each(loaded.get(), type, [&](const hwloc_obj& cache) {
      const hwloc_obj_attr_u::hwloc_cache_attr_s& attributes = cache.attr->cache;
      topology.caches.push_back(
          {static_cast<int>(attributes.depth), kind_of(attributes.type), attributes.size, numbers_of(cache.cpuset)});
    });
  }
  return {};
}

}  // namespace wreath
