// A CUDA device gets memory through the driver, and makes streams and events of its own.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "src/device/cuda/context.hpp"
#include "src/device/library_device.hpp"

namespace wreath {

class CudaDevice final : public LibraryDevice {
 public:
  // Takes the primary context of CUDA's device `number`, which exists. Returns Unavailable where the device does not
  // start.
  static Result<std::unique_ptr<CudaDevice>> open(const CudaDriver& driver, int number);
  ~CudaDevice() override;

  std::string_view name() const override { return context_.name; }
  Result<std::unique_ptr<Stream>> make_stream() override;
  Result<std::unique_ptr<Stream>> use_stream(CudaHandle handle);
  using Device::make_event;
  Result<std::unique_ptr<Event>> make_event(EventUse use) override;
  Status copy(void* target, const void* source, std::size_t bytes) override;
  Result<MemoryExport> export_memory(const void* data) override;
  bool is_exportable(const void* begin) const override;
  Result<DeviceMemory> import_memory(const MemoryExport& exported) override;
  EndpointDevice identity() const override { return identity_; }
  Status reaches(const EndpointDevice& other) const override;
  Status let_use(const void* data, LibraryDevice& reader) override;
  std::byte* address_in_kernels(const std::byte* data) const override { return const_cast<std::byte*>(data); }
  Result<std::shared_ptr<const void>> let_in(const HostPages& pages) override;
  Result<std::unique_ptr<Stream>> make_urgent_stream() override;
  std::shared_ptr<const void> hold_frees() override;
  Result<DmaBuf> dma_buf(const std::byte* begin) override;
  Status flush_adapter_writes() override;
  Status copy_in_kernels(void* target, const void* source, std::size_t bytes) override;
  bool runs_processes_at_once() const override { return has(kCudaMpsEnabled); }
  Result<int> resident_blocks(const Kernel& kernel, int threads) override;
  Status launch(Stream& stream, const Kernel& kernel, const Grid& grid) override;
  Status add_cuda_work(Stream& stream, const std::function<Status(void* cuda_stream)>& add) override;

 private:
  enum class Origin : std::uint8_t { Allocated, Pinned, Mapped, ImportedHandle };
  struct Entry {
    Origin origin;
    // The size of the memory. For Mapped memory it is the number of reserved bytes.
    std::size_t bytes;
    bool exportable = false;
  };

  explicit CudaDevice(CudaContext context)
      : context_(std::move(context)), words_(std::make_unique<PinnedWords>(context_)) {
    context_.words = words_.get();
  }
  Status identify();
  std::string way_to(int device) const;
  Result<DeviceMemory> make(std::size_t bytes, MemoryUse use) override;
  void release(std::byte* data, std::size_t bytes) override;

  Result<CudaAddress> make_plain(std::size_t bytes);
  Result<CudaAddress> make_pinned(std::size_t bytes);
  Result<CudaAddress> make_mapped(std::size_t bytes, std::size_t& reserved);
  // Maps `allocation` of `bytes` bytes and gives up its handle, also where it fails.
  Result<CudaAddress> map(CudaAllocation allocation, std::size_t bytes);
  DeviceMemory keep(CudaAddress address, std::size_t bytes, Entry entry);
  // Returns the address that keep() is given. Tries once again where deferred releases have freed memory meanwhile.
  Result<CudaAddress> make_address(std::size_t bytes, MemoryUse use, Entry& entry);
  // Frees the memory once no stream waits.
  void free(CudaAddress address, const Entry& entry);
  Error refused_image(CudaResult result, const Error& error) const;
  bool has(int attribute) const;
  // Returns 0 where the driver does not know the attribute.
  int value_of(int attribute) const;
  Error refused(const Error& error, std::size_t bytes) const;
  // Runs `work` in the stream `copies_`, and returns when it is done.
  Status at_once(std::string_view call, const std::function<CudaResult()>& work);
  Result<CudaHandle> function_of(const Kernel& kernel);

  CudaContext context_;
  std::unique_ptr<PinnedWords> words_;
  EndpointDevice identity_;
  CudaHandle copies_ = nullptr;  // the stream of copy()
  mutable std::mutex mutex_;
  std::map<CudaAddress, Entry> memory_;
  std::map<const void*, CudaHandle> modules_;    // by image
  std::map<const char*, CudaHandle> functions_;  // by the kernel's name
};

// The driver's facts about an address. CudaPlatform finds the device by `number`, which is CUDA's.
struct CudaPointer {
  MemoryKind kind = MemoryKind::Host;
  int number = -1;
  const std::byte* begin = nullptr;
  std::size_t bytes = 0;
  std::uint64_t allocation = 0;
};
CudaPointer ask_pointer(const CudaDriver& driver, const void* data);

}  // namespace wreath
