// Rings by hand: what comes from the rank before is summed or kept, and goes to the rank after.
#pragma once

#include "kernels/straight/strand.hpp"

namespace wreath {

// A data lane has one FIFO from the rank before and one to the rank after.
template <typename Processor>
struct StraightRing {
  WREATH_HOST_DEVICE explicit StraightRing(const StraightTurn<Processor>& turn)
      : ranks(static_cast<std::uint32_t>(turn.ranks)),
        me(static_cast<std::uint32_t>(turn.me)),
        previous{turn.lane.data_lane, 1},
        next{turn.lane.data_lane, 1} {}
  // `distance` is 0 to `ranks`.
  WREATH_HOST_DEVICE std::uint32_t before(std::uint32_t distance) const {
    return me >= distance ? me - distance : me + ranks - distance;
  }

  std::uint32_t ranks;
  std::uint32_t me;
  typename Strand<Processor>::Ends previous;
  typename Strand<Processor>::Ends next;
};

template <typename Processor>
WREATH_HOST_DEVICE inline Advance straight_ring_all_reduce(const StraightTurn<Processor>& turn) {
  using Words = Strand<Processor>;
  Words lane(turn);
  const StraightRing<Processor> ring(turn);
  const std::uint32_t n = ring.ranks;
  return lane.tile(2 * n - 1, [&](std::uint32_t k) {
    if (k == 0) return lane.send(ring.next, Words::input(ring.before(1)));
    if (k < n) {  // partial sums travel; the last to arrive completes our own part
      const std::uint32_t part = ring.before(k + 1);
      return lane.recv_reduce_send(ring.previous, k == 1 ? lane.form_of_inputs() : Form::Partial, Words::input(part),
                                   k == n - 1 ? Words::output(part) : Words::partial(part), ring.next);
    }
    const std::uint32_t part = ring.before(k - n + 1);  // complete parts travel; nobody needs what the next rank made
    if (k < 2 * n - 2) return lane.recv_send(ring.previous, Words::output(part), ring.next);
    return lane.recv(ring.previous, Words::output(part));
  });
}

template <typename Processor>
WREATH_HOST_DEVICE inline Advance straight_ring_reduce_scatter(const StraightTurn<Processor>& turn) {
  using Words = Strand<Processor>;
  Words lane(turn);
  const StraightRing<Processor> ring(turn);
  const std::uint32_t n = ring.ranks;
  return lane.tile(n, [&](std::uint32_t k) {
    if (k == 0) return lane.send(ring.next, Words::input(ring.before(1)));
    const std::uint32_t part = ring.before(k + 1);
    const Form incoming = k == 1 ? lane.form_of_inputs() : Form::Partial;
    if (k == n - 1) return lane.recv_reduce(ring.previous, incoming, Words::input(part), Words::output(part));
    return lane.recv_reduce_send(ring.previous, incoming, Words::input(part), Words::partial(part), ring.next);
  });
}

template <typename Processor>
WREATH_HOST_DEVICE inline Advance straight_ring_all_gather(const StraightTurn<Processor>& turn) {
  using Words = Strand<Processor>;
  Words lane(turn);
  const StraightRing<Processor> ring(turn);
  const std::uint32_t n = ring.ranks;
  return lane.tile(n + 1, [&](std::uint32_t k) {
    if (k == 0) return lane.send(ring.next, Words::input(ring.me));
    if (k == 1) return lane.copy(Words::input(ring.me), Words::output(ring.me));
    const Chunk block = Words::output(ring.before(k - 1));
    return k < n ? lane.recv_send(ring.previous, block, ring.next) : lane.recv(ring.previous, block);
  });
}

}  // namespace wreath
