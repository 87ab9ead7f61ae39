// A link between two ranks that map each other's segments: no pump, the FIFOs are the whole of it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "src/fifo/segment.hpp"
#include "wreath/transport.hpp"

namespace wreath {

// How the peer's memory is reached beside what it maps.
struct PeerReach {
  bool single_copy = false;   // try whether this process reads the peer's memory, and tell the peer
  bool same_process = false;  // the peer's is this one
};

class MappedLink final : public Link {
 public:
  // Links `own` to `peer`, whose segment `theirs` offers. `own` outlives the link.
  static Result<std::unique_ptr<Link>> connect(OwnSegment& own, Rank peer, Offer theirs, const PeerReach& reach = {});

  SendFifo& send_fifo(std::uint16_t lane) override { return send_[lane]; }
  RecvFifo& recv_fifo(std::uint16_t lane) override { return recv_[lane]; }
  Status prepare(std::uint16_t lane) override;
  bool closing_loses_data() const override;
  void wake() override { theirs_.wake(); }
  Status accept_region(std::uint32_t index, Offer offer) override;
  std::optional<Status> single_copy() const override;
  const MappedPeer* mapped() const override { return &mapped_; }

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
