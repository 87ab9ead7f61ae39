// A rank's control segment: what it tells its peers, in memory that only it writes. Peers map it
// read only. One per communicator and rank, used by every transport that maps memory.
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

// The first bytes of a segment. Written before the segment is offered to anyone; the counters change.
struct SegmentPrologue {
  std::uint64_t magic;
  std::uint32_t version;
  std::int32_t rank;
  std::int32_t ranks;
  std::uint32_t slot_count;
  std::uint32_t slot_bytes;
  std::uint32_t first_sequence;
  std::uint16_t lanes;
  std::uint16_t epoch;
  ProcessMemory process;  // the owner's
  Counter sleeping;       // threads of the owner that wait for its doorbell; with kSleepersFence or without
  Counter aborted;        // non-zero: what the owner's slots name may have been changed
  Counter core;           // 1 + the core that the owner's driver waits on; 0: none was told
};

// In SegmentPrologue::sleeping: the owner's sleepers fence other processes (base/remote_fence.hpp) before their last
// look, so that who publishes need not. Set once, for good.
inline constexpr std::uint32_t kSleepersFence = 0x8000'0000U;
// After stores that threads of the owner of `sleeping` may wait for: whether one sleeps. Passes a fence where that is
// this side's part, and none where `fenced` says that one was passed since the stores.
bool is_asleep(const Counter& sleeping, bool& fenced) noexcept;

// What a rank reads of a peer's memory: written by the reader.
struct alignas(64) Reading {
  std::uint32_t process = 0;  // through the kernel: 0 nobody tried, 1 it does, else 1 + errno
  std::uint64_t regions = 0;  // of a device: bit i says that region i is mapped. No bit is taken back.
};
static_assert(kMaximumRegions <= 64);

// Where things are in a segment: a function of values that all ranks agree on.
struct SegmentLayout {
  SegmentLayout(int ranks, const FifoShape& shape);
  std::size_t slots_at(Rank peer, std::uint16_t lane) const;     // outgoing: slot_count SlotHeaders
  std::size_t consumed_at(Rank peer, std::uint16_t lane) const;  // incoming: one Counter
  std::size_t reads_at(Rank peer) const;                         // one Reading
  std::size_t small_area = 0;
  std::size_t bytes = 0;  // of the whole segment

 private:
  std::size_t lanes_;
  std::size_t slot_count_;
  std::size_t consumed_;
  std::size_t reads_;
};

// How a slot names memory: {SlotHeader::region, SlotHeader::offset}.
struct RegionName {
  std::uint32_t index;
  std::uint64_t offset;
};

// A region that a peer must learn of: sent over the control connection, given to MappedLink::accept_region.
struct Announcement {
  std::uint32_t index;
  Offer offer;
};

// Staging memory of one peer and lane: slot_count x slot_bytes.
struct Staging {
  std::byte* data;
  RegionName name;
};

// The own side. Counters and areas are for the driver; staging, name_memory and announcements may be
// used by several threads at once. Outlives the links made over it.
class OwnSegment {
 public:
  // Shareable: other processes can map it (memfd); else only this one. All pages are present
  // afterwards. InvalidArgument for a shape or rank out of range, System when memory is refused.
  static Result<std::unique_ptr<OwnSegment>> create(Rank rank, int ranks, const FifoShape& shape, bool shareable);

  Rank rank() const { return rank_; }
  int ranks() const { return ranks_; }
  const FifoShape& shape() const { return shape_; }
  bool shareable() const { return memory_->shareable(); }

  SlotHeader* slots(Rank peer, std::uint16_t lane) const;
  Counter* consumed(Rank peer, std::uint16_t lane) const;
  Reading* reads(Rank peer) const;
  std::byte* small_area() const { return control_->data() + layout_.small_area; }  // kSmallAreaBytes

  // Peers that read by reference look at it after each read. Set for good by set_aborted().
  const Counter& aborted() const { return prologue().aborted; }
  void set_aborted();
  // Where the driver tells its core: see SegmentPrologue::core.
  Counter& core() const { return prologue().core; }

  // The sleeper's half of MappedLink::wake(): begin_sleep(), look at all FIFOs once more, poll doorbell() for
  // input, end_sleep(). A message published after that look writes the doorbell. Calls may overlap: what
  // begin_sleep() takes from the doorbell was rung for messages that its caller's look will see.
  void begin_sleep();
  void end_sleep();
  // From now on begin_sleep() makes peers pass a fence: dearer for this rank, cheaper for them. Where the kernel can.
  void let_sleepers_fence();
  int doorbell() const { return control_->doorbell(); }  // non-blocking eventfd

