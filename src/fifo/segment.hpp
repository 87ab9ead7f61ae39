// A control segment holds all that a rank shows its peers, in memory that only this rank writes. Peers map it read
// only, but for the ping-pong slots of two ranks. There is one for each communicator and rank, and every transport that
// maps memory uses it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "src/base/region.hpp"
#include "src/fifo/segment_memory.hpp"
#include "wreath/fifo.hpp"
#include "wreath/result.hpp"
#include "wreath/transport.hpp"

namespace wreath {

// These are the first bytes of a segment. They are written before any peer is offered the segment; afterwards only the
// counters change.
struct SegmentPrologue {
  std::uint64_t magic;
  std::uint32_t version;
  std::int32_t rank;
  std::int32_t ranks;
  std::uint32_t slot_count;
  std::uint32_t headers;  // of a lane: FifoShape::headers()
  std::uint32_t slot_bytes;
  std::uint32_t exchange_slot_bytes;
  std::uint32_t first_sequence;
  std::uint16_t lanes;
  std::uint16_t epoch;
  ProcessMemory process;  // the owner's
  // Counts the owner's threads that wait for its doorbell; may also hold kSleepersFence.
  Counter sleeping;
  // A value that is not 0 says that memory that the owner's slots name may have changed.
  Counter aborted;
  // It is 1 + the core that the owner's driver waits on; 0 when the driver named none.
  Counter core;
  // It says for how long the owner's driver has kept its core, in turns from one yield or sleep to the next, in units
  // of 1024 ticks of cycle_count(). It wraps. Its lowest bit counts no ticks: it is 1 while such a turn lasts.
  Counter kept;
};

// This bit of SegmentPrologue::sleeping says that the owner's sleepers fence other processes (base/remote_fence.hpp).
// They do so before their last look, so that a publishing peer need not. The bit is set once and stays.
inline constexpr std::uint32_t kSleepersFence = 0x8000'0000U;
// Returns whether a thread of the owner of `sleeping` sleeps; the caller asks after stores that such a thread may wait
// for. Makes a fence where this side must make one, unless `fenced` says that one was made since the stores.
bool is_asleep(const Counter& sleeping, bool& fenced) noexcept;

// Says what a rank can read of a peer's memory. The reader writes it.
struct alignas(64) Reading {
  // Reads through the kernel: 0 where no read was tried, 1 where reads work, else 1 + errno.
  std::uint32_t process = 0;
  // Bit i says that region i of the peer's device is mapped. No bit is ever cleared.
  std::uint64_t regions = 0;
};
static_assert(kMaximumRegions <= 64);

// Each of two ranks has half of their ping-pong slots in its segment, and then places of small messages.
inline constexpr std::size_t kPingPongSlotsBytes = PingPongSlots::kCount / 2 * PingPongSlots::kBytes;
inline constexpr std::size_t kPingPongShareBytes = kPingPongSlotsBytes + kSmallPingPongBytes;

// Says where things are in a segment. It depends only on values that all ranks agree on.
struct SegmentLayout {
  SegmentLayout(int ranks, const FifoShape& shape);
  std::size_t slots_at(Rank peer, std::uint16_t lane) const;     // outgoing: FifoShape::headers()
  std::size_t consumed_at(Rank peer, std::uint16_t lane) const;  // incoming: one Counter
  std::size_t reads_at(Rank peer) const;                         // one Reading
  std::size_t ping_pong = 0;                                     // whole pages: this rank's share of PingPongSlots
  std::size_t small_area = 0;
  std::size_t bytes = 0;  // of the whole segment

 private:
  std::size_t lanes_;
  std::size_t headers_;
  std::size_t consumed_;
  std::size_t reads_;
};

// Two ranks have so many headers for each lane. Messages of 64 KiB that are read in place may then be so many bytes
// ahead as a core's own cache holds, and more (docs/decisions/0042).
inline constexpr std::uint32_t kPairHeaders = 32;
constexpr std::uint32_t mapped_headers(int ranks) { return ranks == 2 ? kPairHeaders : 0; }

// Names memory in a slot: {SlotHeader::region, SlotHeader::offset}.
struct RegionName {
  std::uint32_t index;
  std::uint64_t offset;
};

// A region that a peer must open. The control connection carries it to MappedLink::accept_region.
struct Announcement {
  std::uint32_t index;
  Offer offer;
};

// The staging memory of one peer and lane has slot_count x FifoShape::mapped_slot_bytes() bytes.
struct Staging {
  std::byte* data;
  RegionName name;
};

// A rank's own side of a control segment. Only the driver uses counters and areas. Several threads may use staging,
// name_memory and announcements at once. The segment outlives the links made over it.
class OwnSegment {
 public:
  // Makes a segment of `memory`, which makes its staging, too. Fails with InvalidArgument for a shape or rank out of
  // range, and with System when memory is refused.
  static Result<std::unique_ptr<OwnSegment>> create(Rank rank, int ranks, const FifoShape& shape,
                                                    std::unique_ptr<SegmentMemory> memory);

