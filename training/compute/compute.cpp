// This file gives out memory in blocks that are used again, copies, and launches kernels.
#include "training/compute/compute.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <exception>
#include <shared_mutex>
#include <string>

#include "training/compute/cublaslt.hpp"
#include "training/compute/kernels/kernels.hpp"

namespace wreath::training {

namespace {

constexpr std::size_t kDeviceAlignment = 512;
// Blocks up to this size share regions.
constexpr std::size_t kSmall = std::size_t{1} << 20;
constexpr std::size_t kRegionBytes = std::size_t{8} << 20;
constexpr std::size_t kSegmentBytes = std::size_t{4} << 20;
constexpr std::size_t kSegments = 2;
constexpr std::uint32_t kMostBlocks = 2048;

// ---- owners of memory ----

struct Owners {
  struct Owned {
    const std::byte* end;
    Compute* by;
  };
  std::shared_mutex mutex;
  std::map<const std::byte*, Owned> regions;
};
Owners& owners() {
  static Owners* const all = new Owners;  // NOLINT(cppcoreguidelines-*): lives as long as the process
  return *all;
}
constinit std::atomic<int> computes{0};

// Rounds up to eighths of a power of two, so that at most an eighth is lost.
std::size_t block_size(std::size_t bytes) {
  const std::size_t step = std::max(kDeviceAlignment, std::bit_floor(std::max<std::size_t>(bytes, 1)) / 8);
  return (std::max<std::size_t>(bytes, 1) + step - 1) / step * step;
}

}  // namespace

Compute* compute_of(const void* data) noexcept {
  if (computes.load(std::memory_order_relaxed) == 0 || data == nullptr) return nullptr;
  const auto* const at = static_cast<const std::byte*>(data);
  const std::shared_lock lock(owners().mutex);
  auto after = owners().regions.upper_bound(at);
  if (after == owners().regions.begin()) return nullptr;
  const Owners::Owned& owned = std::prev(after)->second;
  return at < owned.end ? owned.by : nullptr;
}

Result<std::unique_ptr<Compute>> Compute::create(Device& device, const ComputeOptions& options) {
  const Result<int> runs = resident_blocks(device, kernel_of<FillRun>(), kKernelThreads);
  if (!runs) return runs.error();
  if (options.host_blocks < 1 || options.host_threads < 1 || options.host_threads > kKernelThreads) {
    return Error{ErrorCode::InvalidArgument, "a Compute's grids on the host device must have 1 block or more of 1 to " +
                                                 std::to_string(kKernelThreads) + " threads"};
  }
  Result<std::unique_ptr<Stream>> stream = device.make_stream();
  if (!stream) return stream.error();
  std::unique_ptr<Compute> compute(new Compute(device, options, std::move(*stream)));
  if (compute->is_host_ || !options.cublaslt) return compute;
  Result<std::unique_ptr<Cublaslt>> library = Cublaslt::create(*compute);
  if (library) {
    compute->cublaslt_ = std::move(*library);
  } else {
    compute->no_cublaslt_ = library.error().message;
  }
  return compute;
}

Compute::Compute(Device& device, const ComputeOptions& options, std::unique_ptr<Stream> stream)
    : device_(device), options_(options), is_host_(&device == &host_device()), stream_(std::move(stream)) {
  same_addresses_ = !is_host_;
  ++computes;
}

Compute::~Compute() {
  static_cast<void>(stream_->synchronize());
  cublaslt_.reset();
  {
    const std::unique_lock lock(owners().mutex);
    for (const auto& [begin, region] : regions_) owners().regions.erase(begin);
  }
  --computes;
}

std::string Compute::description() const {
  std::string text(device_.name());
  text += ", products by " + (cublaslt_ ? cublaslt_->name() : "the own kernel");
  return no_cublaslt_.empty() ? text : text + " (no cuBLASLt: " + no_cublaslt_ + ")";
}

// ---- memory ----

std::ptrdiff_t Compute::shift(const void* data) const noexcept {
  return std::prev(regions_.upper_bound(static_cast<const std::byte*>(data)))->second.shift;
}

std::byte* Compute::add_region(std::size_t bytes) {
  Result<DeviceMemory> memory = device_.allocate(bytes);
  if (!memory) return nullptr;
  std::byte* const begin = memory->data();
  const std::ptrdiff_t shift = same_addresses_ ? 0 : address_in_kernels(device_, begin) - begin;
  regions_.emplace(begin, Region{std::move(*memory), shift});
  const std::unique_lock lock(owners().mutex);
  owners().regions.emplace(begin, Owners::Owned{begin + bytes, this});
  return begin;
}

void* Compute::carve(std::size_t bytes) {
  if (bytes > kSmall) return add_region(bytes);
  if (open_bytes_ < bytes) {
    open_ = add_region(kRegionBytes);
    open_bytes_ = open_ == nullptr ? 0 : kRegionBytes;
    if (open_ == nullptr) return nullptr;
  }
  void* const block = open_;
  open_ += bytes;
  open_bytes_ -= bytes;
  return block;
}

void* Compute::allocate(std::size_t bytes) {
  const std::size_t size = block_size(bytes);
  std::vector<std::byte*>& free = free_[size];
  void* block = nullptr;
  if (!free.empty()) {
    block = free.back();
    free.pop_back();
  } else {
    block = carve(size);
    if (block == nullptr && drop_unused()) block = carve(size);
  }
  if (block != nullptr) sizes_.emplace(block, size);
  return block;
}

void Compute::free(void* data) noexcept {
  const auto found = sizes_.find(data);
  // The block is not of this Compute, or it was freed before.
  if (found == sizes_.end()) std::terminate();
  free_[found->second].push_back(static_cast<std::byte*>(data));
  sizes_.erase(found);
}

// Gives large blocks that nobody uses back to the device. Returns whether there were any.
bool Compute::drop_unused() {
  synchronize();
  bool dropped = false;
  for (auto& [size, blocks] : free_) {
    if (size <= kSmall) continue;
    for (std::byte* const block : blocks) {
      {
        const std::unique_lock lock(owners().mutex);
        owners().regions.erase(block);
      }
      regions_.erase(block);
      dropped = true;
    }
    blocks.clear();
  }
  return dropped;
}

// ---- work ----

std::uint32_t Compute::blocks_for(std::uint64_t blocks) const noexcept {
  const std::uint64_t most = is_host_ ? static_cast<std::uint64_t>(options_.host_blocks) : kMostBlocks;
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(blocks, 1, most));
}