  // Staging of `peer` and `lane`; the lane's region (all peers offered so far) is made by the first
  // call, shareable like the segment. InvalidUsage for a peer that was not offered this segment
  // before; System when memory is refused or all indices are taken.
  Result<Staging> staging(Rank peer, std::uint16_t lane);

  // How slots name [data, data + bytes) of memory made by wreath::allocate; the first use of a region
  // takes an index. nullopt: not such memory, or no index is left; use
  // staging. Indices of freed memory are not used again.
  std::optional<RegionName> name_memory(const void* data, std::size_t bytes);

  // Once, before any peer is linked: this rank uses a device, of whose user memory `memory` makes regions.
  void add_device(std::unique_ptr<SegmentMemory> memory) { device_ = std::move(memory); }
  // From now on `peer`, which was offered this segment, is told of regions of the device. Those that it maps it
  // says in Reading::regions; slots for it may name no others.
  void tell_of_device(Rank peer);
  std::uint64_t device() const { return device_ == nullptr ? 0 : device_->device(); }  // as slots name it
  bool tells_of_device() const { return tells_of_device_; }
  // As name_memory, of the device's memory that other processes can map.
  std::optional<RegionName> name_device_memory(const void* data, std::size_t bytes);
  // A region that a peer has announced, of the host or of the device.
  Result<std::shared_ptr<Region>> open(Offer theirs) const;

  // Whether take_announcements(peer) would return something; costs two loads.
  bool has_announcements(Rank peer) const;
  // The regions `peer` has not been told of, in order. Only for peers linked by a transport that maps.
  // System when descriptors are refused; the same regions are returned by the next call then.
  Result<std::vector<Announcement>> take_announcements(Rank peer);

  // What a peer needs to map this segment: name and size, and with `descriptors` the memory's and the
  // doorbell's (a peer in another process). Announcements to this peer do alike.
  Result<Offer> offer(Rank peer, bool descriptors);
  // Whether what `peer` was told of stays its own when this segment goes: not in this process, before it looked.
  bool offered_descriptors(Rank peer) const;

  // Memory held: the segment and all staging.
  std::size_t total_bytes() const;

 private:
  OwnSegment(Rank rank, int ranks, const FifoShape& shape, std::unique_ptr<SegmentMemory> memory,
             std::shared_ptr<Region> control);
  SegmentPrologue& prologue() const { return *reinterpret_cast<SegmentPrologue*>(control_->data()); }

  struct Entry {
    std::uint64_t id = 0;
    std::shared_ptr<Region> held;  // staging
    std::weak_ptr<Region> region;  // of user memory, too, which lives as long as its Memory
    bool of_device = false;
  };
  struct StagingRegion {
    std::shared_ptr<Region> region;
    std::uint32_t index = 0;
    std::size_t places = 0;  // peers it has room for
  };
  struct Peer {
    bool mapped = false;  // was offered this segment
    bool by_descriptor = false;
    bool maps_device = false;
    std::size_t place = 0;               // in staging regions
    std::atomic<std::uint32_t> told{1};  // the first index it does not know
  };
  Result<std::uint32_t> add_entry(Entry entry);
  Status make_staging(StagingRegion& staging);
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
  std::size_t staging_bytes_ = 0;
};

// A peer's segment, mapped. Holds it for as long as it lives.
class PeerSegment {
 public:
  // Maps what OwnSegment::offer of `peer` described and checks magic, version, rank and shape against
  // `own`. An error says what is wrong, with nothing left mapped.
  static Result<PeerSegment> open(const OwnSegment& own, Rank peer, Offer theirs);

  const SlotHeader* slots(Rank reader, std::uint16_t lane) const;  // what it sends to `reader`
  const Counter* consumed(Rank writer, std::uint16_t lane) const;  // what it took from `writer`
  const Reading* reads(Rank writer) const;                         // as OwnSegment::reads
  const ProcessMemory& process() const { return prologue().process; }
  const std::byte* small_area() const { return region_->data() + layout_.small_area; }
  const Counter* sleeping() const { return &prologue().sleeping; }
  const Counter* aborted() const { return &prologue().aborted; }
  const Counter* core() const { return &prologue().core; }
  // After stores that the peer may wait for: writes its doorbell if it sleeps.
  void wake() const;

 private:
  PeerSegment(std::shared_ptr<Region> region, SegmentLayout layout) : region_(std::move(region)), layout_(layout) {}
  const SegmentPrologue& prologue() const { return *reinterpret_cast<const SegmentPrologue*>(region_->data()); }
  std::shared_ptr<Region> region_;
  SegmentLayout layout_;
};

// Maps the region of the host that an announcement describes, or finds it in this process.
Result<std::shared_ptr<Region>> open_announced(Offer offer);

}  // namespace wreath
