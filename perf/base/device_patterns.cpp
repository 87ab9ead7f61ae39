// Launches the kernels of sequence.hpp in grids.
#include "perf/base/device_patterns.hpp"

#include <algorithm>
#include <numeric>

#include "perf/base/kernels.hpp"
#include "perf/base/sequence.hpp"

namespace wreath::perf {
namespace {

constexpr std::size_t kMostPeriodBytes = kPeriod * sizeof(std::uint64_t);
constexpr int kGpuBlocks = 1024;
constexpr int kHostThreads = 2;  // of a block of the host device
constexpr int kHostBlocks = 2;

// Returns as many blocks as have words to do, but at most `most`.
int blocks_for(std::size_t bytes, int threads, int most) {
  const std::size_t of_block = static_cast<std::size_t>(threads) * Words::kBytes;
  return static_cast<int>(std::clamp(bytes / of_block, std::size_t{1}, static_cast<std::size_t>(most)));
}

}  // namespace

Result<std::unique_ptr<DevicePatterns>> DevicePatterns::make(Stream& stream) {
  Device& device = stream.device();
  std::unique_ptr<DevicePatterns> made(new DevicePatterns(stream));
  const bool on_host = &device == &host_device();
  made->threads_ = on_host ? kHostThreads : static_cast<int>(kSequenceThreads);
  made->most_blocks_ = on_host ? kHostBlocks : kGpuBlocks;
  // Loads the kernels before another kernel waits.
  for (const Kernel* kernel : {&fill_kernel(), &count_kernel()}) {
    const auto blocks = resident_blocks(device, *kernel, made->threads_);
    if (!blocks) return blocks.error();
  }
  auto period = device.allocate(kMostPeriodBytes);
  if (!period) return period.error();
  made->period_ = *std::move(period);
  auto wrong = device.allocate(static_cast<std::size_t>(made->most_blocks_) * sizeof(std::uint64_t), MemoryUse::Pinned);
  if (!wrong) return wrong.error();
  made->wrong_ = *std::move(wrong);
  return made;
}

Status DevicePatterns::load(const Pattern& pattern) {
  return stream_.copy(period_.data(), pattern.period().data(), pattern.period().size());
}

Status DevicePatterns::fill(std::span<std::byte> target, const Pattern& pattern, std::size_t first) {
  if (target.empty()) return {};
  WREATH_TRY(load(pattern));
  Device& device = stream_.device();
  const int blocks = blocks_for(target.size(), threads_, most_blocks_);
  const FillRun run{
      {address_in_kernels(device, period_.data()), pattern.period().size(), first * pattern.element_bytes()},
      address_in_kernels(device, target.data()),
      target.size(),
      static_cast<std::uint32_t>(blocks)};
  WREATH_TRY(launch(stream_, fill_kernel(), {blocks, threads_, &run, sizeof run}));
  return stream_.synchronize();
}

Result<std::uint64_t> DevicePatterns::count_wrong(std::span<const std::byte> data, const Pattern& pattern,
                                                  std::size_t first) {
  if (data.empty()) return std::uint64_t{0};
  WREATH_TRY(load(pattern));
  Device& device = stream_.device();
  const int blocks = blocks_for(data.size(), threads_, most_blocks_);
  auto* const wrong = reinterpret_cast<std::uint64_t*>(wrong_.data());
  const CountRun run{
      {address_in_kernels(device, period_.data()), pattern.period().size(), first * pattern.element_bytes()},
      address_in_kernels(device, data.data()),
      data.size(),
      wrong,
      static_cast<std::uint32_t>(pattern.element_bytes()),
      static_cast<std::uint32_t>(blocks)};
  WREATH_TRY(launch(stream_, count_kernel(), {blocks, threads_, &run, sizeof run}));
  WREATH_TRY(stream_.synchronize());
  return std::accumulate(wrong, wrong + blocks, std::uint64_t{0});
}

}  // namespace wreath::perf
