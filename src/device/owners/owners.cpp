// Finds the owner of memory, in the table of all kinds of devices.
#include "src/device/call_memory.hpp"
#include "src/device/cuda/platform.hpp"
#include "src/device/device_memory.hpp"
#include "src/device/library_device.hpp"

namespace wreath {
namespace {

// A kind of device says here what it knows of memory. The kind is Host for memory that is not its own. The first row
// that knows the memory decides.
constexpr PointerFacts (*kOwners[])(const void* data) = {&host_facts_of, &cuda_facts_of};

}  // namespace

PointerFacts facts_of(const void* data) {
  if (data == nullptr) return {};
  for (const auto owner : kOwners) {
    if (const PointerFacts facts = owner(data); facts.kind != MemoryKind::Host) return facts;
  }
  return {};
}

LibraryDevice* find_device_of(const void* data) {
  const PointerFacts facts = facts_of(data);
  return facts.kind == MemoryKind::Device ? static_cast<LibraryDevice*>(facts.device) : nullptr;
}

Device* device_of_memory(const void* data) { return device_of(data); }

}  // namespace wreath
