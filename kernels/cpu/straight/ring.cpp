// Rings by hand: what comes from the rank before is summed or kept, and goes to the rank after.
#include "kernels/cpu/straight/loops.hpp"
#include "kernels/cpu/straight/primitives.hpp"

namespace wreath {
namespace {

// A data lane has one FIFO from the rank before and one to the rank after.
struct Ring {
  explicit Ring(const StraightTurn& turn)
      : ranks(static_cast<std::uint32_t>(turn.ranks)),
        me(static_cast<std::uint32_t>(turn.me)),
        previous{turn.lane.data_lane, 1},
        next{turn.lane.data_lane, 1} {}
  // `distance` is 0 to `ranks`.
  std::uint32_t before(std::uint32_t distance) const { return me >= distance ? me - distance : me + ranks - distance; }

  std::uint32_t ranks;
  std::uint32_t me;
  Strand::Ends previous;
  Strand::Ends next;
};

}  // namespace

Advance straight_ring_all_reduce(const StraightTurn& turn) {
  Strand lane(turn);
  const Ring ring(turn);
  const std::uint32_t n = ring.ranks;
  return lane.tile(2 * n - 1, [&](std::uint32_t k) {
    if (k == 0) return lane.send(ring.next, Strand::input(ring.before(1)));
    if (k < n) {  // partial sums travel; the last to arrive completes our own part
      const std::uint32_t part = ring.before(k + 1);
      return lane.recv_reduce_send(ring.previous, k == 1 ? lane.form_of_inputs() : Form::Partial, Strand::input(part),
                                   k == n - 1 ? Strand::output(part) : Strand::partial(part), ring.next);
    }
    const std::uint32_t part = ring.before(k - n + 1);  // complete parts travel; nobody needs what the next rank made
    if (k < 2 * n - 2) return lane.recv_send(ring.previous, Strand::output(part), ring.next);
    return lane.recv(ring.previous, Strand::output(part));
  });
}

Advance straight_ring_reduce_scatter(const StraightTurn& turn) {
  Strand lane(turn);
  const Ring ring(turn);
  const std::uint32_t n = ring.ranks;
  return lane.tile(n, [&](std::uint32_t k) {
    if (k == 0) return lane.send(ring.next, Strand::input(ring.before(1)));
    const std::uint32_t part = ring.before(k + 1);
    const Form incoming = k == 1 ? lane.form_of_inputs() : Form::Partial;
    if (k == n - 1) return lane.recv_reduce(ring.previous, incoming, Strand::input(part), Strand::output(part));
    return lane.recv_reduce_send(ring.previous, incoming, Strand::input(part), Strand::partial(part), ring.next);
  });
}

Advance straight_ring_all_gather(const StraightTurn& turn) {
  Strand lane(turn);
  const Ring ring(turn);
  const std::uint32_t n = ring.ranks;
  return lane.tile(n + 1, [&](std::uint32_t k) {
    if (k == 0) return lane.send(ring.next, Strand::input(ring.me));
    if (k == 1) return lane.copy(Strand::input(ring.me), Strand::output(ring.me));
    const Chunk block = Strand::output(ring.before(k - 1));
    return k < n ? lane.recv_send(ring.previous, block, ring.next) : lane.recv(ring.previous, block);
  });
}

}  // namespace wreath
