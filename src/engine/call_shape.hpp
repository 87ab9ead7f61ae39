// Says what a checked call moves, in the words of tuner, recorder and geometry.
#pragma once

#include <cstdint>

#include "src/schedule/geometry.hpp"
#include "src/tuner/tuner.hpp"
#include "wreath/call.hpp"

namespace wreath {

// Elements of the vector or of one block; of a v-form those of all blocks that this rank gives the counts of (of
// all_to_all_v: that it sends).
std::uint64_t elements_of(const Call& call) noexcept;

// The same in bytes; of one block, the blocks of all `ranks` together.
std::uint64_t bytes_of(const Call& call, std::uint64_t elements, int ranks) noexcept;

// Tells the tuner what it may know of a call: the same on all ranks.
Query query_of(const Call& call, std::uint64_t elements, int ranks) noexcept;

// A hash that goes on with what all ranks must give alike of a call.
std::uint64_t mix_call(std::uint64_t hash, const Call& call, std::uint64_t elements);

// The call as rank `me` of `ranks` sees it. Refers to the call's counts; displacements are there wherever counts are.
CallShape shape_of(const Call& call, int ranks, Rank me) noexcept;

// Which rank of how many asks.
struct Place {
  int ranks;
  Rank me;
};

// Whether `collective` reads Input, or writes Output, at rank `me`.
bool uses_input(Collective collective, Rank root, Rank me) noexcept;
bool uses_output(Collective collective, Rank root, Rank me) noexcept;

struct PartRange {
  std::uint32_t first;
  std::uint32_t count;
};
// Elements from the start of a buffer to the end of the last of its `parts`.
std::uint64_t span_of(const PartTable& table, PartRange parts) noexcept;

// Bytes from the start of a buffer of the call to the end of what rank `me` has there: by the geometry of a plan of so
// many parts, or of `ranks` without one.
std::uint64_t extent_of(const Call& call, const Geometry& geometry, Buffer buffer, std::uint32_t parts,
                        Rank me) noexcept;
std::uint64_t extent_of(const Call& call, Buffer buffer, Place place) noexcept;

}  // namespace wreath
