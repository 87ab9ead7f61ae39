// The table of perf tools.
#include "perf/common/collectives.hpp"

#include <algorithm>
#include <array>

#include "perf/base/pattern.hpp"
#include "perf/base/reference.hpp"

namespace wreath::perf {
namespace {

using Segments = std::vector<Segment>;

std::size_t whole(int number) { return static_cast<std::size_t>(number); }
std::size_t block(const Seat& seat, std::size_t elements) { return elements / whole(seat.ranks); }
bool is_root(const Seat& seat) { return seat.rank == seat.root; }

double once(int /*ranks*/) { return 1; }
double others_share(int ranks) { return static_cast<double>(ranks - 1) / ranks; }
double twice_others_share(int ranks) { return 2 * others_share(ranks); }

// ---- the elements that each rank holds ----

Shape vectors(const Seat&, std::size_t elements) { return {elements, elements, elements}; }
Shape from_root(const Seat& seat, std::size_t elements) { return {is_root(seat) ? elements : 0, elements, elements}; }
Shape to_root(const Seat& seat, std::size_t elements) { return {elements, is_root(seat) ? elements : 0, elements}; }
Shape nothing(const Seat&, std::size_t) { return {}; }

Shape one_to_all_blocks(const Seat& seat, std::size_t elements) {
  const std::size_t count = block(seat, elements);
  return {count, count * whole(seat.ranks), count};
}
Shape all_to_one_block(const Seat& seat, std::size_t elements) {
  const Shape turned = one_to_all_blocks(seat, elements);
  return {turned.output, turned.input, turned.count};
}
Shape blocks_both_ways(const Seat& seat, std::size_t elements) {
  const std::size_t all = one_to_all_blocks(seat, elements).output;
  return {all, all, block(seat, elements)};
}
Shape blocks_to_root(const Seat& seat, std::size_t elements) {
  const Shape all = one_to_all_blocks(seat, elements);
  return {all.input, is_root(seat) ? all.output : 0, all.count};
}
Shape blocks_from_root(const Seat& seat, std::size_t elements) {
  const Shape all = all_to_one_block(seat, elements);
  return {is_root(seat) ? all.input : 0, all.output, all.count};
}

// ---- the elements that each rank must get ----

Segments combined(const Seat&, std::size_t elements) { return {{0, elements, kCombined, 0}}; }
Segments combined_at_root(const Seat& seat, std::size_t elements) {
  return is_root(seat) ? combined(seat, elements) : Segments{};
}
Segments own_block_combined(const Seat& seat, std::size_t elements) {
  const std::size_t count = block(seat, elements);
  return {{0, count, kCombined, whole(seat.rank) * count}};
}
Segments vector_of_root(const Seat& seat, std::size_t elements) { return {{0, elements, seat.root, 0}}; }
Segments vector_of_left(const Seat& seat, std::size_t elements) {
  return {{0, elements, (seat.rank + seat.ranks - 1) % seat.ranks, 0}};
}
Segments own_block_of_root(const Seat& seat, std::size_t elements) {
  const std::size_t count = block(seat, elements);
  return {{0, count, seat.root, whole(seat.rank) * count}};
}
Segments no_segments(const Seat&, std::size_t) { return {}; }

Segments every_block(const Seat& seat, std::size_t elements) {
  const std::size_t count = block(seat, elements);
  Segments segments;
  for (Rank rank = 0; rank < seat.ranks; ++rank) segments.push_back({whole(rank) * count, count, rank, 0});
  return segments;
}
Segments every_block_at_root(const Seat& seat, std::size_t elements) {
  return is_root(seat) ? every_block(seat, elements) : Segments{};
}
Segments blocks_for_me(const Seat& seat, std::size_t elements) {
  Segments segments = every_block(seat, elements);
  for (Segment& each : segments) each.source_first = whole(seat.rank) * each.count;
  return segments;
}

// ---- blocks whose size depends on the distance from sender to receiver, so that all ranks move the same amount ----

std::size_t varying_count(const Seat& seat, std::size_t elements, int distance) {
  const std::size_t even = block(seat, elements);
  switch (distance % 4) {
    case 0: return even + even / 2;
    case 1: return even - even / 2;
    case 2: return 0;
    default: return 2 * even;
  }
}
int distance_of(const Seat& seat, Rank from, Rank to) { return (to - from + seat.ranks) % seat.ranks; }

// Returns the counts of the blocks that `rank` sends (or gets), by peer.
std::vector<std::size_t> varying_counts(const Seat& seat, std::size_t elements, Rank rank, bool sends) {
  std::vector<std::size_t> counts;
  for (Rank peer = 0; peer < seat.ranks; ++peer) {
    const int distance = sends ? distance_of(seat, rank, peer) : distance_of(seat, peer, rank);
    counts.push_back(varying_count(seat, elements, distance));
  }
  return counts;
}
Shape varying_blocks(const Seat& seat, std::size_t elements) {
  std::size_t all = 0;
  for (int distance = 0; distance < seat.ranks; ++distance) all += varying_count(seat, elements, distance);
  return {all, all, block(seat, elements)};
}
Segments varying_blocks_for_me(const Seat& seat, std::size_t elements) {
  Segments segments;
  std::size_t first = 0;
  const std::vector<std::size_t> got = varying_counts(seat, elements, seat.rank, false);
  for (Rank source = 0; source < seat.ranks; ++source) {
    const std::vector<std::size_t> sent = varying_counts(seat, elements, source, true);
    std::size_t before = 0;
    for (Rank target = 0; target < seat.rank; ++target) before += sent[whole(target)];
    segments.push_back({first, got[whole(source)], source, before});
    first += got[whole(source)];
  }
  return segments;
}

// ---- in place ----

InPlace same_place(const Seat&, const Shape&) { return {}; }
InPlace input_is_block(const Seat& seat, const Shape& shape) {
  return {shape.output > shape.input ? whole(seat.rank) * shape.count : 0, 0};
}
InPlace output_is_block(const Seat& seat, const Shape& shape) {
  return {0, shape.input > shape.output ? whole(seat.rank) * shape.count : 0};
}

// ---- the calls ----

Call describe(const CollectiveRow& row, const Invocation& invocation) {
  const Shape shape = row.shape(invocation.seat, invocation.elements);
  const Kind& kind = invocation.kind;
  // An object that is made empty first would be cleared by a string instruction, inside the clock.
  return {.collective = row.collective,
          .dtype = kind.dtype,
          .reduction = row.combines() ? reduction_of(kind.op, invocation.seat.rank) : Reduction(),
          .root = kind.root,
          .input = shape.input > 0 || shape.count == 0 ? invocation.input : nullptr,
          .output = shape.output > 0 || shape.count == 0 ? invocation.output : nullptr,
          .count = shape.count};
}

Status call_it(const CollectiveRow& row, Member& member, const Invocation& invocation) {
  return member.run(describe(row, invocation));
}

Status call_barrier(const CollectiveRow& row, Member& member, const Invocation&) {
  Call call;
  call.collective = row.collective;
  return member.run(call);
}

Status call_varying(const CollectiveRow& row, Member& member, const Invocation& invocation) {
  Call call = describe(row, invocation);
  const Seat& seat = invocation.seat;
  const std::vector<std::size_t> sent = varying_counts(seat, invocation.elements, seat.rank, true);
  const std::vector<std::size_t> received = varying_counts(seat, invocation.elements, seat.rank, false);
  call.count = 0;
  call.input_blocks.counts = sent;
  call.output_blocks.counts = received;
  return member.run(call);
}

// Sends to the right neighbour, and receives from the left one.
Status call_shift(const CollectiveRow&, Member& member, const Invocation& invocation) {
  const Seat& seat = invocation.seat;
  const std::array<Transfer, 2> both{
      Transfer{(seat.rank + 1) % seat.ranks, -1, const_cast<std::byte*>(invocation.input), invocation.elements},
      Transfer{-1, (seat.rank + seat.ranks - 1) % seat.ranks, invocation.output, invocation.elements}};
  return member.exchange(both, invocation.kind.dtype);
}

// Makes an all_gather by pairs. After step k a rank has the blocks of the 2^k ranks that differ from it in the low k
// bits.
Status call_hypercube(const CollectiveRow&, Member& member, const Invocation& invocation) {
  const Seat& seat = invocation.seat;
  const std::size_t count = block(seat, invocation.elements);
  const std::size_t bytes = count * size_of(invocation.kind.dtype);
  std::byte* const own = invocation.output + whole(seat.rank) * bytes;
  if (own != invocation.input) std::copy_n(invocation.input, bytes, own);
  for (int width = 1; width < seat.ranks; width *= 2) {
    const Rank partner = seat.rank ^ width;
    const std::array<Transfer, 2> both{
        Transfer{partner, -1, invocation.output + whole(seat.rank & ~(width - 1)) * bytes, whole(width) * count},
        Transfer{-1, partner, invocation.output + whole(partner & ~(width - 1)) * bytes, whole(width) * count}};
    WREATH_TRY(member.exchange(both, invocation.kind.dtype));
  }
  return {};
}

constexpr std::array kCollectives{
    CollectiveRow{"all_reduce_perf", Collective::AllReduce, 0, "2(n-1)/n", twice_others_share, vectors, combined,
                  same_place, call_it},
    CollectiveRow{"all_gather_perf", Collective::AllGather, 0, "(n-1)/n", others_share, one_to_all_blocks, every_block,
                  input_is_block, call_it},
    CollectiveRow{"reduce_scatter_perf", Collective::ReduceScatter, 0, "(n-1)/n", others_share, all_to_one_block,
                  own_block_combined, output_is_block, call_it},
    CollectiveRow{"broadcast_perf", Collective::Broadcast, 0, "1", once, from_root, vector_of_root, same_place,
                  call_it},
    CollectiveRow{"reduce_perf", Collective::Reduce, 0, "1", once, to_root, combined_at_root, same_place, call_it},
    CollectiveRow{"alltoall_perf", Collective::AllToAll, kNothingToReuse, "(n-1)/n", others_share, blocks_both_ways,
                  blocks_for_me, same_place, call_it},
    CollectiveRow{"alltoallv_perf", Collective::AllToAll, kNothingToReuse | kVarying, "(n-1)/n", others_share,
                  varying_blocks, varying_blocks_for_me, same_place, call_varying},
    CollectiveRow{"gather_perf", Collective::Gather, 0, "(n-1)/n", others_share, blocks_to_root, every_block_at_root,
                  input_is_block, call_it},
    CollectiveRow{"scatter_perf", Collective::Scatter, 0, "(n-1)/n", others_share, blocks_from_root, own_block_of_root,
                  output_is_block, call_it},
    CollectiveRow{"sendrecv_perf", Collective::Exchange, kNothingToReuse, "1", once, vectors, vector_of_left,
                  same_place, call_shift},
    CollectiveRow{"hypercube_perf", Collective::Exchange, kPowerOfTwo | kCountsOthers, "1", others_share,
                  one_to_all_blocks, every_block, input_is_block, call_hypercube},
    CollectiveRow{"barrier_perf", Collective::Barrier, kNoData | kNothingToReuse, "0", once, nothing, no_segments,
                  same_place, call_barrier},
};

}  // namespace

Case make_case(const CollectiveRow& row, int ranks, std::size_t bytes, const Kind& kind) {
  const std::size_t size = size_of(kind.dtype);
  const Shape largest = row.shape({kind.root, ranks, kind.root}, bytes / size);
  return {std::max(largest.input, largest.output) * size, bytes / size, largest.count, kind};
}

std::span<const CollectiveRow> collectives() noexcept { return kCollectives; }

const CollectiveRow& row_of(std::string_view program) noexcept {
  return *std::find_if(kCollectives.begin(), kCollectives.end(),
                       [&](const CollectiveRow& row) { return row.program == program; });
}

Rank replaced_in_place(const CollectiveRow& row, const Seat& seat) {
  if (row.collective == Collective::AllReduce) return kEveryRank;
  return row.rooted() ? seat.root : seat.rank;
}

std::string_view table_name(DataType dtype) noexcept {
  return for_dtype(dtype, []<typename T>(T) { return std::get<DataTypeRow<T>>(kDataTypes).nccl_tests; });
}

}  // namespace wreath::perf
