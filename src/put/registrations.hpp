// An adapter reads the caller's memory where it is, if that memory is registered with it. Each region of
// wreath::allocate or wreath::register_memory is registered at its first use, and until it is released. An allocation
// of a device is registered by let_in(), and until it is released, too.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "src/base/release_watcher.hpp"
#include "src/put/adapter.hpp"
#include "wreath/link.hpp"

namespace wreath {

// Holds one adapter's registrations of regions. The adapter outlives it. Regions are released by any thread, and the
// adapter's deregister_memory() is called there.
class Registrations final : private ReleaseWatcher {
 public:
  // Peers may put into the regions, but for those that the adapter takes for reading alone.
  explicit Registrations(Adapter& adapter);
  ~Registrations() override;
  Registrations(const Registrations&) = delete;
  Registrations& operator=(const Registrations&) = delete;

  // The holder of the communicator's token calls the next three functions.

  // Returns the registered memory at `data`, where one region or allocation holds [data, data + bytes). Returns nothing
  // for ordinary memory, and where the adapter refused the region: the log says so once, and the region is not tried
  // again.
  std::optional<RegisteredMemory> find(const void* data, std::size_t bytes);
  // Registers an allocation of a device. Returns Unavailable where the device or the adapter cannot: the log says so
  // once, and the allocation is not tried again. Peers do not put into it where nobody can flush their writes.
  Status let_in(const DeviceRange& memory);
  // Makes what peers have put at `data` visible to the device whose memory that is, and returns who did so. Nobody
  // needs to for memory of the host.
  Result<Flusher> flush(const void* data);
  // Counts the registrations that there are now.
  std::size_t count() const;
  // Counts those that find() ever made. The caller of find() asks.
  std::uint64_t made() const { return made_; }

 private:
  struct Entry {
    std::uint64_t id = 0;  // of its region, or of its device's allocation, which no other one has
    const std::byte* begin = nullptr;
    std::size_t bytes = 0;
    RegisteredMemory memory;  // its registration is 0 where the adapter refused it
    const std::byte* released_as = nullptr;
    DmaBufDevice* device = nullptr;
  };
  void before_release(const std::byte* begin) override;
  std::optional<Entry> registered(const std::byte* data, std::size_t bytes);
  std::optional<Entry> let_in_at(const std::byte* data, std::size_t bytes) const;
  // Looks up the memory and keeps it in last_. Returns whether some entry has it.
  bool look_up(const std::byte* data, std::size_t bytes);
  Result<RegisteredMemory> register_for_puts(const DeviceRange& memory, const DmaBuf& buffer);
  template <typename Register>
  const Entry& made_once(const Entry& wanted, const Register& register_memory);

  Adapter& adapter_;
  std::array<bool, 2> told_{};  // of a refusal: of the host's memory, of a device's
  bool has_devices_ = false;    // something was let in
  std::uint64_t made_ = 0;
  // The last found entry serves until any region is released.
  Entry last_;
  std::uint64_t last_releases_ = 0;
  std::atomic<std::uint64_t> releases_ = 0;
  mutable std::mutex mutex_;
  std::map<const std::byte*, Entry> entries_;  // by the address where they begin
};

}  // namespace wreath
