// Implements control segments: their layout, this rank's own side with its staging and announcements, and a peer's
// mapped side.
#include "src/fifo/segment.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "src/base/log.hpp"
#include "src/base/memory_order.hpp"
#include "src/base/planted_fault.hpp"
#include "src/base/remote_fence.hpp"
#include "src/base/socket.hpp"

namespace wreath {
namespace {

constexpr std::string_view kControlSegment = "control segment";

constexpr std::uint64_t kMagic = 0x5752454154483153;  // "WREATH1S"
constexpr std::uint32_t kLayoutVersion = 9;

constexpr std::size_t round_up(std::size_t value, std::size_t unit) { return (value + unit - 1) / unit * unit; }

Error system_error(std::string_view what, std::string_view call) {
  Error error = os_error(call, errno);
  error.message = fmt::format("{}: {}", what, error.message);
  return error;
}

Status check_shape(Rank rank, int ranks, const FifoShape& shape) {
  const auto invalid = [](std::string_view name, std::int64_t value) {
    return Error{ErrorCode::InvalidArgument, fmt::format("control segment: {} = {}", name, value)};
  };
  constexpr int kMostRanks = 1 << 20;
  if (ranks < 1 || ranks > kMostRanks) return invalid("ranks", ranks);
  if (rank < 0 || rank >= ranks) return invalid("rank", rank);
  if (shape.lanes == 0) return invalid("lanes", shape.lanes);
  if (!std::has_single_bit(shape.slot_count) || shape.slot_count > 1024) return invalid("slot_count", shape.slot_count);
  if (!std::has_single_bit(shape.headers()) || shape.headers() > 1024) return invalid("headers", shape.headers());
  if (!std::has_single_bit(shape.slot_bytes)) return invalid("slot_bytes", shape.slot_bytes);
  const std::uint32_t last = shape.exchange_slot_bytes;
  if (last != 0 && !std::has_single_bit(last)) return invalid("exchange_slot_bytes", last);
  return {};
}

// Writes the contents of a segment that nobody has used yet: the prologue, headers and counters.
void write_start(std::byte* base, const SegmentPrologue& start, const SegmentLayout& layout) {
  std::memcpy(base, &start, sizeof start);
  for (Rank peer = 0; peer < start.ranks; ++peer) {
    for (std::uint16_t lane = 0; lane < start.lanes; ++lane) {
      auto* const consumed = reinterpret_cast<Counter*>(base + layout.consumed_at(peer, lane));
      auto* const slots = reinterpret_cast<SlotHeader*>(base + layout.slots_at(peer, lane));
      consumed->value = start.first_sequence;
      for (std::uint32_t i = 0; i < start.headers; ++i) {
        const std::uint32_t sequence = start.first_sequence + i;
        slots[sequence & (start.headers - 1)].sequence = sequence - start.headers;
      }
    }
  }
}

SegmentPrologue prologue_of(Rank rank, int ranks, const FifoShape& shape, const std::byte* base) {
  SegmentPrologue start{};
  start.magic = kMagic;
  start.version = kLayoutVersion;
  start.rank = rank;
  start.ranks = ranks;
  start.slot_count = shape.slot_count;
  start.headers = shape.headers();
  start.slot_bytes = shape.slot_bytes;
  start.exchange_slot_bytes = shape.exchange_slot_bytes;
  start.first_sequence = shape.first_sequence;
  start.lanes = shape.lanes;
  start.epoch = shape.epoch;
  const auto* const at = reinterpret_cast<const SegmentPrologue*>(base);
  start.process = {random_id(), reinterpret_cast<std::uintptr_t>(&at->process.token), ::getpid()};
  return start;
}

}  // namespace

SegmentLayout::SegmentLayout(int ranks, const FifoShape& shape) : lanes_(shape.lanes), headers_(shape.headers()) {
  const std::size_t pairs = static_cast<std::size_t>(ranks) * lanes_;
  consumed_ = sizeof(SegmentPrologue) + pairs * headers_ * sizeof(SlotHeader);
  reads_ = consumed_ + pairs * sizeof(Counter);
  ping_pong = round_up(reads_ + static_cast<std::size_t>(ranks) * sizeof(Reading), 4096);
  small_area = ping_pong + (ranks == 2 ? kPingPongShareBytes : 0);
  bytes = small_area + small_area_bytes(ranks);
}

std::size_t SegmentLayout::slots_at(Rank peer, std::uint16_t lane) const {
  const std::size_t pair = static_cast<std::size_t>(peer) * lanes_ + lane;
  return sizeof(SegmentPrologue) + pair * headers_ * sizeof(SlotHeader);
}

std::size_t SegmentLayout::consumed_at(Rank peer, std::uint16_t lane) const {
  const std::size_t pair = static_cast<std::size_t>(peer) * lanes_ + lane;
  return consumed_ + pair * sizeof(Counter);
}

std::size_t SegmentLayout::reads_at(Rank peer) const {
  return reads_ + static_cast<std::size_t>(peer) * sizeof(Reading);
}

// ---- the own side ----

Result<std::unique_ptr<OwnSegment>> OwnSegment::create(Rank rank, int ranks, const FifoShape& shape,
                                                       std::unique_ptr<SegmentMemory> memory) {
  WREATH_TRY(check_shape(rank, ranks, shape));
  const SegmentLayout layout(ranks, shape);
  Result<std::shared_ptr<Region>> control =
      memory->create({layout.bytes, ranks == 2 ? kPairRingBytes : 0}, kControlSegment);
  if (!control) return control.error();
  std::byte* const base = (*control)->data();
  Fd doorbell = Fd::of_process(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!doorbell) return system_error("control segment", "eventfd");
  (*control)->set_doorbell(std::move(doorbell));
  write_start(base, prologue_of(rank, ranks, shape, base), layout);
  return std::unique_ptr<OwnSegment>(new OwnSegment(rank, ranks, shape, std::move(memory), *std::move(control)));
}

OwnSegment::OwnSegment(Rank rank, int ranks, const FifoShape& shape, std::unique_ptr<SegmentMemory> memory,
                       std::shared_ptr<Region> control)
    : rank_(rank),
      ranks_(ranks),
      shape_(shape),
      layout_(ranks, shape),
      memory_(std::move(memory)),
      control_(std::move(control)),
      staging_(shape.lanes),
      peers_(static_cast<std::size_t>(ranks)) {}

SlotHeader* OwnSegment::slots(Rank peer, std::uint16_t lane) const {
  return reinterpret_cast<SlotHeader*>(control_->data() + layout_.slots_at(peer, lane));
}

Counter* OwnSegment::consumed(Rank peer, std::uint16_t lane) const {
  return reinterpret_cast<Counter*>(control_->data() + layout_.consumed_at(peer, lane));
}

Reading* OwnSegment::reads(Rank peer) const {
  return reinterpret_cast<Reading*>(control_->data() + layout_.reads_at(peer));
}

Status OwnSegment::make_ring() { return control_->make_present(kControlSegment); }

void OwnSegment::set_aborted() {
  store_release(prologue().aborted.value, 1U);
  // Later changes of the caller's buffers come after the store.
  full_fence();
}

void OwnSegment::begin_sleep() {
  eventfd_t count;
  while (::eventfd_read(doorbell(), &count) != 0 && errno == EINTR) {
  }
  const std::uint32_t before = std::atomic_ref(prologue().sleeping.value).fetch_add(1, std::memory_order_relaxed);
  if ((before & kSleepersFence) != 0) {
    fence_others();
  } else {
    full_fence();
  }
}

void OwnSegment::let_sleepers_fence() {
  if (can_fence_others()) {
    std::atomic_ref(prologue().sleeping.value).fetch_or(kSleepersFence, std::memory_order_relaxed);
  }
}

bool OwnSegment::sleepers_fence() const { return (load_relaxed(prologue().sleeping.value) & kSleepersFence) != 0; }

void OwnSegment::end_sleep() { std::atomic_ref(prologue().sleeping.value).fetch_sub(1, std::memory_order_relaxed); }

Result<std::uint32_t> OwnSegment::add_entry(Entry entry) {
  const std::uint32_t index = next_index_.load(std::memory_order_relaxed);
  if (index >= kMaximumRegions) {
    return Error{ErrorCode::System, fmt::format("all {} regions of this rank are in use", kMaximumRegions - 1)};
  }
  entries_[index] = std::move(entry);
  next_index_.store(index + 1, std::memory_order_release);
  return index;
}

Status OwnSegment::make_staging(std::uint16_t lane) {
  std::size_t places = 0;
  for (const Peer& peer : peers_) places += peer.mapped ? 1U : 0U;
  Result<std::shared_ptr<Region>> region = memory_->create(places * staged_bytes(lane), "staging memory");
  if (!region) return region.error();
  Result<std::uint32_t> index = add_entry({(*region)->id(), *region, *region});
  if (!index) return index.error();
  staging_[lane] = {*std::move(region), *index, places};
  return {};
}

Result<Staging> OwnSegment::staging(Rank peer, std::uint16_t lane) {
  const std::lock_guard lock(mutex_);
  StagingRegion& staging = staging_[lane];
  const Peer& of_peer = peers_[static_cast<std::size_t>(peer)];
  if (of_peer.mapped && staging.region == nullptr) WREATH_TRY(make_staging(lane));
  if (!of_peer.mapped || of_peer.place >= staging.places) {
    return Error{ErrorCode::InvalidUsage,
                 fmt::format("rank {} asked for staging before it was offered this segment", peer)};
  }
  const std::size_t offset = of_peer.place * staged_bytes(lane);
  return Staging{staging.region->data() + offset, {staging.index, offset}};
}

std::optional<RegionName> OwnSegment::name_memory(const void* data, std::size_t bytes) {
  return name(memory_->find_user_memory(data, bytes), false);
}

std::optional<RegionName> OwnSegment::name_device_memory(const void* data, std::size_t bytes) {
  return device_ == nullptr ? std::nullopt : name(device_->find_user_memory(data, bytes), true);
}

std::optional<RegionName> OwnSegment::name(const UserMemory& memory, bool of_device) {
  const auto& [region, offset] = memory;
  if (region == nullptr) return std::nullopt;
  const std::lock_guard lock(mutex_);
  for (std::uint32_t index = 1; index < next_index_.load(std::memory_order_relaxed); ++index) {
    if (entries_[index].id == region->id()) return RegionName{index, offset};
  }
  // The last indices are left to staging, without which no other message could be sent.
  std::size_t lanes_to_come = 0;
  for (const StagingRegion& staging : staging_) lanes_to_come += staging.region == nullptr ? 1U : 0U;
  if (next_index_.load(std::memory_order_relaxed) + lanes_to_come >= kMaximumRegions) return std::nullopt;
  const Result<std::uint32_t> index = add_entry({region->id(), of_device ? region : nullptr, region, of_device});
  if (!index) return std::nullopt;
  return RegionName{*index, offset};
}

bool OwnSegment::has_announcements(Rank peer) const {
  return peers_[static_cast<std::size_t>(peer)].told.load(std::memory_order_relaxed) !=
         next_index_.load(std::memory_order_acquire);
}

Result<std::vector<Announcement>> OwnSegment::take_announcements(Rank peer) {
  std::vector<Announcement> announcements;
  const std::lock_guard lock(mutex_);
  Peer& of_peer = peers_[static_cast<std::size_t>(peer)];
  const std::uint32_t end = next_index_.load(std::memory_order_relaxed);
  for (std::uint32_t index = of_peer.told.load(std::memory_order_relaxed); index < end; ++index) {
    auto offer = describe(entries_[index], of_peer);
    if (!offer) return offer.error();
    if (*offer) announcements.push_back({index, **std::move(offer)});
  }
  of_peer.told.store(end, std::memory_order_relaxed);
  return announcements;
}

// Returns nullopt where the peer need not, or cannot, open the region.
Result<std::optional<Offer>> OwnSegment::describe(const Entry& entry, const Peer& peer) {
  const std::shared_ptr<Region> region = entry.region.lock();
  if (region == nullptr) return std::optional<Offer>();  // freed: no slot names it
  if (!entry.of_device) return memory_->describe(*region, peer.by_descriptor);
  if (!peer.maps_device) return std::optional<Offer>();
  auto offer = device_->describe(*region, peer.by_descriptor);
  if (offer) return offer;
  log_info("{} bytes of a device's memory are staged for other processes: {}", region->bytes(), offer.error().message);
  return std::optional<Offer>();
}

void OwnSegment::tell_of_device(Rank peer) {
  const std::lock_guard lock(mutex_);
  peers_[static_cast<std::size_t>(peer)].maps_device = tells_of_device_ = device_ != nullptr;
}

Result<std::shared_ptr<Region>> OwnSegment::open(Offer theirs) const {
  return (device_ != nullptr && is_device_offer(theirs) ? *device_ : *memory_).open(std::move(theirs));
}

Result<Offer> OwnSegment::offer(Rank peer, bool descriptors) {
  if (peer < 0 || peer >= ranks_) {
    return Error{ErrorCode::InvalidArgument, fmt::format("control segment offered to rank {} of {}", peer, ranks_)};
  }
  if (descriptors && !shareable()) {
    return Error{ErrorCode::InvalidUsage, "control segment is not shareable with other processes"};
  }
  auto offer = memory_->describe(*control_, descriptors);
  if (!offer) return offer.error();
  const std::lock_guard lock(mutex_);
  Peer& of_peer = peers_[static_cast<std::size_t>(peer)];
  if (!of_peer.mapped) of_peer.place = mapped_peers_++;
  of_peer.mapped = true;
  of_peer.by_descriptor = descriptors;
  return **std::move(offer);
}

bool OwnSegment::offered_descriptors(Rank peer) const {
  const std::lock_guard lock(mutex_);
  return peers_[static_cast<std::size_t>(peer)].by_descriptor;
}

// ---- a peer's ----

Result<PeerSegment> PeerSegment::open(const OwnSegment& own, Rank peer, Offer theirs) {
  const auto wrong = [peer](std::string_view what) {
    return Error{ErrorCode::Mismatch, fmt::format("the control segment of rank {}: {}", peer, what)};
  };
  const SegmentLayout layout(own.ranks(), own.shape());
  Result<std::shared_ptr<Region>> region = open_announced(std::move(theirs));
  if (!region) {
    return Error{region.error().code, fmt::format("the control segment of rank {}: {}", peer, region.error().message)};
  }
  if ((*region)->bytes() < layout.bytes) {
    return wrong(fmt::format("{} bytes where at least {} are needed", (*region)->bytes(), layout.bytes));
  }
  PeerSegment segment(*std::move(region), layout);
  const SegmentPrologue& start = segment.prologue();
  const FifoShape& shape = own.shape();
  if (start.magic != kMagic) return wrong("wrong magic");
  if (start.version != kLayoutVersion) {
    return wrong(fmt::format("layout version {} where this library has {}", start.version, kLayoutVersion));
  }
  if (start.rank != peer || start.ranks != own.ranks()) {
    return wrong(
        fmt::format("it is rank {} of {} where {} of {} is meant", start.rank, start.ranks, peer, own.ranks()));
  }
  if (start.lanes != shape.lanes || start.slot_count != shape.slot_count || start.headers != shape.headers() ||
      start.slot_bytes != shape.slot_bytes || start.exchange_slot_bytes != shape.exchange_slot_bytes ||
      start.first_sequence != shape.first_sequence || start.epoch != shape.epoch) {
    return wrong("lanes, slots, sequence or epoch differ from this rank's");
  }
  if (segment.region_->doorbell() < 0) return wrong("it came without a doorbell");
  if (own.ranks() == 2) {
    const Status writes = segment.region_->let_write(layout.ping_pong, kPingPongShareBytes);
    if (!writes) log_info("rank {}'s ping-pong slots are not used: {}", peer, writes.error().message);
    segment.writes_ping_pong_ = static_cast<bool>(writes);
  }
  return segment;
}

const SlotHeader* PeerSegment::slots(Rank reader, std::uint16_t lane) const {
  return reinterpret_cast<const SlotHeader*>(region_->data() + layout_.slots_at(reader, lane));
}

const Counter* PeerSegment::consumed(Rank writer, std::uint16_t lane) const {
  return reinterpret_cast<const Counter*>(region_->data() + layout_.consumed_at(writer, lane));
}

bool is_asleep(const Counter& sleeping, bool& fenced) noexcept {
  compiler_fence();
  if (!fenced && (!registered_for_fences() || (load_relaxed(sleeping.value) & kSleepersFence) == 0)) {
    full_fence();
    fenced = true;
  }
  return (load_relaxed(sleeping.value) & ~kSleepersFence) > (planted_fault(8) ? 1U : 0U);
}

const Reading* PeerSegment::reads(Rank writer) const {
  return reinterpret_cast<const Reading*>(region_->data() + layout_.reads_at(writer));
}

void PeerSegment::wake() const {
  bool fenced = false;
  if (!is_asleep(prologue().sleeping, fenced)) return;
  // Fails only when the counter is full, and then it is readable anyway.
  while (::eventfd_write(region_->doorbell(), 1) != 0 && errno == EINTR) {
  }
}

}  // namespace wreath
