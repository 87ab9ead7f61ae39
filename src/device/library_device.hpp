// The library uses a device in more ways than programs do. It maps memory of other processes, asks whose memory an
// address is, and runs kernels.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "src/base/dma_buf.hpp"
#include "src/base/fd.hpp"
#include "wreath/device.hpp"
#include "wreath/endpoint.hpp"
#include "wreath/kernel.hpp"

namespace wreath {

enum class MemoryKind : std::uint8_t {
  // The memory is the host's, and no device knows it.
  Host,
  // The memory is the host's, and devices reach it.
  Pinned,
  // The memory moves between the host and devices. Both reach it.
  Managed,
  Device,
};

// The owner of the memory at an address. `begin` and `bytes` give the whole allocation for all kinds but Host.
struct PointerFacts {
  MemoryKind kind = MemoryKind::Host;
  Device* device = nullptr;  // null for Host
  const std::byte* begin = nullptr;
  std::size_t bytes = 0;
  // The number of a Device allocation. No other allocation of this process has it or will have it.
  std::uint64_t allocation = 0;
};

// The name of a device's allocation in other processes. It is sent there with the descriptor, where there is one.
struct MemoryExport {
  // The descriptor is empty where `handle` alone names the allocation.
  Fd descriptor;
  std::array<std::byte, 64> handle = {};  // meaningless with a descriptor
  std::size_t bytes = 0;                  // of the whole allocation
  std::size_t offset = 0;                 // offset of the exported address in it
};

// A range of whole pages of the host's memory. This process maps them while `owner` lives.
struct HostPages {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  bool writable = false;
  std::shared_ptr<const void> owner;
};

class LibraryDevice : public Device, public DmaBufDevice {
 public:
  // Exports the allocation that `data` is in. Returns InvalidArgument for memory that is not this device's or cannot be
  // exported. The export is valid until the allocation is freed. Importers may keep memory that has a descriptor for
  // longer.
  virtual Result<MemoryExport> export_memory(const void* data) = 0;
  // Returns whether an allocation made as Exportable begins at `begin`. This device knows when such an allocation ends.
  virtual bool is_exportable(const void* begin) const = 0;
  // Maps the whole allocation for reading, and unmaps it when the result is destroyed. Returns Mismatch where the
  // memory differs from `exported`. A handle without a descriptor is InvalidArgument in the process that exported it,
  // which has the memory already.
  virtual Result<DeviceMemory> import_memory(const MemoryExport& exported) = 0;
  // Returns the device's identity, by which peers know it.
  virtual EndpointDevice identity() const = 0;
  // Returns success where this device's kernels can use memory of the device `other` on this host. Otherwise
  // Unavailable says why not. Returns success for a device that this process does not see: only an import shows whether
  // it works.
  virtual Status reaches(const EndpointDevice& other) const = 0;
  // Lets the kernels of `reader`, a device of this process, use this device's allocation that `data` is in.
  virtual Status let_use(const void* data, LibraryDevice& reader) = 0;
  // Returns the address by which kernels of this device reach its memory at `data`.
  virtual std::byte* address_in_kernels(const std::byte* data) const = 0;
  // Lets kernels of this device use the pages at their own addresses while the returned object lives. Returns
  // Unavailable where the device cannot.
  virtual Result<std::shared_ptr<const void>> let_in(const HostPages& pages) = 0;
  // Makes a stream for the library's own work. The program's streams may wait for it, so it does not stand behind them.
  virtual Result<std::unique_ptr<Stream>> make_urgent_stream() = 0;
  // Returns an object that lives while kernels wait for other ranks. Meanwhile the device defers calls that wait for
  // all of its work, such as those that free its memory. Returns null where no call of the device waits like that.
  virtual std::shared_ptr<const void> hold_frees() = 0;
  // Copies `source` to `target`, between memory of the host and memory by its address in kernels. That memory may be a
  // peer's. The copy is done on return.
  virtual Status copy_in_kernels(void* target, const void* source, std::size_t bytes) = 0;
  // Returns whether kernels of several processes run at once. Otherwise the processes take turns, and a kernel that
  // waits for another process's kernel keeps that one waiting.
  virtual bool runs_processes_at_once() const = 0;
  // Returns how many blocks of `threads` threads can run at once. A grid whose blocks wait for each other has no more.
  virtual Result<int> resident_blocks(const Kernel& kernel, int threads) = 0;
  // Adds the kernel to `stream`, which is this device's, and copies the arguments. Returns Unavailable where the build
  // has no code of the kernel for this device.
  virtual Status launch(Stream& stream, const Kernel& kernel, const Grid& grid) = 0;
  // Does the same as wreath::add_cuda_work. Returns InvalidArgument for a device that is not CUDA's.
  virtual Status add_cuda_work(Stream& stream, const std::function<Status(void* cuda_stream)>& add) = 0;
};

// Returns the number by which slots of FIFOs name the device within this process.
inline std::uint64_t number_of(const LibraryDevice& device) { return reinterpret_cast<std::uintptr_t>(&device); }

// Returns the owner of the memory, among all devices that this process has used. Any thread may call it.
PointerFacts facts_of(const void* data);

}  // namespace wreath