void Compute::launch(const Kernel& kernel, std::uint32_t blocks, const void* run, std::size_t bytes) {
  const int threads = is_host_ ? options_.host_threads : kKernelThreads;
  wreath::launch(*stream_, kernel, {static_cast<int>(blocks), threads, run, bytes}).value();
}

void Compute::zero(void* data, std::size_t bytes) {
  const std::uint64_t count = (bytes + sizeof(float) - 1) / sizeof(float);
  if (count > 0) launch_elements(FillRun{at(static_cast<float*>(data)), count, 0.0f}, count);
}

std::byte* Compute::stage(const void* source, std::size_t bytes) {
  while (segments_.size() < kSegments) {
    segments_.push_back({device_.allocate(kSegmentBytes, MemoryUse::Pinned).value(), device_.make_event().value()});
  }
  if (kSegmentBytes - segments_[segment_].used < bytes) {
    stream_->record(*segments_[segment_].read).value();
    segment_ = (segment_ + 1) % kSegments;
    segments_[segment_].read->synchronize().value();
    segments_[segment_].used = 0;
  }
  Segment& segment = segments_[segment_];
  std::byte* const place = segment.memory.data() + segment.used;
  std::memcpy(place, source, bytes);
  segment.used += bytes;
  return place;
}

void Compute::copy(void* target, const void* source, std::size_t bytes) {
  const bool from_host = compute_of(source) != this;
  const bool to_host = compute_of(target) != this;
  if (!from_host && !to_host) return stream_->copy(target, source, bytes).value();
  if (to_host) {
    synchronize();
    return device_.copy(target, source, bytes).value();
  }
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t part = std::min(kSegmentBytes, bytes - done);
    const std::byte* const staged = stage(static_cast<const std::byte*>(source) + done, part);
    stream_->copy(static_cast<std::byte*>(target) + done, staged, part).value();
    done += part;
  }
}

void Compute::synchronize() { stream_->synchronize().value(); }

std::unique_ptr<Event> Compute::record() {
  std::unique_ptr<Event> event;
  if (events_.empty()) {
    event = device_.make_event().value();
  } else {
    event = std::move(events_.back());
    events_.pop_back();
  }
  stream_->record(*event).value();
  return event;
}

// ---- copies and fills in any memory ----

void detail::copy_bytes(void* target, const void* source, std::size_t bytes) {
  if (bytes == 0 || target == source) return;
  Compute* on = compute_of(target);
  if (on == nullptr) on = compute_of(source);
  if (on != nullptr) return on->copy(target, source, bytes);
  std::memmove(target, source, bytes);
}

void fill(std::span<float> values, float value) {
  if (Compute* const on = compute_of(values)) {
    return on->launch_elements(FillRun{on->at(values), values.size(), value}, values.size());
  }
  std::fill(values.begin(), values.end(), value);
}

void copy_rows(StridedRows<const float> source, StridedRows<float> target, std::int64_t rows, std::int64_t width) {
  if (rows == 0 || width == 0) return;
  if (Compute* const on = compute_of(target.data)) {
    const auto count = static_cast<std::uint64_t>(rows * width);
    return on->launch_elements(
        CopyRowsRun{on->at(source.data), on->at(target.data), source.stride, target.stride, rows, width}, count);
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    std::copy_n(source.data + row * source.stride, width, target.data + row * target.stride);
  }
}

}  // namespace wreath::training
