// A link between two ranks that map each other's segments has no pump: it is made of FIFOs only.
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

// Says in which other ways the peer's memory may be reached.
struct PeerReach {
  // The link tries whether this process can read the peer's memory, and writes the answer for the peer.
  bool single_copy = false;
  bool same_process = false;
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

  // Returns the peer's memory, read only. The small-message protocols and the driver use it.
  const PeerSegment& peer() const { return theirs_; }
  // Lets this rank fill ping-pong slots from now on. Requires peer().ping_pong(), and a peer that does the same.
  void fill_ping_pong();
  bool same_process() const { return same_process_; }
  // Returns a word whose bit i says that the peer has mapped region i of this rank's device.
  const std::uint64_t& mapped_regions() const { return theirs_.reads(own_.rank())->regions; }
  // Wakes the peer's driver if it sleeps, after messages were published or consumed.
  void wake() { theirs_.wake(); }
  // Opens memory that the peer's slots will name as region `index` (see Region announcements in
  // docs/adding-a-transport.md). The progress thread calls it while the driver runs.
  Status accept_region(std::uint32_t index, Offer offer);
  // Says why the peer does not read this process's memory through the kernel; nullopt when the peer has not tried. Such
  // data is at a kPeerAddress.
  std::optional<Status> single_copy() const;

 private:
  MappedLink(OwnSegment& own, Rank peer, PeerSegment theirs);
  void try_to_read();
  std::uint32_t first_ping_pong() const;

  OwnSegment& own_;
  Rank peer_;
  PeerSegment theirs_;
  bool same_process_ = false;
  ProcessMemory process_;
  PingPongSlots ping_pong_;
  std::vector<SendFifo> send_;
  std::vector<RecvFifo> recv_;
  std::array<RegionView, kMaximumRegions> regions_;                    // the driver reads it
  std::array<std::shared_ptr<Region>, kMaximumRegions> held_regions_;  // for the progress thread
  bool told_staged_ = false;
};

}  // namespace wreath
