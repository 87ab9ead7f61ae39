// DeviceRuns chooses the run that takes an operation on memory of a device.
#include "src/device/runs/device_runs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "src/base/log.hpp"
#include "src/device/call_memory.hpp"
#include "src/device/runs/low_latency.hpp"
#include "src/device/runs/operation_buffers.hpp"
#include "src/engine/call_shape.hpp"
#include "src/engine/engine.hpp"

namespace wreath {
namespace {

// Says whether the buffers are aligned to elements, since blocks that combine read whole elements.
bool aligned(const Call& call) {
  if (!reduces(call.collective)) return true;
  const std::uintptr_t addresses =
      reinterpret_cast<std::uintptr_t>(call.input) | reinterpret_cast<std::uintptr_t>(call.output);
  return addresses % size_of(call.dtype) == 0;
}

void warn_of_copies(const Device& device, const Error& why) {
  log_warning("calls on memory of {} are copied to memory of the host and back: {}", device.name(), why.message);
}

}  // namespace

void CallMemory::add(const void* data) {
  LibraryDevice* const its = device_of(data);
  (its == nullptr ? on_host : on_device) = true;
  if (its != nullptr) device = its;
}

bool is_shared_with_processes(const Engine& engine, const LibraryDevice& device) {
  const auto& members = engine.members().table();
  const std::uint64_t own = members[static_cast<std::size_t>(engine.rank())].endpoint.process;
  return std::any_of(members.begin(), members.end(), [&](const Member& member) {
    return member.endpoint.process != own && member.endpoint.device == device.identity();
  });
}

DeviceRuns::DeviceRuns(Engine& engine, LibraryDevice* own)
    : engine_(engine), own_(own), grid_run_(engine, engine.lanes()), staged_run_({engine.ranks(), engine.rank()}) {
  engine.lanes().read_device = &read_device;
}

void DeviceRuns::prepare() {
  if (own_ == nullptr) return;
  const auto capacity = LaneGrid::capacity_of(*own_);
  if (capacity) return;
  warn_of_copies(*own_, capacity.error());
  // The device is not asked again.
  grids_[own_] = nullptr;
}

Status DeviceRuns::link() {
  WREATH_TRY(LowLatency::link(engine_, own_));
  if (own_ != nullptr && own_ != &host_device()) static_cast<void>(grid_of(*own_));
  return {};
}

Run* DeviceRuns::run_for(Operation& operation, RunRows below) {
  if (!may_have_device_memory.load(std::memory_order_relaxed)) return nullptr;
  const CallMemory memory = memory_of(operation);
  if (!memory.on_device) return nullptr;
  if (LaneGrid* const grid = grid_for(operation, memory); grid != nullptr) {
    grid_run_.set(operation, *memory.device, *grid);
    return &grid_run_;
  }
  staged_run_.set(operation, RunTable::first_of(below, operation));
  return &staged_run_;
}

CallMemory DeviceRuns::memory_of(const Operation& operation) const {
  CallMemory memory;
  for_each_buffer(operation, engine_.rank(), [&](const void* data) { memory.add(data); });
  return memory;
}

// Returns null where the operation has no lanes, or blocks cannot run them.
LaneGrid* DeviceRuns::grid_for(const Operation& operation, const CallMemory& memory) {
  if (operation.choice.small || engine_.needs_no_peer(operation)) return nullptr;
  if (!memory.on_host && (operation.exchanges() || aligned(operation.call))) return grid_of(*memory.device);
  if (!std::exchange(warned_of_copies_, true)) {
    log_info("{} with buffers {} in memory of {} works on copies of them", text_of(operation),
             memory.on_host ? "that are not all" : "not aligned to elements", memory.device->name());
  }
  return nullptr;
}

// Returns null where the device's blocks cannot run lanes. A warning says so once.
LaneGrid* DeviceRuns::grid_of(LibraryDevice& device) {
  const auto [place, made] = grids_.try_emplace(&device);
  if (made) {
    auto grid = make_grid(device);
    if (grid) {
      place->second = *std::move(grid);
      log_info("calls on memory of {} are run by its blocks, of which {} run at once", device.name(),
               place->second->capacity());
    } else {
      warn_of_copies(device, grid.error());
    }
  }
  return place->second.get();
}

Result<std::unique_ptr<LaneGrid>> DeviceRuns::make_grid(LibraryDevice& device) {
  auto grid = LaneGrid::create(device, engine_.links(), engine_.shape().slot_bytes, [this] { engine_.wake_driver(); });
  if (!grid) return grid;
  for (Rank peer = 0; peer < engine_.ranks(); ++peer) {
    if (peer == engine_.rank()) continue;
    WREATH_TRY((*grid)->let_in(engine_.links().link(peer)->send_fifo(0)));
    WREATH_TRY((*grid)->let_in(engine_.links().link(peer)->recv_fifo(0)));
  }
  if (!device.runs_processes_at_once() && is_shared_with_processes(engine_, device)) {
    (*grid)->set_paced();
    log_info("processes take turns on {}: its kernels end instead of waiting (with MPS they would run at once)",
             device.name());
  }
  return grid;
}

}  // namespace wreath
