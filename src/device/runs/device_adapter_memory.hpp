// A network adapter reads and writes memory of devices itself (GPUDirect RDMA). Each allocation is registered with the
// adapter once, by its dma-buf, and deregistered before it is freed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "src/base/release_watcher.hpp"
#include "src/device/library_device.hpp"
#include "wreath/fifo.hpp"
#include "wreath/result.hpp"

namespace wreath {

// A transport's adapter implements this interface.
class MemoryAdapter {
 public:
  virtual ~MemoryAdapter() = default;
  virtual std::string_view name() const = 0;  // "mlx5_0"
  // Registers all of `memory`, whose descriptor the caller may close afterwards. Returns the registration's number, or
  // an error where the adapter cannot.
  virtual Result<std::uint64_t> register_memory(const DmaBuf& memory) = 0;
  // Ends a registration. No work that uses it is in flight.
  virtual void deregister_memory(std::uint64_t registration) = 0;
};

// Names memory of a device for an adapter.
struct AdapterPlace {
  std::uint64_t registration;
  std::uint64_t offset;
};

// Holds an adapter's registrations. Any thread may use it; the adapter outlives it.
class AdapterMemory final : private ReleaseWatcher {
 public:
  explicit AdapterMemory(MemoryAdapter& adapter);
  ~AdapterMemory() override;
  AdapterMemory(const AdapterMemory&) = delete;
  AdapterMemory& operator=(const AdapterMemory&) = delete;

  // Returns the place of [data, data + bytes); the first use of an allocation registers it. Fails with Unavailable
  // where the memory must be staged; the log says so once for each device. Memory must be staged where it is no
  // device's, or where the device or the adapter cannot register it. It must be staged, too, where it is not
  // exportable, because nobody would announce its release.
  Result<AdapterPlace> find(const void* data, std::size_t bytes);
  std::size_t registrations() const;

 private:
  struct Entry {
    std::uint64_t allocation;
    std::uint64_t registration;
  };
  void before_release(const std::byte* begin) override;
  Error staged(const Device* device, const std::string& why);

  MemoryAdapter& adapter_;
  mutable std::mutex mutex_;
  std::map<const std::byte*, Entry> entries_;  // by the address where they begin
  std::map<const Device*, bool> told_;
};

// Publishes the next message of `fifo`, whose data an adapter has put into memory of `device`. Flushes first where the
// device needs that to see the data in order. On error the message stays unpublished.
Status publish_received(LibraryDevice& device, SendFifo& fifo);

}  // namespace wreath
