// Makes one rank's side of a link over shared memory, with a device whose memory the rank's peer may map.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "src/device/library_device.hpp"
#include "src/device/runs/device_segment_memory.hpp"
#include "src/fifo/mapped_link.hpp"
#include "src/fifo/segment.hpp"

namespace wreath::test {

inline constexpr FifoShape kShape{.lanes = 2, .slot_count = 4, .slot_bytes = 4096, .first_sequence = 7, .epoch = 0};

struct End {
  std::unique_ptr<OwnSegment> segment;
  std::unique_ptr<MappedLink> link;

  End(LibraryDevice& device, Rank rank)
      : segment(std::move(OwnSegment::create(rank, 3, kShape, host_segment_memory(true))).value()) {
    segment->add_device(device_segment_memory(device));
  }
  // Links this end to its peer as if the peer were in another process.
  void link_to(End& peer) {
    link = std::move(MappedLink::connect(*segment, peer.segment->rank(),
                                         std::move(peer.segment->offer(segment->rank(), true)).value()))
               .value();
    peer.segment->tell_of_device(segment->rank());
  }
  // Names `memory` and returns the announcements that the peer then gets. The two ranks are 0 and 1.
  std::vector<Announcement> announce(const DeviceMemory& memory) const {
    segment->name_device_memory(memory.data(), memory.size()).value();
    return std::move(segment->take_announcements(1 - segment->rank())).value();
  }
};

}  // namespace wreath::test
