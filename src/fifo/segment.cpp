// Control segments: layout, the own side with its staging and announcements, the mapped peer.
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

#include "src/base/memory_order.hpp"
#include "src/base/remote_fence.hpp"
#include "src/base/socket.hpp"

namespace wreath {
namespace {

constexpr std::uint64_t kMagic = 0x5752454154483153;  // "WREATH1S"
constexpr std::uint32_t kLayoutVersion = 3;

// What Offer::bytes hold for memory of either kind.
struct RegionOffer {
  std::uint64_t magic;
  std::uint64_t id;
  std::uint64_t bytes;
};

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
  if (!std::has_single_bit(shape.slot_bytes)) return invalid("slot_bytes", shape.slot_bytes);
  return {};
}

Status add_descriptor(Offer& offer, int descriptor, std::string_view what) {
  const int copy = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return system_error(what, "fcntl(F_DUPFD_CLOEXEC)");
  offer.descriptors.push_back(copy);
  return {};
}

Offer describe(const Region& region) {
  const RegionOffer description{kMagic, region.id(), region.bytes()};
  Offer offer;
  offer.bytes.resize(sizeof(description));
  std::memcpy(offer.bytes.data(), &description, sizeof(description));
  return offer;
}

Result<std::shared_ptr<Region>> open_offer(Offer offer, std::size_t most_descriptors) {
  RegionOffer description;
  if (offer.bytes.size() != sizeof(description) || offer.descriptors.size() > most_descriptors) {
    return Error{ErrorCode::Mismatch, fmt::format("a peer's offer of memory has {} bytes and {} descriptors",
                                                  offer.bytes.size(), offer.descriptors.size())};
  }
  std::memcpy(&description, offer.bytes.data(), sizeof(description));
  if (description.magic != kMagic) return Error{ErrorCode::Mismatch, "a peer's offer of memory has a wrong magic"};
  const auto take = [&offer](std::size_t i) {
    return i < offer.descriptors.size() ? Fd(std::exchange(offer.descriptors[i], -1)) : Fd();
  };
  return Region::open(description.id, description.bytes, take(0), take(1));
}

}  // namespace

SegmentLayout::SegmentLayout(int ranks, const FifoShape& shape) : lanes_(shape.lanes), slot_count_(shape.slot_count) {
  const std::size_t pairs = static_cast<std::size_t>(ranks) * lanes_;
  consumed_ = sizeof(SegmentPrologue) + pairs * slot_count_ * sizeof(SlotHeader);
  reads_ = consumed_ + pairs * sizeof(Counter);
  small_area = round_up(reads_ + static_cast<std::size_t>(ranks) * sizeof(Counter), 4096);
  bytes = small_area + kSmallAreaBytes;
}

std::size_t SegmentLayout::slots_at(Rank peer, std::uint16_t lane) const {
  const std::size_t pair = static_cast<std::size_t>(peer) * lanes_ + lane;
  return sizeof(SegmentPrologue) + pair * slot_count_ * sizeof(SlotHeader);
}

std::size_t SegmentLayout::consumed_at(Rank peer, std::uint16_t lane) const {
  const std::size_t pair = static_cast<std::size_t>(peer) * lanes_ + lane;
  return consumed_ + pair * sizeof(Counter);
}

std::size_t SegmentLayout::reads_at(Rank peer) const {
  return reads_ + static_cast<std::size_t>(peer) * sizeof(Counter);
}

// ---- the own side ----

Result<std::unique_ptr<OwnSegment>> OwnSegment::create(Rank rank, int ranks, const FifoShape& shape, bool shareable) {
  WREATH_TRY(check_shape(rank, ranks, shape));
  const SegmentLayout layout(ranks, shape);
  Result<std::shared_ptr<Region>> control = Region::create(layout.bytes, shareable, "control segment");
  if (!control) return control.error();
  Fd doorbell(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!doorbell) return system_error("control segment", "eventfd");
  (*control)->set_doorbell(std::move(doorbell));
  return std::unique_ptr<OwnSegment>(new OwnSegment(rank, ranks, shape, *std::move(control), shareable));
}

