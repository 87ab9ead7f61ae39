// Implements the host device: its memory, its copies, its streams and its kernels.
#include <fmt/format.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <system_error>
#include <thread>
#include <vector>

#include "src/base/release_watcher.hpp"
#include "src/base/signals.hpp"
#include "src/device/check_copy.hpp"
#include "src/device/device_memory.hpp"
#include "src/device/host_stream.hpp"
#include "src/device/library_device.hpp"
#include "src/device/memory_in_use.hpp"
#include "wreath/kernel.hpp"

namespace wreath {
namespace {

// The most threads that a grid may have, because all of them run at once.
constexpr int kMostThreads = 1024;

// Runs all threads of a grid, and returns when they have ended.
Status run_grid(const Kernel& kernel, const Grid& grid, const std::byte* arguments) {
  std::vector<std::unique_ptr<HostBlockShared>> blocks;
  std::vector<std::thread> threads;
  for (int block = 0; block < grid.blocks; ++block) {
    blocks.push_back(std::make_unique<HostBlockShared>(grid.threads));
  }
  const auto run = [&](int block, int thread) {
    HostBlock place(*blocks[static_cast<std::size_t>(block)], static_cast<unsigned>(block),
                    static_cast<unsigned>(thread), static_cast<unsigned>(grid.threads));
    kernel.host(place, arguments);
  };
  // A thread that waits for another one which cannot be started would wait for ever. So all threads begin together.
  std::atomic<int> go{0};
  const MemoryInUse in_use;
  const auto begin = [&](int block, int thread) {
    go.wait(0);
    if (go.load() > 0) run(block, thread);
  };
  Status started;
  try {
    const BlockedSignals blocked;
    for (int i = 0; i < grid.blocks * grid.threads; ++i) {
      threads.emplace_back(begin, i / grid.threads, i % grid.threads);
    }
  } catch (const std::system_error& refused) {
    started = Error{ErrorCode::System, fmt::format("host device: cannot start a kernel's thread: {}", refused.what())};
  }
  go = started ? 1 : -1;
  go.notify_all();
  for (std::thread& thread : threads) thread.join();
  return started;
}

class HostDevice final : public LibraryDevice {
 public:
  std::string_view name() const override { return "host"; }

  Result<std::unique_ptr<Stream>> make_stream() override {
    try {
      return std::unique_ptr<Stream>(std::make_unique<HostStream>(*this));
    } catch (const std::system_error& refused) {
      return Error{ErrorCode::System, fmt::format("host device: cannot start a stream's thread: {}", refused.what())};
    }
  }
  Result<std::unique_ptr<Event>> make_event(EventUse use) override {
    return std::unique_ptr<Event>(std::make_unique<HostEvent>(use));
  }

  Status copy(void* target, const void* source, std::size_t bytes) override {
    if (bytes == 0) return {};
    WREATH_TRY(check_copy(*this, target, source, bytes));
    std::memmove(reachable(target, bytes), reachable(source, bytes), bytes);
    return {};
  }

  Result<MemoryExport> export_memory(const void* data) override { return export_device_memory(data); }
  bool is_exportable(const void* begin) const override { return is_exportable_memory(begin); }
  Result<DeviceMemory> import_memory(const MemoryExport& exported) override {
    if (!exported.descriptor) {
      return Error{ErrorCode::InvalidArgument, "host device: memory without a descriptor was to be imported"};
    }
    const auto data = map_exported_memory(exported.descriptor, exported.bytes);
    if (!data) return data.error();
    return DeviceMemory(*this, *data, exported.bytes);
  }

  EndpointDevice identity() const override { return {EndpointDevice::Kind::Host}; }
  Status reaches(const EndpointDevice& other) const override {
    if (other == identity()) return {};
    return Error{ErrorCode::Unavailable, "the host device reaches no GPU"};
  }
  Status let_use(const void*, LibraryDevice& reader) override { return reader.reaches(identity()); }
  std::byte* address_in_kernels(const std::byte* data) const override { return reachable(data, 1); }
  Result<std::shared_ptr<const void>> let_in(const HostPages&) override {
    // Kernels of the host device run in this process, which has mapped the pages.
    return std::shared_ptr<const void>();
  }
  Result<std::unique_ptr<Stream>> make_urgent_stream() override { return make_stream(); }
  std::shared_ptr<const void> hold_frees() override { return nullptr; }
  Status copy_in_kernels(void* target, const void* source, std::size_t bytes) override {
    const MemoryInUse in_use;
    if (!is_in_kernels(target, bytes) && !is_in_kernels(source, bytes)) {
      return Error{ErrorCode::InvalidArgument,
                   fmt::format("host device: neither {} nor {} is in its memory", target, source)};
    }
    return std::memcpy(target, source, bytes), Status();
  }

  Result<DmaBuf> dma_buf(const std::byte* begin) override {
    auto exported = export_device_memory(begin);
    if (!exported) return exported.error();
    return DmaBuf{std::move(exported->descriptor), 0, exported->bytes};
  }
  Status flush_adapter_writes() override { return {}; }

  bool runs_processes_at_once() const override { return true; }
  Result<int> resident_blocks(const Kernel&, int threads) override {
    if (threads < 1) return Error{ErrorCode::InvalidArgument, fmt::format("host device: threads = {}", threads)};
    return kMostThreads / threads;
  }
  Status add_cuda_work(Stream&, const std::function<Status(void* cuda_stream)>&) override {
    return Error{ErrorCode::InvalidArgument, "host: its streams take no work of CUDA's"};
  }
  Status launch(Stream& stream, const Kernel& kernel, const Grid& grid) override {
    if (&stream.device() != this) {
      return Error{ErrorCode::InvalidArgument,
                   fmt::format("host: a kernel was put into a stream of {}", stream.device().name())};
    }
    const auto* first = static_cast<const std::byte*>(grid.arguments);
    // Copies the arguments as a device holds them: in memory of its own, aligned for any type.
    auto arguments = std::make_shared<std::vector<std::max_align_t>>(grid.bytes / sizeof(std::max_align_t) + 1);
    std::memcpy(arguments->data(), first, grid.bytes);
    auto& own = static_cast<HostStream&>(stream);
    const auto run = [kernel, grid, arguments] {
      return run_grid(kernel, grid, reinterpret_cast<const std::byte*>(arguments->data()));
    };
    if (own.capturing()) return own.capture(same_work(run, SameWorkOf::Kernel));
    WREATH_TRY(own.failure());
    // A launched kernel runs even after a failure, as on a GPU, because other ranks' blocks may wait for it.
    own.give({run, true});
    return {};
  }

 private:
  Result<DeviceMemory> make(std::size_t bytes, MemoryUse use) override {
    if (bytes == 0) return Error{ErrorCode::InvalidArgument, "host device: bytes = 0"};
    const auto data = map_device_memory(bytes, use);
    if (!data) return data.error();
    return DeviceMemory(*this, *data, bytes);
  }
  void release(std::byte* data, std::size_t) override {
    tell_release(data);
    unmap_device_memory(data);
  }
};

}  // namespace

Device& host_device() {
  static HostDevice* const device = new HostDevice;  // NOLINT(cppcoreguidelines-*): lives as long as the process
  return *device;
}

}  // namespace wreath
