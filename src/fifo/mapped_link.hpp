// A link between two ranks that map each other's segments. It has no pump: the FIFOs are the whole of it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "src/fifo/segment.hpp"
#include "wreath/link.hpp"

namespace wreath {

// A peer's memory as this rank sees it, read only. The small-message protocols and the driver use it.
struct MappedPeer {
  const std::byte* small_area = nullptr;   // kSmallAreaBytes
  const Counter* sleeping = nullptr;       // non-zero: the peer's driver sleeps and wants MappedLink::wake()
  const Counter* aborted = nullptr;        // non-zero: data of the peer's slots may have been changed
  const std::uint64_t* regions = nullptr;  // bit i: the peer has mapped region i of this rank's device
  bool same_process = false;               // the peer's process is this one
  const Counter* core = nullptr;           // 1 + the core that the peer's driver waits on; 0: none was told
};

// The peer's memory may be reached in other ways, too.
struct PeerReach {
  bool single_copy = false;   // try whether this process reads the peer's memory, and tell the peer
  bool same_process = false;  // the peer's is this one
};

class MappedLink final : public Link {
 public:
  // Links `own` to `peer`, whose segment `theirs` offers. `own` outlives the link.
  static Result<std::unique_ptr<MappedLink>> connect(OwnSegment& own, Rank peer, Offer theirs,
                                                     const PeerReach& reach = {});

  SendFifo& send_fifo(std::uint16_t lane) override { return send_[lane]; }
  RecvFifo& recv_fifo(std::uint16_t lane) override { return recv_[lane]; }
  Status prepare(std::uint16_t lane) override;
  bool closing_loses_data() const override;
  MappedLink* mapped() override { return this; }

  // Returns what the two ends share beside FIFOs.
  const MappedPeer& peer() const { return mapped_; }
  // Wakes the peer's driver if it sleeps, after messages were published or consumed.
  void wake() { theirs_.wake(); }
  // Learns of memory that the peer's slots will name as region `index` (see Region announcements in
  // docs/adding-a-transport.md). The progress thread calls it while the driver runs.
  Status accept_region(std::uint32_t index, Offer offer);
  // Says why the peer does not read this process's memory through the kernel (kPeerAddress); nullopt: nobody tried.
  std::optional<Status> single_copy() const;

 private:
  MappedLink(OwnSegment& own, Rank peer, PeerSegment theirs);
  void try_to_read();

  OwnSegment& own_;
  Rank peer_;
  PeerSegment theirs_;
  MappedPeer mapped_;
  ProcessMemory process_;
  std::vector<SendFifo> send_;
  std::vector<RecvFifo> recv_;
  std::array<RegionView, kMaximumRegions> regions_;                    // read by the driver
  std::array<std::shared_ptr<Region>, kMaximumRegions> held_regions_;  // the progress thread's
  bool told_staged_ = false;
};

}  // namespace wreath