OwnSegment::OwnSegment(Rank rank, int ranks, const FifoShape& shape, std::shared_ptr<Region> control, bool shareable)
    : rank_(rank),
      ranks_(ranks),
      shape_(shape),
      layout_(ranks, shape),
      shareable_(shareable),
      control_(std::move(control)),
      staging_(shape.lanes),
      peers_(static_cast<std::size_t>(ranks)) {
  SegmentPrologue& start = prologue();
  start.magic = kMagic;
  start.version = kLayoutVersion;
  start.rank = rank;
  start.ranks = ranks;
  start.slot_count = shape.slot_count;
  start.slot_bytes = shape.slot_bytes;
  start.first_sequence = shape.first_sequence;
  start.lanes = shape.lanes;
  start.epoch = shape.epoch;
  start.process = {random_id(), reinterpret_cast<std::uintptr_t>(&start.process.token), ::getpid()};
  for (Rank peer = 0; peer < ranks; ++peer) {
    for (std::uint16_t lane = 0; lane < shape.lanes; ++lane) {
      consumed(peer, lane)->value = shape.first_sequence;
      for (std::uint32_t i = 0; i < shape.slot_count; ++i) {
        const std::uint32_t sequence = shape.first_sequence + i;
        slots(peer, lane)[sequence & (shape.slot_count - 1)].sequence = sequence - shape.slot_count;
      }
    }
  }
}

SlotHeader* OwnSegment::slots(Rank peer, std::uint16_t lane) const {
  return reinterpret_cast<SlotHeader*>(control_->data() + layout_.slots_at(peer, lane));
}

Counter* OwnSegment::consumed(Rank peer, std::uint16_t lane) const {
  return reinterpret_cast<Counter*>(control_->data() + layout_.consumed_at(peer, lane));
}

Counter* OwnSegment::reads(Rank peer) const {
  return reinterpret_cast<Counter*>(control_->data() + layout_.reads_at(peer));
}

void OwnSegment::set_aborted() {
  store_release(prologue().aborted.value, 1U);
  full_fence();  // what the caller does to its buffers from now on comes after
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

Status OwnSegment::make_staging(StagingRegion& staging) {
  std::size_t places = 0;
  for (const Peer& peer : peers_) places += peer.mapped ? 1U : 0U;
  const std::size_t bytes = places * shape_.slot_count * shape_.slot_bytes;
  Result<std::shared_ptr<Region>> region = Region::create(bytes, shareable_, "staging memory");
  if (!region) return region.error();
  Result<std::uint32_t> index = add_entry({(*region)->id(), *region, *region});
  if (!index) return index.error();
  staging_bytes_ += (*region)->bytes();
  staging = {*std::move(region), *index, places};
  return {};
}

Result<Staging> OwnSegment::staging(Rank peer, std::uint16_t lane) {
  const std::lock_guard lock(mutex_);
  StagingRegion& staging = staging_[lane];
  const Peer& of_peer = peers_[static_cast<std::size_t>(peer)];
  if (of_peer.mapped && staging.region == nullptr) WREATH_TRY(make_staging(staging));
  if (!of_peer.mapped || of_peer.place >= staging.places) {
    return Error{ErrorCode::InvalidUsage,
                 fmt::format("rank {} asked for staging before it was offered this segment", peer)};
  }
  const std::size_t offset = of_peer.place * shape_.slot_count * shape_.slot_bytes;
  return Staging{staging.region->data() + offset, {staging.index, offset}};
}

std::optional<RegionName> OwnSegment::name_memory(const void* data, std::size_t bytes) {
  const std::shared_ptr<Region> region = find_containing(data, bytes);
  if (region == nullptr) return std::nullopt;
  const std::uint64_t offset = static_cast<std::uint64_t>(static_cast<const std::byte*>(data) - region->data());
  const std::lock_guard lock(mutex_);
  for (std::uint32_t index = 1; index < next_index_.load(std::memory_order_relaxed); ++index) {
    if (entries_[index].id == region->id()) return RegionName{index, offset};
  }
  // The last indices are left to staging, without which no other message could be sent.
  std::size_t lanes_to_come = 0;
  for (const StagingRegion& staging : staging_) lanes_to_come += staging.region == nullptr ? 1U : 0U;
  if (next_index_.load(std::memory_order_relaxed) + lanes_to_come >= kMaximumRegions) return std::nullopt;
  const Result<std::uint32_t> index = add_entry({region->id(), nullptr, region});
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
    const std::shared_ptr<Region> region = entries_[index].region.lock();
    if (region == nullptr) continue;  // freed: no slot names it
    Announcement announcement{index, describe(*region)};
    if (of_peer.by_descriptor) {
      WREATH_TRY(add_descriptor(announcement.offer, region->descriptor(), "announcing a region"));
    }
    announcements.push_back(std::move(announcement));
  }
  of_peer.told.store(end, std::memory_order_relaxed);
  return announcements;
}

