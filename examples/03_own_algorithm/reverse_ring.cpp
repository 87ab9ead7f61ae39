// The schedule of the reverse ring: part p starts at rank p-1 and travels down, summed on the way.
#include "reverse_ring.hpp"

namespace wreath {

Schedule reverse_ring_all_reduce(const Problem& problem, Rank me) {
  const int n = problem.ranks;
  const Rank next = (me + n - 1) % n;
  const Rank previous = (me + 1) % n;
  const auto part = [&](Buffer buffer, int ahead) {  // the part of the rank `ahead` of us
    return Chunk{buffer, static_cast<std::uint32_t>((me + ahead) % n)};
  };
  Schedule schedule(static_cast<std::uint32_t>(n));
  Lane& lane = schedule.lane();
  if (n == 1) {
    lane.copy(part(Buffer::Input, 0), part(Buffer::Output, 0));
    return schedule;
  }

  lane.send(next, part(Buffer::Input, 1));
  for (int k = 2; k <= n; ++k) {  // partial sums travel down; the last to arrive completes our own part
    const Chunk sum = part(k == n ? Buffer::Output : Buffer::Partial, k);
    lane.recv_reduce(previous, part(Buffer::Input, k), sum, {.form = k == 2 ? Form::Data : Form::Partial});
    lane.send(next, sum);
  }
  for (int k = 1; k < n; ++k) {  // complete parts travel; nobody needs what the next rank made
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
