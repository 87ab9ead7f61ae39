// Makes a grid's image, launches the grid and takes its results.
#include "src/device/runs/lane_grid.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <span>
#include <system_error>
#include <utility>

#include "src/base/clock.hpp"
#include "src/base/invalid_argument.hpp"
#include "src/base/log.hpp"
#include "src/base/memory_order.hpp"
#include "src/base/peer_memory.hpp"
#include "src/device/memory_in_use.hpp"
#include "src/device/runs/image.hpp"
#include "src/executor/block/kernels.hpp"

namespace wreath {
namespace {

constexpr std::uint64_t kTurnNs = 2'000'000;      // for a grid where nothing moves
constexpr std::uint64_t kCrowdedTurnNs = 50'000;  // the same, while others wait for its blocks
constexpr std::size_t kMostOthers = 4096;
constexpr std::int64_t kFaultLookNs = 20'000'000;

LibraryDevice& device_numbered(std::uint64_t number) {
  return *reinterpret_cast<LibraryDevice*>(static_cast<std::uintptr_t>(number));  // NOLINT(performance-no-int-to-ptr)
}

int threads_on(const LibraryDevice& device) { return &device == &host_device() ? kHostBlockThreads : kBlockThreads; }

// Holds the blocks of a launched grid until the grid has ended or was dropped.
class Flight {
 public:
  Flight(BlockLedger& ledger, int blocks, const std::function<void()>& ring)
      : ledger_(ledger), blocks_(blocks), ring_(ring) {}
  Flight(const Flight&) = delete;
  Flight& operator=(const Flight&) = delete;
  ~Flight() {
    ledger_.give_back(blocks_);
    ended_->store(landed_ ? FlightEnd::Landed : FlightEnd::Dropped, std::memory_order_release);
    ring_();
  }
  // Says that the stream has come to the end of its grid.
  void land() { landed_ = true; }
  const std::shared_ptr<std::atomic<FlightEnd>>& ended() const { return ended_; }

