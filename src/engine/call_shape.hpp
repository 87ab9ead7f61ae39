// Says what a checked call moves, in the words of tuner, recorder and geometry.
#pragma once

#include <cstdint>

#include "src/base/hash.hpp"
#include "src/schedule/geometry.hpp"
#include "src/tuner/tuner.hpp"
#include "wreath/call.hpp"

namespace wreath {

// Returns the elements of the vector or of one block. For a v-form it returns those of all blocks that this rank gives
// counts of. For all_to_all_v these are the blocks that it sends.
std::uint64_t elements_of(const Call& call) noexcept;

// Returns the call's bytes. For a collective of equal blocks they are the blocks of all `ranks` together.
std::uint64_t bytes_of(const Call& call, std::uint64_t elements, int ranks) noexcept;

// Tells the tuner what it may know of a call: the same on all ranks.
Query query_of(const Call& call, std::uint64_t elements, int ranks) noexcept;

// Holds the arguments that all ranks must give alike, but for the counts of each rank.
struct CallWords {
  CallWords() = default;
  CallWords(std::uint64_t of_kind, std::uint64_t count)
      : kind(of_kind), elements(count), hash(mix(0, of_kind, count)) {}
  std::uint64_t kind = 0;
  std::uint64_t elements = 0;  // 0 where the ranks need not agree on them
  std::uint64_t hash = 0;      // of both
  bool operator==(const CallWords&) const = default;
};
inline CallWords words_of(const Call& call, std::uint64_t elements) noexcept {
  const bool varying = call.varying();
  const std::uint64_t kind = static_cast<std::uint64_t>(call.collective) | static_cast<std::uint64_t>(call.dtype) << 8 |
                             static_cast<std::uint64_t>(call.reduction.op) << 16 |
                             static_cast<std::uint64_t>(varying) << 24 | static_cast<std::uint64_t>(call.root) << 32;
  return CallWords(kind, !varying || counts_agree(call.collective, varying) ? elements : 0);
}

// Continues a hash with the arguments that all ranks must give alike.
std::uint64_t mix_call(std::uint64_t hash, const Call& call, std::uint64_t elements);

// Returns the call as rank `me` of `ranks` sees it. The shape refers to the call's counts. Where a call has counts, it
// must have displacements, too.
CallShape shape_of(const Call& call, int ranks, Rank me) noexcept;

// A Place says which rank of how many asks.
struct Place {
  int ranks;
  Rank me;
};

// Says whether `collective` reads Input at rank `me`.
bool uses_input(Collective collective, Rank root, Rank me) noexcept;
// Says whether `collective` writes Output at rank `me`.
bool uses_output(Collective collective, Rank root, Rank me) noexcept;

// Returns the bytes from the start of a buffer of the call to the end of the data that rank `me` has there. The
// geometry is that of a plan of so many parts.
std::uint64_t extent_of(const Call& call, const Geometry& geometry, Buffer buffer, std::uint32_t parts,
                        Rank me) noexcept;
// Returns the same bytes for a call without a plan. There are as many parts as ranks.
std::uint64_t extent_of(const Call& call, Buffer buffer, Place place) noexcept;

}  // namespace wreath
