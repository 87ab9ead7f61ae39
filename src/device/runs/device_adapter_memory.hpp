// Memory of devices that a network adapter reads and writes itself (GPUDirect RDMA). Each allocation is registered with
// the adapter once, by its dma-buf, and deregistered before it is freed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "src/device/library_device.hpp"
#include "wreath/fifo.hpp"
#include "wreath/result.hpp"

namespace wreath {

// What a transport's adapter does.
class MemoryAdapter {
 public:
  virtual ~MemoryAdapter() = default;
  virtual std::string_view name() const = 0;  // "mlx5_0"
  // Registers all of `memory`, whose descriptor it may close afterwards. A number that says which; an error where the
  // adapter cannot.
  virtual Result<std::uint64_t> register_memory(const DmaBuf& memory) = 0;
  // No work that uses it is in flight.
  virtual void deregister_memory(std::uint64_t registration) = 0;
};

// How an adapter names memory of a device.
struct AdapterPlace {
  std::uint64_t registration;
  std::uint64_t offset;
};

// An adapter's registrations. Any thread may use it; the adapter outlives it.
class AdapterMemory final : private ReleaseWatcher {
 public:
  explicit AdapterMemory(MemoryAdapter& adapter);
  ~AdapterMemory() override;
  AdapterMemory(const AdapterMemory&) = delete;
  AdapterMemory& operator=(const AdapterMemory&) = delete;

  // Of [data, data + bytes); the first use of an allocation registers it. Unavailable, and told in the log once for
  // each device, where the memory must be staged: it is no device's, not exportable (nobody would say when it is
  // freed), or the device or the adapter cannot.
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
  std::map<const std::byte*, Entry> entries_;  // by where allocations begin
  std::map<const Device*, bool> told_;
};

// Publishes the next message of `fifo`, whose data an adapter has put into memory of `device`: after a flush, where the
// device needs one to see it in order. An error leaves the message unpublished.
Status publish_received(LibraryDevice& device, SendFifo& fifo);

}  // namespace wreath
