// The host makes ends and region tables in its own memory and copies them to the device, word by word where blocks
// look.
#include "transports/cuda_ipc/link.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <utility>

#include "src/fifo/mapped_link.hpp"

namespace wreath {

Result<std::shared_ptr<DeviceEnds>> DeviceEnds::create(const OwnSegment& own) {
  const std::size_t bytes = static_cast<std::size_t>(own.ranks()) * bytes_of_peer(own.shape().lanes);
  auto region = own.memory().create(bytes, "ends of FIFOs");
  if (!region) return region.error();
  return std::shared_ptr<DeviceEnds>(new DeviceEnds(*std::move(region), own.shape().lanes));
}

Result<std::unique_ptr<Link>> DeviceLink::connect(OwnSegment& own, std::shared_ptr<DeviceEnds> ends, Rank peer,
                                                  Offer theirs) {
  Result<PeerSegment> segment = PeerSegment::open(own, peer, std::move(theirs));
  if (!segment) return segment.error();
  std::unique_ptr<DeviceLink> link(new DeviceLink(own, std::move(ends), peer, *std::move(segment)));
  WREATH_TRY(link->write_ends());
  return std::unique_ptr<Link>(std::move(link));
}

DeviceLink::DeviceLink(OwnSegment& own, std::shared_ptr<DeviceEnds> ends, Rank peer, PeerSegment theirs)
    : own_(own),
      ends_(std::move(ends)),
      peer_(peer),
      theirs_(std::move(theirs)),
      mapped_{theirs_.small_area(), nullptr, theirs_.aborted(), nullptr},
      prepared_(own.shape().lanes) {}

Status DeviceLink::write_ends() {
  std::vector<SendFifo> sends;
  std::vector<RecvFifo> recvs;
  for (std::uint16_t lane = 0; lane < own_.shape().lanes; ++lane) {
    sends.push_back(send_end(own_, peer_, theirs_, lane));
    recvs.push_back(recv_end(own_, peer_, theirs_, lane, ends_->regions(peer_)));
  }
  SegmentMemory& memory = own_.memory();
  WREATH_TRY(
      memory.write(reinterpret_cast<std::byte*>(ends_->sends(peer_)), sends.data(), sends.size() * sizeof sends[0]));
  return memory.write(reinterpret_cast<std::byte*>(ends_->recvs(peer_)), recvs.data(), recvs.size() * sizeof recvs[0]);
}

Status DeviceLink::prepare(std::uint16_t lane) {
  if (prepared_[lane]) return {};
  const Result<Staging> staging = own_.staging(peer_, lane);
  if (!staging) return staging.error();
  SendFifo send;
  send.staging = staging->data;
  send.staging_region = staging->name.index;
  send.staging_offset = staging->name.offset;
  constexpr std::size_t kFirst = offsetof(SendFifo, staging);
  constexpr std::size_t kEnd = offsetof(SendFifo, staging_offset) + sizeof send.staging_offset;
  WREATH_TRY(own_.memory().write(reinterpret_cast<std::byte*>(&send_fifo(lane)) + kFirst,
                                 reinterpret_cast<const std::byte*>(&send) + kFirst, kEnd - kFirst));
  prepared_[lane] = true;
  return {};
}

Status DeviceLink::accept_region(std::uint32_t index, Offer offer) {
  WREATH_TRY(check_announced(peer_, index, index < kMaximumRegions && held_regions_[index] != nullptr));
  Result<std::shared_ptr<Region>> region = own_.memory().open(std::move(offer));
  if (!region) {
    return Error{region.error().code, fmt::format("region {} of rank {}: {}", index, peer_, region.error().message)};
  }
  RegionView& view = ends_->regions(peer_)[index];
  SegmentMemory& memory = own_.memory();
  const std::uint64_t bytes = (*region)->bytes();
  WREATH_TRY(memory.write(reinterpret_cast<std::byte*>(&view.bytes), &bytes, sizeof bytes));
  WREATH_TRY(memory.store(view.base, (*region)->data()));
  held_regions_[index] = *std::move(region);
  return {};
}

}  // namespace wreath
