// Part p of the reverse ring starts at rank p-1 and goes to lower ranks. Each rank on the way adds its own input.
#include "reverse_ring.hpp"

namespace wreath {

Schedule reverse_ring_all_reduce(const Problem& problem, Rank me) {
  const int n = problem.ranks;
  const Rank next = (me + n - 1) % n;
  const Rank previous = (me + 1) % n;
  // Returns the part of the rank `ahead` of this one.
  const auto part = [&](Buffer buffer, int ahead) {
    return Chunk{buffer, static_cast<std::uint32_t>((me + ahead) % n)};
  };
  Schedule schedule(static_cast<std::uint32_t>(n));
  Lane& lane = schedule.lane();
  if (n == 1) {
    lane.copy(part(Buffer::Input, 0), part(Buffer::Output, 0));
    return schedule;
  }

  lane.send(next, part(Buffer::Input, 1));
  // Partial sums go to lower ranks. The last one to arrive completes this rank's own part.
  for (int k = 2; k <= n; ++k) {
    const Chunk sum = part(k == n ? Buffer::Output : Buffer::Partial, k);
    lane.recv_reduce(previous, part(Buffer::Input, k), sum, {.form = k == 2 ? Form::Data : Form::Partial});
    lane.send(next, sum);
  }
  // Complete parts go to lower ranks. No rank needs the part that the next rank made.
  for (int k = 1; k < n; ++k) {
    lane.recv(previous, part(Buffer::Output, k));
    if (k < n - 1) lane.send(next, part(Buffer::Output, k));
  }
  return schedule;
}

Cost reverse_ring_cost(const Problem& problem) {
  const int n = problem.ranks;
  return {2 * (n - 1), 2.0 * (n - 1) / n};
}

}  // namespace wreath
