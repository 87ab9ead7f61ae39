// Runs rings by hand: a message from the rank before is summed or kept, and goes to the rank after.
#pragma once

#include "src/executor/handwritten/lane.hpp"

namespace wreath {

// A data lane has one FIFO from the rank before and one to the rank after.
template <typename Processor>
struct RingPlace {
  WREATH_HOST_DEVICE explicit RingPlace(const HandwrittenLane<Processor>& lane)
      : ranks(lane.ranks()), me(lane.rank()), previous{lane.data_lane(), 1}, next{lane.data_lane(), 1} {}
  // Returns the rank that is `distance` ranks before this one. `distance` is 0 to `ranks`.
  WREATH_HOST_DEVICE std::uint32_t before(std::uint32_t distance) const {
    return me >= distance ? me - distance : me + ranks - distance;
  }

  std::uint32_t ranks;
  std::uint32_t me;
  FifoRange previous;
  FifoRange next;
};

template <typename Processor>
WREATH_HOST_DEVICE inline Advance ring_all_reduce_by_hand(HandwrittenLane<Processor> lane) {
  const RingPlace<Processor> ring(lane);
  const std::uint32_t n = ring.ranks;
  return lane.tile(2 * n - 1, [&](std::uint32_t k) {
    if (k == 0) return lane.send(ring.next, lane.input(ring.before(1)));
    // Partial sums travel. The last one to arrive completes the rank's own part.
    if (k < n) {
      const std::uint32_t part = ring.before(k + 1);
      return lane.recv_reduce_send(ring.previous, k == 1 ? lane.form_of_inputs() : Form::Partial, lane.input(part),
                                   k == n - 1 ? lane.output(part) : lane.partial(part), ring.next);
    }
    // Complete parts travel. Nobody needs the part that the next rank made.
    const std::uint32_t part = ring.before(k - n + 1);
    if (k < 2 * n - 2) return lane.recv_send(ring.previous, lane.output(part), ring.next);
    return lane.recv(ring.previous, lane.output(part));
  });
}

template <typename Processor>
WREATH_HOST_DEVICE inline Advance ring_reduce_scatter_by_hand(HandwrittenLane<Processor> lane) {
  const RingPlace<Processor> ring(lane);
  const std::uint32_t n = ring.ranks;
  return lane.tile(n, [&](std::uint32_t k) {
    if (k == 0) return lane.send(ring.next, lane.input(ring.before(1)));
    const std::uint32_t part = ring.before(k + 1);
    const Form incoming = k == 1 ? lane.form_of_inputs() : Form::Partial;
    if (k == n - 1) return lane.recv_reduce(ring.previous, incoming, lane.input(part), lane.output(part));
    return lane.recv_reduce_send(ring.previous, incoming, lane.input(part), lane.partial(part), ring.next);
  });
}

template <typename Processor>
WREATH_HOST_DEVICE inline Advance ring_all_gather_by_hand(HandwrittenLane<Processor> lane) {
  const RingPlace<Processor> ring(lane);
  const std::uint32_t n = ring.ranks;
  return lane.tile(n + 1, [&](std::uint32_t k) {
    if (k == 0) return lane.send(ring.next, lane.input(ring.me));
    if (k == 1) return lane.copy(lane.input(ring.me), lane.output(ring.me));
    const Chunk block = lane.output(ring.before(k - 1));
    return k < n ? lane.recv_send(ring.previous, block, ring.next) : lane.recv(ring.previous, block);
  });
}

}  // namespace wreath
