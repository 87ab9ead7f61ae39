// A link between two ranks that map each other's device memory: blocks run its FIFOs, whose ends lie on the device,
// too.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "src/fifo/segment.hpp"
#include "wreath/transport.hpp"

namespace wreath {

// The ends of all FIFOs of a rank, in memory that its device's blocks read and write.
class DeviceEnds {
 public:
  static Result<std::shared_ptr<DeviceEnds>> create(const OwnSegment& own);

  RegionView* regions(Rank peer) const { return reinterpret_cast<RegionView*>(at(peer)); }
  SendFifo* sends(Rank peer) const { return reinterpret_cast<SendFifo*>(at(peer) + kRegionBytes); }
  RecvFifo* recvs(Rank peer) const {
    return reinterpret_cast<RecvFifo*>(at(peer) + kRegionBytes + lanes_ * sizeof(SendFifo));
  }

 private:
  static constexpr std::size_t kRegionBytes = kMaximumRegions * sizeof(RegionView);

  DeviceEnds(std::shared_ptr<Region> region, std::size_t lanes) : region_(std::move(region)), lanes_(lanes) {}
  static std::size_t bytes_of_peer(std::size_t lanes) {
    return kRegionBytes + lanes * (sizeof(SendFifo) + sizeof(RecvFifo));
  }
  std::byte* at(Rank peer) const { return region_->data() + static_cast<std::size_t>(peer) * bytes_of_peer(lanes_); }

  std::shared_ptr<Region> region_;
  std::size_t lanes_;
};

// send_fifo() and recv_fifo() are addresses for the device: the host does not look at them.
class DeviceLink final : public Link {
 public:
  // Links `own` to `peer`, whose segment `theirs` offers. `own` outlives the link.
  static Result<std::unique_ptr<Link>> connect(OwnSegment& own, std::shared_ptr<DeviceEnds> ends, Rank peer,
                                               Offer theirs);

  SendFifo& send_fifo(std::uint16_t lane) override { return ends_->sends(peer_)[lane]; }
  RecvFifo& recv_fifo(std::uint16_t lane) override { return ends_->recvs(peer_)[lane]; }
  Status prepare(std::uint16_t lane) override;
  Status accept_region(std::uint32_t index, Offer offer) override;
  // Addresses for the device; nobody sleeps.
  const MappedPeer* mapped() const override { return &mapped_; }

 private:
  DeviceLink(OwnSegment& own, std::shared_ptr<DeviceEnds> ends, Rank peer, PeerSegment theirs);
  Status write_ends();

  OwnSegment& own_;
  std::shared_ptr<DeviceEnds> ends_;
  Rank peer_;
  PeerSegment theirs_;
  MappedPeer mapped_;
  std::vector<bool> prepared_;                                         // by lane
  std::array<std::shared_ptr<Region>, kMaximumRegions> held_regions_;  // the progress thread's
};

}  // namespace wreath
