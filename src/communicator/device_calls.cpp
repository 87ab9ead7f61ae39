// Calls on memory of a device: by its blocks, or on copies in pinned memory.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "src/base/log.hpp"
#include "src/communicator/call_shape.hpp"
#include "src/communicator/check_call.hpp"
#include "src/communicator/engine.hpp"
#include "src/device/call_memory.hpp"

namespace wreath {
namespace {

// Bytes from the start of a buffer to the end of the last block. With counts by rank: of one rank alone.
std::size_t span_of(const Call& call, Buffer buffer, int ranks) {
  const Blocks& own = buffer == Buffer::Input ? call.input_blocks : call.output_blocks;
  const Blocks& other = buffer == Buffer::Input ? call.output_blocks : call.input_blocks;
  if (!call.varying()) {
    const bool one = !moves_blocks(call.collective) || holds_one_block(call.collective, buffer);
    return call.count * size_of(call.dtype) * (one ? 1U : static_cast<std::size_t>(ranks));
  }
  if (own.counts.empty()) return other.counts.front() * size_of(call.dtype);
  return (own.displacements.front() + own.counts.front()) * size_of(call.dtype);
}

// Blocks that combine read whole elements.
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
  if (data == nullptr) return;
  LibraryDevice* const its = device_of(data);
  (its == nullptr ? on_host : on_device) = true;
  if (its != nullptr) device = its;
}

CallMemory Engine::memory_of(const Operation& operation) const {
  if (operation.own) return operation.own->memory();
  const Call& call = operation.call;
  CallMemory memory;
  if (call.collective == Collective::Barrier) return memory;
  if (uses_input(call.collective, call.root, rank())) memory.add(call.input);
  if (uses_output(call.collective, call.root, rank())) memory.add(call.output);
  return memory;
}

// Copies of what is a device's, for calls that need no plan. `call` then names the copies.
Status Engine::stage(Call& call, StagedBuffers& staged) const {
  staged.clear();
  const bool reads = uses_input(call.collective, call.root, rank());
  const bool writes = uses_output(call.collective, call.root, rank());
  if (reads) staged.add(const_cast<std::byte*>(call.input), span_of(call, Buffer::Input, ranks()), false);
  if (writes) staged.add(call.output, span_of(call, Buffer::Output, ranks()), true);
  if (staged.empty()) return {};
  WREATH_TRY(staged.bring());
  call.input = staged.at(call.input);
  call.output = staged.at(call.output);
  return {};
}

// Whether ranks in other processes use it.
bool Engine::is_shared_with_processes(const LibraryDevice& device) const {
  const auto& members = membership_.members;
  const std::uint64_t own = members[static_cast<std::size_t>(rank())].endpoint.process;
  return std::any_of(members.begin(), members.end(), [&](const Member& member) {
    return member.endpoint.process != own && member.endpoint.device == device.identity();
  });
}

Result<std::unique_ptr<LaneGrid>> Engine::make_grid(LibraryDevice& device) {
  auto grid = LaneGrid::create(device, shape_.slot_bytes, [this] {
    ring();
    progress_->kick();
  });
  if (!grid) return grid;
  for (Rank peer = 0; peer < ranks(); ++peer) {
    if (peer == rank()) continue;
    WREATH_TRY((*grid)->let_in(links_->link(peer)->send_fifo(0)));
    WREATH_TRY((*grid)->let_in(links_->link(peer)->recv_fifo(0)));
  }
  if (!device.runs_processes_at_once() && is_shared_with_processes(device)) {
    (*grid)->set_paced();
    log_info("processes take turns on {}: its kernels end instead of waiting (with MPS they would run at once)",
             device.name());
  }
  return grid;
}

// Before the ranks link, and so before any stream waits for a call: a driver may load kernels only where nothing runs,
// and lets nobody else in meanwhile.
void Engine::load_kernels() {
  auto* const device = static_cast<LibraryDevice*>(membership_.device);
  if (device == nullptr) return;
  const auto capacity = LaneGrid::capacity_of(*device);
  if (capacity) return;
  warn_of_copies(*device, capacity.error());
  grids_[device] = nullptr;  // it is not asked again
}

// For the device of the communicator, before the first call: what a grid takes is then not asked of a driver whose
// streams wait. The host device makes its own when it is needed.
void Engine::prepare_grid() {
  auto* const device = static_cast<LibraryDevice*>(membership_.device);
  if (device != nullptr && device != &host_device()) static_cast<void>(grid_of(*device));
}

// Null: its blocks cannot run lanes, which is said once.
LaneGrid* Engine::grid_of(LibraryDevice& device) {
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

void Engine::choose_executor(Operation& operation) {
  CallMemory& memory = operation.memory;
  if (!memory.on_device) return;
  const bool fits = !memory.on_host && (operation.own || aligned(operation.call));
  memory.by_blocks = fits && grid_of(*memory.device) != nullptr;
  if (!fits && !std::exchange(told_copies_, true)) {
    log_info("{} with buffers {} in memory of {} works on copies of them", text_of(operation),
             memory.on_host ? "that are not all" : "not aligned to elements", memory.device->name());
  }
}

// For peers of this process by the number of its allocation, for those of others, where there are any, as a region.
void Engine::name_device_memory(OperationState& state, Buffer buffer, std::span<const std::byte> memory) {
  const auto index = static_cast<std::size_t>(buffer);
  if (memory.size() < kDeviceReferenceBytes) return;
  const PointerFacts facts = facts_of(memory.data());
  const bool one = memory.data() + memory.size() <= facts.begin + facts.bytes;
  state.allocation[index] = one ? facts.allocation : 0;
  if (!links_->segment().tells_of_device()) return;
  if (const auto region = links_->segment().name_device_memory(memory.data(), memory.size())) {
    state.region[index] = region->index;
    state.region_offset[index] = region->offset;
  } else if (!std::exchange(told_staged_, true)) {
    log_info(
        "some memory of {} is staged for other processes: it is not MemoryUse::Exportable, or not one allocation, "
        "or too many were named before",
        facts.device == nullptr ? "a device" : facts.device->name());
  }
}

// Starts the lanes of an operation where its memory is.
Status Engine::start_lanes(Operation& operation, Launch& launch) {
  HostProcessor processor{launch.arithmetic, copy_kernels()};
  processor.read_device = &read_device;
  flying_ = operation.memory.by_blocks ? grids_.at(operation.memory.device).get() : nullptr;
  if (flying_ == nullptr) {
    if (!operation.own && operation.memory.on_device) WREATH_TRY(stage(launch));
    lanes_.start(*launch.plan, launch.state, processor, launch.resident);
    return {};
  }
  if (!operation.own) {
    for (const Buffer buffer : {Buffer::Input, Buffer::Output}) {
      std::byte*& data = launch.state.buffers[static_cast<int>(buffer)];
      if (data != nullptr) data = operation.memory.device->address_in_kernels(data);
    }
  }
  lanes_.start(*launch.plan, launch.state, processor);
  return flying_->start(lanes_, launch);
}

Status Engine::stage(Launch& launch) {
  staged_.clear();
  for (const Buffer buffer : {Buffer::Input, Buffer::Output}) {
    const auto index = static_cast<std::size_t>(buffer);
    staged_.add(launch.state.buffers[index], launch.spans[index], buffer == Buffer::Output);
  }
  WREATH_TRY(staged_.bring());
  for (const Buffer buffer : {Buffer::Input, Buffer::Output}) {
    std::byte*& data = launch.state.buffers[static_cast<int>(buffer)];
    data = staged_.at(data);
  }
  return {};
}

// False: its blocks run still.
bool Engine::end_blocks() {
  if (flying_ == nullptr) return true;
  if (!flying_->stop()) return false;
  flying_ = nullptr;
  return true;
}

}  // namespace wreath
