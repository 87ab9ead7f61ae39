// Lets tests spoil the adapters of the stand-in for libfabric (shuffled_fabric.cpp).
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>

namespace wreath::test {

// An adapter may be spoilt in these ways. Puts that it had may arrive all the same, and those that fail may do so late.
enum class FabricFault : int {
  None,
  FailsOnce,  // a put fails
  Fails,      // puts fail, and no endpoint can be opened
  Gone,       // memory is not registered, either
  Silent,     // nothing fails, ends or comes, also over new endpoints
};

// Says how adapters take memory of devices (FI_HMEM), which are opened from now on.
struct FabricDevices {
  std::uint32_t version = 0;  // of libfabric, as it says; it is never older than the real one
  bool offered = false;
  bool needs_cuda = false;    // endpoints call CUDA
  bool refuses = false;       // to register any
  bool holds_writes = false;  // what has come is seen after flush() or a read alone
  bool not_read = false;      // by adapters themselves
};

// Reads of memory of devices may go wrong in these ways.
enum class DeviceReads : int { Work, FailOnce, Fail, Stall };

struct ShuffledFabric {
  // Spoils an adapter of the rank that opened its adapters as the first, second and so on of those that are open. Ranks
  // that are threads do so in any order.
  void (*spoil)(int rank, int adapter, FabricFault fault) = nullptr;
  void (*take_devices)(const FabricDevices& devices) = nullptr;
  // Lets devices see what has come. Returns how many writes that were.
  std::size_t (*flush)() = nullptr;
  void (*behave_at_reads)(DeviceReads reads) = nullptr;
  // Counts the reads of memory of devices that have ended well.
  std::size_t (*count_reads)() = nullptr;
  // Counts the addresses of peers that all adapters hold.
  std::size_t (*count_peers)() = nullptr;

  // Loads the library as a program would. It is null where that is not the stand-in.
  static ShuffledFabric find() {
    ShuffledFabric found;
    void* const library = ::dlopen("libfabric.so.1", RTLD_NOW);
    const void* const table = library == nullptr ? nullptr : ::dlsym(library, "shuffled_fabric");
    if (table != nullptr) found = *static_cast<const ShuffledFabric*>(table);
    return found;
  }
};

}  // namespace wreath::test
