// Bruck's all-to-all: a block that has to go d ranks on takes one hop for each bit of d, together with all others of
// that bit (Bruck, Ho, Kipnis, Upfal and Weathersby, "Efficient algorithms for all-to-all communications in multiport
// message-passing systems", TPDS 8(11), 1997). For small blocks.
// n ranks, S bytes of Input: ceil(log2 n) steps; every rank sends and receives about S/2 in each, packed by a copy.
#include "algorithms/words.hpp"

namespace wreath {
namespace {

// Returns the distances below n that have `bit` set, ascending.
std::vector<int> distances_with(int bit, int n) {
  std::vector<int> distances;
  for (int distance = 1; distance < n; ++distance) {
    if ((distance & bit) != 0) distances.push_back(distance);
  }
  return distances;
}

Schedule build_bruck_all_to_all(const Problem& problem, Rank me) {
  const int n = problem.ranks;
  const Ring ring = Ring::of(problem, me);
  Schedule schedule(static_cast<std::uint32_t>(n));
  Lane& lane = schedule.lane();

  lane.copy(input(me), output(me));
  // The present place of each block, by the distance that the block goes in all.
  std::vector<Chunk> places;
  for (int distance = 0; distance < n; ++distance) places.push_back(input(ring.after(distance)));
  // Places before this one hold what is packed for one message. Places from it on hold what came.
  int slot = n / 2;
  for (int bit = 1; bit < n; bit *= 2) {
    const std::vector<int> moving = distances_with(bit, n);
    const int count = static_cast<int>(moving.size());
    const bool last = 2 * bit >= n;
    Chunks sent, received;
    for (int i = 0; i < count; ++i) {
      const int distance = moving[static_cast<std::size_t>(i)];
      Chunk& place = places[static_cast<std::size_t>(distance)];
      // The block came (distance mod bit) ranks so far, and comes from (distance mod 2 bit) ranks before this rank
      // next.
      const int came_from = ring.before(distance % (2 * bit));
      if (bit > 1) {
        const Chunk packed = scratch(i, static_cast<int>(place.part));
        lane.copy(place, packed);
        place = packed;
      }
      sent.push_back(place);
      place = last ? output(came_from) : scratch(slot + i, came_from);
      received.push_back(place);
    }
    exchange(lane, ring.after(bit), sent, {.from = ring.before(bit), .target = received});
    for (const int distance : moving) {
      const bool arrived = distance < 2 * bit && !last;
      if (arrived) lane.copy(places[static_cast<std::size_t>(distance)], output(ring.before(distance)));
    }
    slot += count;
  }
  return schedule;
}

Cost cost_of_bruck_all_to_all(const Problem& problem) {
  Cost cost;
  for (int bit = 1; bit < problem.ranks; bit *= 2) {
    const int blocks = static_cast<int>(distances_with(bit, problem.ranks).size());
    cost.steps += messages(blocks);
    cost.bytes += static_cast<double>(blocks) / problem.ranks;
  }
  return cost;
}

}  // namespace

extern constexpr Algorithm kBruckAllToAll{.name = "bruck",
                                          .collective = Collective::AllToAll,
                                          .order = Order::Canonical,
                                          .minimum_resident_lanes = 1,
                                          .traits = kSeveralParts,
                                          .supports = any_ranks,
                                          .build = build_bruck_all_to_all,
                                          .cost = cost_of_bruck_all_to_all};

}  // namespace wreath
