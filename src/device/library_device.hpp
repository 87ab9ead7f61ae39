// What the library does with a device beyond what programs do: memory that several processes map, whose memory an
// address is, and kernels.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "src/base/fd.hpp"
#include "wreath/device.hpp"
#include "wreath/endpoint.hpp"
#include "wreath/kernel.hpp"

namespace wreath {

enum class MemoryKind : std::uint8_t {
  Host,     // the host's, and no device knows it
  Pinned,   // the host's, and devices reach it
  Managed,  // moves between the host and devices; both reach it
  Device,
};

// Whose memory an address is. `begin` and `bytes`: the whole allocation, of all but Host.
struct PointerFacts {
  MemoryKind kind = MemoryKind::Host;
  Device* device = nullptr;  // null: Host
  const std::byte* begin = nullptr;
  std::size_t bytes = 0;
  std::uint64_t allocation = 0;  // of Device memory: a number that no other allocation of this process has or will have
};

// How another process names an allocation of a device: it is sent there with the descriptor, where there is one.
struct MemoryExport {
  Fd descriptor;                          // none: `handle` says it all
  std::array<std::byte, 64> handle = {};  // meaningless beside a descriptor
  std::size_t bytes = 0;                  // of the whole allocation
  std::size_t offset = 0;                 // of the exported address in it
};

// Memory of a device as a network adapter registers it: [offset, offset + bytes) of a dma-buf.
struct DmaBuf {
  Fd descriptor;
  std::uint64_t offset = 0;
  std::size_t bytes = 0;
};

// Whole pages of the host's memory, mapped by this process while `owner` lives.
struct HostPages {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  bool writable = false;
  std::shared_ptr<const void> owner;
};

class LibraryDevice : public Device {
 public:
  // The allocation that `data` is in. InvalidArgument for memory that is not this device's or cannot be exported.
  // Valid until the allocation is freed; importers may keep it longer where it has a descriptor.
  virtual Result<MemoryExport> export_memory(const void* data) = 0;
  // Whether `begin` is where an allocation made as Exportable begins: one whose end this device knows.
  virtual bool is_exportable(const void* begin) const = 0;
  // Maps the whole allocation, to be read; unmapped when destroyed. Mismatch where the memory is not what it is said to
  // be. Of a handle without a descriptor InvalidArgument in the process
  // that exported it: the memory is there already.
  virtual Result<DeviceMemory> import_memory(const MemoryExport& exported) = 0;
  // Which device it is, for peers.
  virtual EndpointDevice identity() const = 0;
  // Whether its kernels can use memory of the device `other` on this host. Unavailable says why not. Of a device that
  // this process does not see nobody knows before its memory is imported: success.
  virtual Status reaches(const EndpointDevice& other) const = 0;
  // Lets the kernels of `reader`, a device of this process, use this device's allocation that `data` is in.
  virtual Status let_use(const void* data, LibraryDevice& reader) = 0;
  // The address by which kernels of this device reach its memory at `data`.
  virtual std::byte* address_in_kernels(const std::byte* data) const = 0;
  // Lets kernels of this device use them at their own addresses while what it returns lives. Unavailable where the
  // device cannot.
  virtual Result<std::shared_ptr<const void>> let_in(const HostPages& pages) = 0;
  // A stream for the library's own work, which streams of the program may wait for: it stands behind none of theirs.
  virtual Result<std::unique_ptr<Stream>> make_urgent_stream() = 0;
  // While it lives, kernels wait for other ranks: what would wait for them in turn, and for all else that the device
  // does, is put off (freeing its memory is). Null where nothing does.
  virtual std::shared_ptr<const void> hold_frees() = 0;
  // target = source between memory of the host and memory by its address in kernels, which may be a peer's. Done on
  // return.
  virtual Status copy_in_kernels(void* target, const void* source, std::size_t bytes) = 0;
  // Of the allocation that begins at `begin`. Unavailable where the device has none.
  virtual Result<DmaBuf> dma_buf(const std::byte* begin) = 0;
  // What network adapters have written to this device's memory is seen by its kernels and copies that begin, or look,
  // afterwards. Nothing where the hardware orders such writes.
  virtual Status flush_adapter_writes() = 0;
  // Whether kernels of several processes run at once. Else they take turns, and one that waits for another's keeps it
  // waiting.
  virtual bool runs_processes_at_once() const = 0;
  // How many blocks of `threads` threads can run at once; a grid whose blocks wait for each other has no more.
  virtual Result<int> resident_blocks(const Kernel& kernel, int threads) = 0;
  // Adds it to `stream`, which is this device's. `arguments` is copied. Unavailable where the build has no code of the
  // kernel for this device.
  virtual Status launch(Stream& stream, const Kernel& kernel, const Grid& grid) = 0;
  // As wreath::add_cuda_work. InvalidArgument of a device that is none of CUDA's.
  virtual Status add_cuda_work(Stream& stream, const std::function<Status(void* cuda_stream)>& add) = 0;
};

// How slots of FIFOs name it within this process.
inline std::uint64_t number_of(const LibraryDevice& device) { return reinterpret_cast<std::uintptr_t>(&device); }

// Is told before an allocation of any device is freed, by the thread that frees it, which holds no lock of the device.
class ReleaseWatcher {
 public:
  virtual ~ReleaseWatcher() = default;
  virtual void before_release(const std::byte* begin) = 0;
};
void add_release_watcher(ReleaseWatcher& watcher);
void remove_release_watcher(ReleaseWatcher& watcher);
// By devices.
void tell_release(const std::byte* begin);

// Whose memory it is, of all devices that this process has used. Any thread.
PointerFacts facts_of(const void* data);

}  // namespace wreath