 private:
  MemoryInUse in_use_;  // keeps peers' memory, too
  BlockLedger& ledger_;
  int blocks_;
  const std::function<void()>& ring_;
  bool landed_ = false;
  std::shared_ptr<std::atomic<FlightEnd>> ended_ = std::make_shared<std::atomic<FlightEnd>>(FlightEnd::None);
};

}  // namespace

int read_device(std::uint64_t device, std::byte* target, const std::byte* source, std::size_t bytes) {
  return device_numbered(device).copy_in_kernels(target, source, bytes) ? 0 : EIO;
}

LaneGrid::LaneGrid(LibraryDevice& device, const Links& links, std::size_t slot_bytes, std::function<void()> ring)
    : device_(device),
      links_(links),
      adapters_(links),
      slot_bytes_(slot_bytes),
      ring_(std::move(ring)),
      ledger_(BlockLedger::of(device)) {}

Result<std::unique_ptr<LaneGrid>> LaneGrid::create(LibraryDevice& device, const Links& links, std::size_t slot_bytes,
                                                   std::function<void()> ring) {
  std::unique_ptr<LaneGrid> grid(new LaneGrid(device, links, slot_bytes, std::move(ring)));
  grid->threads_ = threads_on(device);
  const auto capacity = capacity_of(device);
  if (!capacity) return capacity.error();
  grid->capacity_ = *capacity;
  auto stream = device.make_urgent_stream();
  if (!stream) return stream.error();
  grid->stream_ = *std::move(stream);
  return grid;
}

Result<int> LaneGrid::capacity_of(LibraryDevice& device) {
  const auto steps = device.resident_blocks(run_lanes_kernel(), threads_on(device));
  if (!steps) return steps.error();
  const auto handwritten = device.resident_blocks(run_handwritten_kernel(), threads_on(device));
  if (!handwritten) return handwritten.error();
  return std::min(*steps, *handwritten);
}

LaneGrid::~LaneGrid() {
  static_cast<void>(stop());
  stream_.reset();  // waits for its work
  ledger_.leave(ring_);
}

// Lets blocks use the region of the host that `data` is in. The host device needs nothing, because its blocks are
// threads of this process.
Status LaneGrid::let_in(const void* data) {
  if (data == nullptr || &device_ == &host_device()) return {};
  const auto* const at = static_cast<const std::byte*>(data);
  const auto above = let_in_.upper_bound(at);
  if (above != let_in_.begin()) {
    const Region& known = *std::prev(above)->second.region;
    if (static_cast<std::size_t>(at - known.data()) < known.bytes()) return {};
  }
  std::shared_ptr<Region> region = Region::find_at(data);
  if (region == nullptr) {
    return Error{ErrorCode::Unavailable, fmt::format("{} was to read memory of the host that is no region's", data)};
  }
  auto entry = device_.let_in({region->data(), region->bytes(), region->is_writable(), region});
  if (!entry) return entry.error();
  std::byte* const base = region->data();
  let_in_[base] = {std::move(region), *std::move(entry)};
  return {};
}

Status LaneGrid::let_in(const SendFifo& send) {
  WREATH_TRY(let_in(static_cast<const void*>(send.slots)));
  WREATH_TRY(let_in(static_cast<const void*>(send.consumed)));
  return let_in(static_cast<const void*>(send.staging));
}

Status LaneGrid::let_in(const RecvFifo& recv) {
  WREATH_TRY(let_in(static_cast<const void*>(recv.slots)));
  WREATH_TRY(let_in(static_cast<const void*>(recv.consumed)));
  return let_in(static_cast<const void*>(recv.owner_aborted));
}

Status LaneGrid::start(LaneScheduler& lanes, const Launch& launch, std::vector<DeviceRange> memory) {
  lanes_ = &lanes;
  plan_ = launch.plan;
  launch_ = launch;
  run_.arithmetic = launch.arithmetic;
  run_.operation = lanes.state();
  run_.operation.device = number_of(device_);
  moved_in_flight_ = true;
  waiting_for_.reset();
  tables_.clear();
  for (const RecvFifo* source : plan_->sources) {
    const bool known = std::find(tables_.begin(), tables_.end(), source->regions) != tables_.end();
    if (source->regions != nullptr && !known) tables_.push_back(source->regions);
  }
  for (const SendFifo* target : plan_->targets) WREATH_TRY(let_in(*target));
  for (const RecvFifo* source : plan_->sources) WREATH_TRY(let_in(*source));
  adapters_.begin(lanes, *plan_, std::move(memory));
  adapters_.post_places();
  WREATH_TRY(make_places());
  bounces_.resize(std::max(bounces_.size(), plan_->sources.size()));
  return make_image();
}

// Makes room for Scratch and Partial in the device's memory.
Status LaneGrid::make_places() {
  const auto [scratch, partial] = places_of(*plan_, run_.operation.geometry);
  if (scratch + partial == 0) return {};
  if (places_.size() < scratch + partial) {
    auto memory = device_.allocate(std::max(scratch + partial, 2 * places_.size()));
    if (!memory) return memory.error();
    outgrown_.push_back(std::exchange(places_, *std::move(memory)));
  }
  std::byte* const first = device_.address_in_kernels(places_.data());
  run_.operation.buffers[static_cast<int>(Buffer::Scratch)] = scratch == 0 ? nullptr : first;
  run_.operation.buffers[static_cast<int>(Buffer::Partial)] = partial == 0 ? nullptr : first + scratch;
  return {};
}

Status LaneGrid::make_image() {
  Image counted(nullptr);
  write(counted);
  if (image_.size() < counted.bytes()) {
    auto memory = device_.allocate(2 * counted.bytes(), MemoryUse::Pinned);
    if (!memory) return memory.error();
    auto in_device = device_.allocate(memory->size());
    if (!in_device) return in_device.error();
    outgrown_.push_back(std::exchange(image_, *std::move(memory)));
    outgrown_.push_back(std::exchange(in_device_, *std::move(in_device)));
  }
  Image image(image_.data());
  write(image);
  for (std::size_t i = 0; i < plan_->targets.size(); ++i) {
    sends_[i] = send_end(i);
    targets_[i] = in_kernels(&sends_[i]);
  }
  for (std::size_t i = 0; i < plan_->sources.size(); ++i) {
    recvs_[i] = recv_end(i);
    sources_[i] = in_kernels(&recvs_[i]);
  }
  return {};
}

// Returns the plan's outgoing end `i` in the form that blocks use.
DeviceSendFifo LaneGrid::send_end(std::size_t i) const {
  DeviceSendFifo send{*plan_->targets[i]};
  send.single_copy = false;
  send.ping_pong = nullptr;
  const Rank peer = plan_->lowered.targets[i].peer;
  send.read_by_adapter = adapters_.reach(peer);
  if (const MappedLink* const memory = links_.link(peer)->mapped(); memory != nullptr) {
    send.same_process = memory->same_process();
    send.readable = load_acquire(memory->mapped_regions());
  }
  return send;
}

DeviceRecvFifo LaneGrid::recv_end(std::size_t i) {
  DeviceRecvFifo recv{*plan_->sources[i]};
  const auto table = std::find(tables_.begin(), tables_.end(), recv.regions) - tables_.begin();
  if (recv.regions != nullptr) recv.regions = in_kernels(views_) + table * std::ptrdiff_t{kMaximumRegions};
  pulled_[i].wanted = pulled_[i].sequence = recv.asked = recv.next - 1;
  recv.pulled = &pulled_[i];
  recv.device = number_of(device_);
  recv.reached = reached_[plan_->sources[i]];
  recv.pulls_local = &device_ != &host_device();
  recv.process = nullptr;
  recv.landing = nullptr;
  recv.ping_pong = nullptr;
  return recv;
}

// Writes everything that blocks read of the operation, and points the operation's state there.
template <typename Image>
void LaneGrid::write(Image& image) {
  const Lowered& lowered = plan_->lowered;
  OperationState& state = run_.operation;
  const OperationState& host = lanes_->state();
  const std::size_t sends = plan_->targets.size();
  const std::size_t recvs = plan_->sources.size();
  stop_ = image.template put<Counter>(nullptr, 1);
  run_.stop = reinterpret_cast<const std::uint32_t*>(stop_);
  run_.moved = image.template put<Counter>(nullptr, lowered.lanes.size());
  pulled_ = image.template put<PulledMessage>(nullptr, recvs);
  parts_.own = image.bytes();
  lane_states_ = image.template put<LaneState>(nullptr, lowered.lanes.size());
  run_.lanes = in_kernels(lane_states_);
  sends_ = image.template put<DeviceSendFifo>(nullptr, sends);
  recvs_ = image.template put<DeviceRecvFifo>(nullptr, recvs);
  parts_.constant = image.bytes();
  views_ = image.template put<RegionView>(nullptr, tables_.size() * kMaximumRegions);
  state.targets = in_kernels(targets_ = image.template put<SendFifo*>(nullptr, sends));
  state.sources = in_kernels(sources_ = image.template put<RecvFifo*>(nullptr, recvs));
  state.steps = in_kernels(image.put(lowered.steps.data(), lowered.steps.size()));
  state.several = in_kernels(image.put(lowered.several.data(), lowered.several.size()));
  const auto put_table = [&](Buffer buffer, const PartTable& from, PartTable& to) {
    if (from.counts == nullptr) return;
    const std::size_t parts = launch_.table_parts[static_cast<std::size_t>(buffer)];
    to.counts = in_kernels(image.put(from.counts, parts));
    to.offsets = in_kernels(image.put(from.offsets, parts));
  };
  put_table(Buffer::Input, host.geometry.input, state.geometry.input);
  put_table(Buffer::Output, host.geometry.output, state.geometry.output);
  const auto put_signatures = [&](Buffer buffer, const std::uint32_t* from, const std::uint32_t*& to) {
    if (from != nullptr) to = in_kernels(image.put(from, launch_.table_parts[static_cast<std::size_t>(buffer)]));
  };
  put_signatures(Buffer::Input, host.input_signatures, state.input_signatures);
  put_signatures(Buffer::Output, host.output_signatures, state.output_signatures);
  parts_.end = image.bytes();
}

// Copies [from, to) of the image to the device's memory.
Status LaneGrid::bring(std::size_t from, std::size_t to) {
  return stream_->copy(in_device_.data() + from, image_.data() + from, to - from);
}

// Copies [from, to) of the image back from the device's memory.
Status LaneGrid::fetch(std::size_t from, std::size_t to) {
  return stream_->copy(image_.data() + from, in_device_.data() + from, to - from);
}

// Copies regions that peers have announced since into the image, for the next grid. Lets blocks use the host's regions
// among them.
Status LaneGrid::refresh_regions() {
  for (std::size_t table = 0; table < tables_.size(); ++table) {
    for (std::uint32_t index = 1; index < kMaximumRegions; ++index) {
      RegionView& known = views_[table * kMaximumRegions + index];
      const std::byte* const base = load_acquire(tables_[table][index].base);
      if (known.base == base) continue;
      known = tables_[table][index];
      known.base = base;
      if (known.device == 0) WREATH_TRY(let_in(static_cast<const void*>(base)));
    }
  }
  return {};
}

// Returns a number that changes when a waiting lane may go on.
std::uint64_t LaneGrid::seen() const {
  std::uint64_t changes = 0;
  for (const RecvFifo* source : plan_->sources) {
    if (peek(*source) != nullptr) ++changes;
  }
  for (const SendFifo* target : plan_->targets) changes += load_acquire(target->consumed->value);
  for (const RegionView* table : tables_) {
    for (std::uint32_t index = 1; index < kMaximumRegions; ++index) {
      if (load_acquire(table[index].base) != nullptr) changes += std::uint64_t{1} << 40U;
    }
  }
  return changes;
}

// Returns whether blocks have done anything since the last look.
bool LaneGrid::moved() {
  std::uint32_t all = 0;
  for (std::size_t block = 0; block < flying_.size(); ++block) all += load_relaxed(run_.moved[block].value);
  const bool moved = all != std::exchange(moved_, all);
  moved_in_flight_ = moved_in_flight_ || moved;
  return moved;
}

Result<Advance> LaneGrid::run() {
  if (in_flight()) {
    const bool ended = ended_->load(std::memory_order_acquire) != FlightEnd::None;
    // Where the grid has ended, this serves everything that it asked for.
    WREATH_TRY(pull());
    adapters_.post_places();
    const bool advanced = moved();
    if (!ended) {
      WREATH_TRY(look_for_fault());
      return advanced ? Advance::Advanced : Advance::Blocked;
    }
    WREATH_TRY(land());
    if (lanes_->failed_lane() != nullptr) return Advance::Failed;
  }
  if (lanes_->running().empty()) return Advance::Done;
  const std::uint64_t now = seen();
  if (!moved_in_flight_ && now == seen_) return Advance::Blocked;
  seen_ = now;
  return take_off();
}

const Kernel& LaneGrid::kernel() const {
  return run_.operation.loop == HandwrittenLoop::None ? run_lanes_kernel() : run_handwritten_kernel();
}

// Launches a grid and returns Advanced. Returns Blocked where it gets no block yet.
Result<Advance> LaneGrid::take_off() {
  const std::span<const std::uint16_t> waiting = lanes_->running();
  const int blocks = ledger_.take(ring_, static_cast<int>(waiting.size()), capacity_);
  if (blocks == 0) {
    moved_in_flight_ = true;
    return Advance::Blocked;
  }
  auto flight = std::make_shared<Flight>(ledger_, blocks, ring_);
  WREATH_TRY(refresh_regions());
  flying_.resize(static_cast<std::size_t>(blocks));
  for (std::size_t block = 0; block < flying_.size(); ++block) {
    // Lanes that get no block now come first the next time.
    flying_[block] = waiting[turn_++ % waiting.size()];
    lane_states_[block] = lanes_->lane(flying_[block]);
    run_.moved[block].value = 0;
  }
  moved_ = 0;
  moved_in_flight_ = false;
  stop_->value = 0;
  run_.blocks = static_cast<std::uint32_t>(blocks);
  run_.stall_ns = ledger_.crowded() ? kCrowdedTurnNs : kTurnNs;
  WREATH_TRY(bring(parts_.own, parts_.end));
  WREATH_TRY(device_.launch(*stream_, kernel(), {blocks, threads_, &run_, sizeof run_}));
  WREATH_TRY(fetch(parts_.own, parts_.constant));
  ended_ = flight->ended();
  const Status last = stream_->run([flight = std::move(flight)] {
    flight->land();
    return Status();
  });
  if (last) return Advance::Advanced;
  store_release(stop_->value, 1U);
  // Nothing reports the end of this grid, so the stream is waited for.
  static_cast<void>(stream_->synchronize());
  ended_.reset();
  return last.error();
}

// Takes the results of a grid that has ended: lanes and ends of FIFOs are as it left them. Does not ask the driver. The
// driver may be busy with a call that waits for streams, and those streams may wait for this call.
Status LaneGrid::land() {
  if (std::exchange(ended_, nullptr)->load(std::memory_order_acquire) == FlightEnd::Dropped) {
    return stream_->synchronize();
  }
  const std::size_t sends = plan_->targets.size();
  for (std::size_t i = 0; i < sends; ++i) {
    plan_->targets[i]->next = sends_[i].next;
    plan_->targets[i]->credits = sends_[i].credits;
  }
  for (std::size_t i = 0; i < plan_->sources.size(); ++i) {
    plan_->sources[i]->next = recvs_[i].next;
    reached_[plan_->sources[i]] = recvs_[i].reached;
  }
  lanes_->adopt({lane_states_, flying_.size()});
  const FifoEnd* const end = lanes_->waiting_for();
  waiting_for_ = end == nullptr ? std::nullopt : std::optional(end->peer);
  return {};
}

bool LaneGrid::stop() {
  if (!in_flight()) return true;
  store_release(stop_->value, 1U);
  if (ended_->load(std::memory_order_acquire) == FlightEnd::None) return !look_for_fault();
  static_cast<void>(land());
  return true;
}

// Asks now and then whether the device has failed. A device that has failed ends no grid, and reports the failure only
// when it is asked.
Status LaneGrid::look_for_fault() {
  const std::int64_t now = now_ns();
  if (now - looked_for_fault_ns_ < kFaultLookNs) return {};
  looked_for_fault_ns_ = now;
  if (!stream_->idle()) return {};
  const Status over = stream_->synchronize(0);
  if (over || over.error().code == ErrorCode::NotReady) return {};
  store_release(stop_->value, 1U);
  ended_.reset();
  return over;
}

// Serves messages whose data blocks cannot reach. Blocks are allowed to use the data's memory, or get a copy in memory
// that they can reach.
Status LaneGrid::pull() {
  for (std::size_t i = 0; i < plan_->sources.size(); ++i) {
    RecvFifo source = *plan_->sources[i];
    source.next = load_acquire(pulled_[i].wanted);
    if (pulled_[i].sequence == source.next) continue;
    const SlotHeader* const here = peek(source);
    // The sender has taken the message back, so no lane gets it.
    if (here == nullptr) continue;
    const SlotHeader slot = load_far(*here);
    const Located located = locate(source, slot);
    if (located.data == nullptr || slot.bytes > slot_bytes_) continue;  // too long: a fault
    WREATH_TRY(pull_message(i, source, slot, located));
    // The data of a ping-pong slot has been copied.
    hold_place(source);
  }
  return {};
}

// Returns whether blocks may load a message in place, from memory of another device of this process.
bool LaneGrid::lets_in(const SlotHeader& slot, const Located& located) {
  if (slot.region != kDeviceAddress || located.device == number_of(device_)) return false;
  DeviceAllocation memory = allocation_of(slot);
  if (memory.allocation == 0) memory.allocation = facts_of(located.data).allocation;
  if (memory.allocation == 0) return false;
  const auto [entry, is_new] = others_.try_emplace({memory.device, memory.allocation}, false);
  if (is_new) {
    LibraryDevice& owner = device_numbered(memory.device);
    const Status let = owner.let_use(located.data, device_);
    entry->second = static_cast<bool>(let);
    if (!let && !std::exchange(told_copies_, true)) {
      log_info("messages in memory of {} are copied for {}: {}", owner.name(), device_.name(), let.error().message);
    }
  }
  const bool lets = entry->second;
  if (others_.size() > kMostOthers) others_.clear();  // most were freed long ago
  return lets;
}

// Returns 0, or the errno that says why the data of a message cannot be read. ESRCH means that the data's owner is
// gone; the caller reports nothing then.
int LaneGrid::read(std::byte* target, const RecvFifo& source, const SlotHeader& slot, const Located& located) {
  if (located.state == Locating::Found) return std::memcpy(target, located.data, slot.bytes), 0;
  const int refused = located.device != 0 ? read_device(located.device, target, located.data, slot.bytes)
                                          : read_peer(*source.process, target, located.data, slot.bytes);
  return refused != 0 && !read_is_valid(*source.owner_aborted) ? ESRCH : refused;
}

Status LaneGrid::pull_message(std::size_t i, const RecvFifo& source, const SlotHeader& slot, const Located& located) {
  const bool in_place = AdapterAccess::has_landed(source, slot, located) || lets_in(slot, located);
  if (!in_place) {
    if (bounces_[i].data() == nullptr) {
      auto memory = device_.allocate(slot_bytes_, MemoryUse::Pinned);
      if (!memory) return memory.error();
      bounces_[i] = *std::move(memory);
    }
    const int refused = read(bounces_[i].data(), source, slot, located);
    if (refused == ESRCH) return {};
    const Rank peer = plan_->lowered.sources[i].peer;
    if (refused == EFAULT) return Error{ErrorCode::InvalidArgument, fmt::format("rank {}: {}", peer, kNoMemory), peer};
    if (refused != 0) {
      return Error{ErrorCode::System,
                   fmt::format("the memory of rank {} cannot be read: {} (WREATH_SINGLE_COPY_BYTES=0 does without)",
                               peer, std::system_category().message(refused)),
                   peer};
    }
  }
  pulled_[i].data = in_place ? located.data : bounces_[i].data();
  pulled_[i].in_place = in_place ? 1 : 0;
  store_release(pulled_[i].sequence, source.next);
  moved_in_flight_ = true;
  return {};
}

}  // namespace wreath
