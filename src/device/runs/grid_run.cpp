// GridRun chooses the run of an operation on memory of a device. It gives addresses and names of that memory to lanes,
// and returns the errors of grids.
#include "src/device/runs/grid_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "src/base/log.hpp"
#include "src/device/call_memory.hpp"
#include "src/device/runs/low_latency.hpp"
#include "src/engine/call_shape.hpp"
#include "src/engine/engine.hpp"

namespace wreath {
namespace {

constexpr std::int64_t kSleepNs = 1'000'000;
constexpr std::int64_t kSleepBesideWiresNs = 50'000;

// Says whether the buffers are aligned to elements, since blocks that combine read whole elements.
bool aligned(const Call& call) {
  if (!reduces(call.collective)) return true;
  const std::uintptr_t addresses =
      reinterpret_cast<std::uintptr_t>(call.input) | reinterpret_cast<std::uintptr_t>(call.output);
  return addresses % size_of(call.dtype) == 0;
}

// Calls use(data) with the beginning of each buffer that rank `me` uses, as the program knows it.
template <typename Use>
void for_each_buffer(const Operation& operation, Rank me, Use use) {
  for (const Direction direction : {Direction::Send, Direction::Receive}) {
    for (const ExchangeMessage& message : operation.messages.of(direction)) {
      if (message.count > 0) use(message.data);
    }
  }
  const Call& call = operation.call;
  if (operation.exchanges() || call.collective == Collective::Barrier) return;
  if (call.input != nullptr && uses_input(call.collective, call.root, me)) use(call.input);
  if (call.output != nullptr && uses_output(call.collective, call.root, me)) use(call.output);
}

void warn_of_copies(const Device& device, const Error& why) {
  log_warning("calls on memory of {} are copied to memory of the host and back: {}", device.name(), why.message);
}

}  // namespace

// Says where the buffers of an operation are.
struct GridRun::CallMemory {
  LibraryDevice* device = nullptr;  // the memory's device; null where none has a device
  bool on_host = false;             // some are in memory of the host
};

bool is_shared_with_processes(const Engine& engine, const LibraryDevice& device) {
  const auto& members = engine.members().table();
  const std::uint64_t own = members[static_cast<std::size_t>(engine.rank())].endpoint.process;
  return std::any_of(members.begin(), members.end(), [&](const Member& member) {
    return member.endpoint.process != own && member.endpoint.device == device.identity();
  });
}

GridRun::GridRun(Engine& engine, LibraryDevice* own)
    : LanesRun(engine, engine.lanes()), own_(own), staged_run_({engine.ranks(), engine.rank()}) {
  engine.lanes().read_device = &read_device;
}

void GridRun::prepare() {
  if (own_ == nullptr) return;
  const auto capacity = LaneGrid::capacity_of(*own_);
  if (capacity) return;
  warn_of_copies(*own_, capacity.error());
  // The device is not asked again.
  grids_[own_] = nullptr;
}

Status GridRun::link() {
  WREATH_TRY(LowLatency::link(engine(), own_));
  if (own_ != nullptr && own_ != &host_device()) static_cast<void>(grid_of(*own_));
  return {};
}

Run& GridRun::run_for(Operation& operation, Run& own) {
  if (!may_have_device_memory.load(std::memory_order_relaxed)) return own;
  const CallMemory memory = memory_of(operation);
  if (memory.device == nullptr) return own;
  if (LaneGrid* const grid = grid_for(operation, memory); grid != nullptr) {
    device_ = memory.device;
    grid_ = grid;
    error_.reset();
    set(operation);
    return *this;
  }
  staged_run_.set(operation, own);
  return staged_run_;
}

GridRun::CallMemory GridRun::memory_of(const Operation& operation) const {
  CallMemory memory;
  for_each_buffer(operation, engine().rank(), [&](const void* data) {
    LibraryDevice* const device = device_of(data);
    memory.on_host = memory.on_host || device == nullptr;
    if (device != nullptr) memory.device = device;
  });
  return memory;
}

// Returns null where the operation has no lanes, or blocks cannot run them.
LaneGrid* GridRun::grid_for(const Operation& operation, const CallMemory& memory) {
  if (operation.choice.small || engine().needs_no_peer(operation)) return nullptr;
  if (!memory.on_host && (operation.exchanges() || aligned(operation.call))) return grid_of(*memory.device);
  if (!std::exchange(warned_of_copies_, true)) {
    log_info("{} with buffers {} in memory of {} works on copies of them", text_of(operation),
             memory.on_host ? "that are not all" : "not aligned to elements", memory.device->name());
  }
  return nullptr;
}

// Returns null where the device's blocks cannot run lanes. A warning says so once.
LaneGrid* GridRun::grid_of(LibraryDevice& device) {
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

Result<std::unique_ptr<LaneGrid>> GridRun::make_grid(LibraryDevice& device) {
  const std::uint32_t most_bytes = engine().shape().mapped_slot_bytes(kExchangeLane);
  auto grid = LaneGrid::create(device, engine().links(), most_bytes, [this] { engine().wake_driver(); });
  if (!grid) return grid;
  for (Rank peer = 0; peer < engine().ranks(); ++peer) {
    if (peer == engine().rank()) continue;
    WREATH_TRY((*grid)->let_in(engine().links().link(peer)->send_fifo(0)));
    WREATH_TRY((*grid)->let_in(engine().links().link(peer)->recv_fifo(0)));
  }
  if (!device.runs_processes_at_once() && is_shared_with_processes(engine(), device)) {
    (*grid)->set_paced();
    log_info("processes take turns on {}: its kernels end instead of waiting (with MPS they would run at once)",
             device.name());
  }
  return grid;
}

Advance GridRun::advance() {
  const auto advanced = grid_->run();
  if (!advanced) {
    error_ = advanced.error();
    return Advance::Failed;
  }
  if (*advanced != Advance::Blocked) engine().links().ring();
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