  Rank rank() const { return rank_; }
  int ranks() const { return ranks_; }
  const FifoShape& shape() const { return shape_; }
  bool shareable() const { return memory_->shareable(); }

  SlotHeader* slots(Rank peer, std::uint16_t lane) const;
  Counter* consumed(Rank peer, std::uint16_t lane) const;
  Reading* reads(Rank peer) const;
  std::byte* small_area() const { return control_->data() + layout_.small_area; }  // small_area_bytes()
  std::byte* ping_pong() const { return control_->data() + layout_.ping_pong; }    // kPingPongShareBytes, of two ranks
  // Makes the ring of the small area present (kPairRingBytes), which costs a load when it is. Fails with System when
  // memory is refused.
  Status make_ring();

  // Returns the flag that peers look at after each read by reference. set_aborted() sets it for good.
  const Counter& aborted() const { return prologue().aborted; }
  void set_aborted();
  // Returns the counter in which the driver names its core: see SegmentPrologue::core.
  Counter& core() const { return prologue().core; }
  Counter& kept() const { return prologue().kept; }

  // Begins a sleep, the counterpart of MappedLink::wake(). The caller then looks at all FIFOs once more, polls
  // doorbell() for input and calls end_sleep(). A peer that publishes a message after that look rings the doorbell.
  // Calls may overlap: rings that begin_sleep() clears belong to messages that its caller's look will see.
  void begin_sleep();
  void end_sleep();
  // Makes begin_sleep() force a fence on peers from now on, where the kernel can. This costs this rank more and its
  // peers less.
  void let_sleepers_fence();
  // Returns whether they do. Who sleeps looks again after a moment then (remote_fence.hpp).
  bool sleepers_fence() const;
  int doorbell() const { return control_->doorbell(); }  // non-blocking eventfd

  // Returns the staging of `peer` and `lane`. The first call makes the lane's region, with room for all peers offered
  // so far, shareable like the segment. Fails with InvalidUsage for a peer that was not offered this segment before.
  // Fails with System when memory is refused or all indices are taken.
  Result<Staging> staging(Rank peer, std::uint16_t lane);

  // Returns the name by which slots name [data, data + bytes) of memory made by wreath::allocate. The first use of a
  // region takes an index, which is not used again when the memory is freed. Returns nullopt for other memory, or when
  // no index is left: the caller then uses staging.
  std::optional<RegionName> name_memory(const void* data, std::size_t bytes);

  // Says that this rank uses a device; `memory` makes regions of the device's user memory. Called at most once, before
  // any peer is linked.
  void add_device(std::unique_ptr<SegmentMemory> memory) { device_ = std::move(memory); }
  // Announces regions of the device to `peer` from now on; the peer was offered this segment. The peer says in
  // Reading::regions which of them it maps; slots for the peer may name no others.
  void tell_of_device(Rank peer);
  // Returns the device's number, as slots name it; 0 for none.
  std::uint64_t device() const { return device_ == nullptr ? 0 : device_->device(); }
  bool tells_of_device() const { return tells_of_device_; }
  // Works like name_memory, on memory of the device that other processes can map.
  std::optional<RegionName> name_device_memory(const void* data, std::size_t bytes);
  // Opens a region of the host or of the device that a peer has announced.
  Result<std::shared_ptr<Region>> open(Offer theirs) const;

  // Returns whether take_announcements(peer) would return something. It costs two loads.
  bool has_announcements(Rank peer) const;
  // Returns the regions that were not announced to `peer` yet, in order. Only for peers linked by a transport that
  // maps. Fails with System when descriptors are refused: the next call then returns the same regions.
  Result<std::vector<Announcement>> take_announcements(Rank peer);