Result<Offer> OwnSegment::offer(Rank peer, bool descriptors) {
  if (peer < 0 || peer >= ranks_) {
    return Error{ErrorCode::InvalidArgument, fmt::format("control segment offered to rank {} of {}", peer, ranks_)};
  }
  if (descriptors && !shareable_) {
    return Error{ErrorCode::InvalidUsage, "control segment is not shareable with other processes"};
  }
  Offer offer = describe(*control_);
  if (descriptors) {
    WREATH_TRY(add_descriptor(offer, control_->descriptor(), "offering the control segment"));
    WREATH_TRY(add_descriptor(offer, doorbell(), "offering the doorbell"));
  }
  const std::lock_guard lock(mutex_);
  Peer& of_peer = peers_[static_cast<std::size_t>(peer)];
  if (!of_peer.mapped) of_peer.place = mapped_peers_++;
  of_peer.mapped = true;
  of_peer.by_descriptor = descriptors;
  return offer;
}

bool OwnSegment::offered_descriptors(Rank peer) const {
  const std::lock_guard lock(mutex_);
  return peers_[static_cast<std::size_t>(peer)].by_descriptor;
}

std::size_t OwnSegment::total_bytes() const {
  const std::lock_guard lock(mutex_);
  return control_->bytes() + staging_bytes_;
}

// ---- a peer's ----

Result<PeerSegment> PeerSegment::open(const OwnSegment& own, Rank peer, Offer theirs) {
  const auto wrong = [peer](std::string_view what) {
    return Error{ErrorCode::Mismatch, fmt::format("the control segment of rank {}: {}", peer, what)};
  };
  const SegmentLayout layout(own.ranks(), own.shape());
  Result<std::shared_ptr<Region>> region = open_offer(std::move(theirs), 2);
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
  if (start.lanes != shape.lanes || start.slot_count != shape.slot_count || start.slot_bytes != shape.slot_bytes ||
      start.first_sequence != shape.first_sequence || start.epoch != shape.epoch) {
    return wrong("lanes, slots, sequence or epoch differ from this rank's");
  }
  if (segment.region_->doorbell() < 0) return wrong("it came without a doorbell");
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
  return (load_relaxed(sleeping.value) & ~kSleepersFence) != 0;
}

const Counter* PeerSegment::reads(Rank writer) const {
  return reinterpret_cast<const Counter*>(region_->data() + layout_.reads_at(writer));
}

void PeerSegment::wake() const {
  bool fenced = false;
  if (!is_asleep(prologue().sleeping, fenced)) return;
  // Fails only when the counter is full, and then it is readable anyway.
  while (::eventfd_write(region_->doorbell(), 1) != 0 && errno == EINTR) {
  }
}

Result<std::shared_ptr<Region>> open_announced(Offer offer) { return open_offer(std::move(offer), 1); }

}  // namespace wreath
