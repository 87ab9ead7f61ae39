// One rank's side of cuda_ipc, as a communicator makes it.
#pragma once

#include <memory>
#include <utility>

#include "src/device/library_device.hpp"
#include "src/fifo/device_segment_memory.hpp"
#include "src/fifo/segment.hpp"

namespace wreath::test {

struct DeviceEnd {
  LibraryDevice& device;
  Endpoint endpoint;
  std::unique_ptr<OwnSegment> segment;
  std::unique_ptr<Transport> transport;

  DeviceEnd(LibraryDevice& of, Rank rank, std::uint64_t process, const FifoShape& shape)
      : device(of), endpoint{rank, process, 1, of.identity()} {
    segment = std::move(OwnSegment::create(rank, 2, shape, device_segment_memory(of))).value();
    TransportContext context{endpoint, 2, shape, segment.get()};
    context.device = &of;
    transport = std::move(find_transport("cuda_ipc")->make(context)).value();
  }
  Offer offer(const Endpoint& peer) const { return std::move(transport->offer(peer)).value(); }
  Result<std::unique_ptr<Link>> connect(const Endpoint& peer, Offer theirs) const {
    return transport->connect(peer, std::move(theirs));
  }
};

}  // namespace wreath::test