  // Returns an offer by which a peer maps this segment: its name and size. With `descriptors`, for a peer in another
  // process, the offer has the memory's and the doorbell's, too. Announcements to this peer do the same.
  Result<Offer> offer(Rank peer, bool descriptors);
  // Returns whether `peer` was offered descriptors, so that it keeps its memory when this segment goes. A peer in this
  // process keeps only regions that it has opened.
  bool offered_descriptors(Rank peer) const;

 private:
  OwnSegment(Rank rank, int ranks, const FifoShape& shape, std::unique_ptr<SegmentMemory> memory,
             std::shared_ptr<Region> control);
  SegmentPrologue& prologue() const { return *reinterpret_cast<SegmentPrologue*>(control_->data()); }

  struct Entry {
    std::uint64_t id = 0;
    std::shared_ptr<Region> held;  // staging only
    // It may also be user memory, which lives as long as its Memory.
    std::weak_ptr<Region> region;
    bool of_device = false;
  };
  struct StagingRegion {
    std::shared_ptr<Region> region;
    std::uint32_t index = 0;
    std::size_t places = 0;  // the count of peers it has room for
  };
  struct Peer {
    bool mapped = false;  // was offered this segment
    bool by_descriptor = false;
    bool maps_device = false;
    std::size_t place = 0;  // in staging regions
    // The first index that was not announced to the peer.
    std::atomic<std::uint32_t> told{1};
  };
  Result<std::uint32_t> add_entry(Entry entry);
  // Returns the bytes of a peer's slots in the staging memory of a lane.
  std::size_t staged_bytes(std::uint16_t lane) const {
    return std::size_t{shape_.slot_count} * shape_.mapped_slot_bytes(lane);
  }
  Status make_staging(std::uint16_t lane);
  std::optional<RegionName> name(const UserMemory& memory, bool of_device);
  Result<std::optional<Offer>> describe(const Entry& entry, const Peer& peer);

  Rank rank_;
  int ranks_;
  FifoShape shape_;
  SegmentLayout layout_;
  std::unique_ptr<SegmentMemory> memory_;
  std::unique_ptr<SegmentMemory> device_;  // null: none
  std::shared_ptr<Region> control_;

  mutable std::mutex mutex_;
  std::array<Entry, kMaximumRegions> entries_;  // by index, from 1
  std::atomic<std::uint32_t> next_index_{1};
  std::vector<StagingRegion> staging_;  // by lane
  std::vector<Peer> peers_;             // by rank
  bool tells_of_device_ = false;
  std::size_t mapped_peers_ = 0;
};

// A peer's segment, which stays mapped as long as this object lives.
class PeerSegment {
 public:
  // Maps the segment that OwnSegment::offer of `peer` described, and checks its magic, version, rank and shape against
  // `own`. On error nothing stays mapped.
  static Result<PeerSegment> open(const OwnSegment& own, Rank peer, Offer theirs);

  // Returns the slots that the peer sends to `reader`.
  const SlotHeader* slots(Rank reader, std::uint16_t lane) const;
  // Returns the counter of messages that the peer has read from `writer`.
  const Counter* consumed(Rank writer, std::uint16_t lane) const;
  const Reading* reads(Rank writer) const;
  const ProcessMemory& process() const { return prologue().process; }
  const std::byte* small_area() const { return region_->data() + layout_.small_area; }  // small_area_bytes()
  // Returns the peer's ping-pong slots, which this process may write; null where that was refused.
  std::byte* ping_pong() const { return writes_ping_pong_ ? region_->data() + layout_.ping_pong : nullptr; }
  // Returns the counter that is not 0 while threads of the peer sleep and want wake().
  const Counter* sleeping() const { return &prologue().sleeping; }
  const Counter* aborted() const { return &prologue().aborted; }
  const Counter* core() const { return &prologue().core; }
  const Counter* kept() const { return &prologue().kept; }
  // Writes the peer's doorbell if the peer sleeps. Called after stores that the peer may wait for.
  void wake() const;

 private:
  PeerSegment(std::shared_ptr<Region> region, SegmentLayout layout) : region_(std::move(region)), layout_(layout) {}
  const SegmentPrologue& prologue() const { return *reinterpret_cast<const SegmentPrologue*>(region_->data()); }
  std::shared_ptr<Region> region_;
  SegmentLayout layout_;
  bool writes_ping_pong_ = false;
};

// Maps the region of the host that an announcement describes, or finds it in this process.
Result<std::shared_ptr<Region>> open_announced(Offer offer);

}  // namespace wreath
