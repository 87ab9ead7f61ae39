// GridRun gives addresses and names of a device's memory to lanes, and returns the errors of grids.
#include "src/device/runs/grid_run.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "src/base/log.hpp"
#include "src/device/call_memory.hpp"
#include "src/device/runs/operation_buffers.hpp"
#include "src/engine/engine.hpp"

namespace wreath {
namespace {

constexpr std::int64_t kSleepNs = 1'000'000;
constexpr std::int64_t kSleepBesideWiresNs = 50'000;

}  // namespace

void GridRun::set(Operation& operation, LibraryDevice& device, LaneGrid& grid) {
  LanesRun::set(operation);
  device_ = &device;
  grid_ = &grid;
  error_.reset();
}

Advance GridRun::advance() {
  const auto advanced = grid_->run();
  if (!advanced) {
    error_ = advanced.error();
    return Advance::Failed;
  }
  if (*advanced != Advance::Blocked) engine().doorbells().ring();
  return *advanced;
}

RunFault GridRun::fault() const {
  if (!error_) return LanesRun::fault();
  RunFault fault{*error_, false};
  if (fault.error.failed_rank < 0) fault.error.failed_rank = engine().rank();
  return fault;
}

std::optional<std::int64_t> GridRun::longest_sleep_ns() const {
  return engine().links().wired().empty() ? kSleepNs : kSleepBesideWiresNs;
}

HandwrittenLoop GridRun::loop() const { return loop_of(engine(), operation()); }

const ExchangeMessages& GridRun::placed() {
  placed_ = operation().messages;
  for (std::vector<ExchangeMessage>* messages : {&placed_.sends, &placed_.receives}) {
    for (ExchangeMessage& message : *messages) {
      if (message.count > 0) message.data = device_->address_in_kernels(message.data);
    }
  }
  return placed_;
}

// Names a buffer for peers. Peers of this process know it by the number of its allocation; peers of other processes
// know it as a region. A sender of messages alone does not wait for their readers, so its messages have no name.
void GridRun::name_memory(Launch& launch, Buffer buffer, std::span<const std::byte> memory) const {
  const auto index = static_cast<std::size_t>(buffer);
  if (memory.size() < kDeviceReferenceBytes || (operation().exchanges() && launch.sends_only)) return;
  const PointerFacts facts = facts_of(memory.data());
  const bool one = memory.data() + memory.size() <= facts.begin + facts.bytes;
  launch.state.allocation[index] = one ? facts.allocation : 0;
  OwnSegment& segment = engine().links().segment();
  if (!segment.tells_of_device()) return;
  if (const auto region = segment.name_device_memory(memory.data(), memory.size())) {
    launch.state.region[index] = region->index;
    launch.state.region_offset[index] = region->offset;
  } else if (!std::exchange(told_staged_, true)) {
    log_info(
        "some memory of {} is staged for other processes: it is not MemoryUse::Exportable, or not one allocation, "
        "or too many were named before",
        facts.device == nullptr ? "a device" : facts.device->name());
  }
}

std::size_t GridRun::single_copy_bytes(SingleCopyCall call) const {
  call.by_blocks = true;
  return LanesRun::single_copy_bytes(call);
}

// Returns the allocations of the buffers, where adapters may reach all of them.
std::vector<DeviceRange> GridRun::ranges() const {
  std::vector<DeviceRange> all;
  if (engine().links().wired().empty()) return all;
  std::string staged;
  for_each_buffer(operation(), engine().rank(), [&](const std::byte* data) {
    const auto holds = [data](const DeviceRange& each) { return data >= each.begin && data < each.begin + each.bytes; };
    if (!staged.empty() || std::ranges::any_of(all, holds)) return;
    const auto range = range_of(data);
    if (range) return all.push_back(*range);
    staged = range.error().message;
  });
  if (staged.empty()) return all;
  if (!std::exchange(told_unreached_, true)) {
    log_info("messages in memory of {} are staged for adapters: {}", device_->name(), staged);
  }
  return {};
}

Status GridRun::begin(Launch& launch) {
  if (!operation().exchanges()) {
    for (const Buffer buffer : {Buffer::Input, Buffer::Output}) {
      std::byte*& data = launch.state.buffers[static_cast<int>(buffer)];
      if (data != nullptr) data = device_->address_in_kernels(data);
    }
  }
  LaneScheduler& lanes = resources().lanes;
  lanes.start(*launch.plan, launch.state, HostProcessor{launch.arithmetic, copy_kernels()});
  return grid_->start(lanes, launch, ranges());
}

}  // namespace wreath
