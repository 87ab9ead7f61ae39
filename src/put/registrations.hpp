// An adapter reads the caller's memory where it is, if that memory is registered with it. Each region of
// wreath::allocate or wreath::register_memory is registered at its first use, and until it is released.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "src/base/release_watcher.hpp"
#include "src/put/adapter.hpp"

namespace wreath {

// Memory that is registered with an adapter.
struct RegisteredMemory {
  std::uint64_t registration = 0;
  std::optional<RemoteMemory> remote;  // names the first byte to peers, where they may put
};

// Holds one adapter's registrations of regions. The adapter outlives it. Regions are released by any thread, and the
// adapter's deregister_memory() is called there.
class Registrations final : private ReleaseWatcher {
 public:
  // Peers may put into the regions, but for those that the adapter takes for reading alone.
  explicit Registrations(Adapter& adapter);
  ~Registrations() override;
  Registrations(const Registrations&) = delete;
  Registrations& operator=(const Registrations&) = delete;

  // Returns the registered memory at `data`, where one region holds [data, data + bytes). Returns nothing for ordinary
  // memory, and where the adapter refused the region: the log says so once, and the region is not tried again. One
  // thread at a time calls it: the holder of the communicator's token.
  std::optional<RegisteredMemory> find(const void* data, std::size_t bytes);
  // Counts the registrations that there are now.
  std::size_t count() const;
  // Counts those that find() ever made. The caller of find() asks.
  std::uint64_t made() const { return made_; }

 private:
  struct Entry {
    std::uint64_t region = 0;  // its id, which no other region has
    const std::byte* begin = nullptr;
    std::size_t bytes = 0;
    std::uint64_t registration = 0;  // 0: the adapter refused it
    std::optional<RemoteMemory> remote;
  };
  void before_release(const std::byte* begin) override;
  std::optional<Entry> registered(const std::byte* data, std::size_t bytes);

  Adapter& adapter_;
  bool told_ = false;  // of a refusal
  std::uint64_t made_ = 0;
  // The last found entry serves until any region is released.
  Entry last_;
  std::uint64_t last_releases_ = 0;
  std::atomic<std::uint64_t> releases_ = 0;
  mutable std::mutex mutex_;
  std::map<const std::byte*, Entry> entries_;  // by the address where they begin
};

}  // namespace wreath
