// The collectives that have a perf tool. Each has one row, which every part of the tool reads.
//
// Sizes have the same meaning as in nccl-tests: the bytes of a vector, or of all blocks where blocks of ranks move.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "perf/base/member.hpp"
#include "wreath/types.hpp"

namespace wreath::perf {

// The place of one rank in a call.
struct Seat {
  Rank rank = 0;
  int ranks = 1;
  Rank root = 0;
};

// The elements of one rank's buffers, 0 where it uses none, and the `count` that calls and tables name.
struct Shape {
  std::size_t input = 0;
  std::size_t output = 0;
  std::size_t count = 0;
};

// The elements [first, first + count) of an output and their source. They must equal the elements of rank `source`'s
// input from `source_first` on. Where `source` is kCombined, they must equal the combination of all inputs.
inline constexpr Rank kCombined = -1;
struct Segment {
  std::size_t first = 0;
  std::size_t count = 0;
  Rank source = kCombined;
  std::size_t source_first = 0;
};

// The places, in elements, at which input and output begin in the one buffer of a call in place.
struct InPlace {
  std::size_t input = 0;
  std::size_t output = 0;
};

// The kind of a row in a table, without its size. `op` and `root` have a meaning where the collective has them.
struct Kind {
  DataType dtype = DataType::Float32;
  ReduceOp op = ReduceOp::Sum;
  Rank root = 0;
  bool operator==(const Kind&) const = default;
};

// One call of one rank.
struct Invocation {
  Seat seat;
  std::size_t elements = 0;  // as in Case
  Kind kind;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
};

enum RowTrait : unsigned {
  // The collective serves only powers of two of ranks.
  kPowerOfTwo = 1,
  // The collective moves nothing, and has no sizes and no dtypes.
  kNoData = 2,
  kNothingToReuse = 4,  // cannot be in place
  // The algorithm bandwidth counts only the bytes from other ranks, as the tool of nccl-tests does.
  kCountsOthers = 8,
  kVarying = 16,  // blocks differ in size
};

struct CollectiveRow {
  std::string_view program;         // "all_reduce_perf"
  Collective collective;            // its algorithms serve the row
  unsigned traits;                  // RowTrait
  std::string_view bus_words;       // "2(n-1)/n"
  double (*bus_factor)(int ranks);  // bus bandwidth = bytes / time x this
  Shape (*shape)(const Seat&, std::size_t elements);
  std::vector<Segment> (*expected)(const Seat&, std::size_t elements);
  InPlace (*in_place)(const Seat&, const Shape&);
  Status (*call)(const CollectiveRow&, Member&, const Invocation&);

  bool has(RowTrait trait) const { return (traits & trait) != 0; }
  bool combines() const { return reduces(collective) && !has(kNoData); }
  bool rooted() const { return has_root(collective); }
  // Returns the title, such as "all_reduce".
  std::string_view title() const { return program.substr(0, program.size() - std::string_view("_perf").size()); }
};

std::span<const CollectiveRow> collectives() noexcept;
// Returns the row of that program, which must exist.
const CollectiveRow& row_of(std::string_view program) noexcept;

// A case to measure.
struct Case {
  std::size_t bytes = 0;  // of the largest buffer of the call
  // The requested elements: of a vector, or of all blocks and a rest.
  std::size_t elements = 0;
  std::size_t count = 0;  // Shape::count
  Kind kind;
};
// Returns the case of `bytes` bytes, or of fewer bytes that make whole elements or blocks.
Case make_case(const CollectiveRow& row, int ranks, std::size_t bytes, const Kind& kind);

// Returns the rank whose input a result in place replaces, or kEveryRank (pattern.hpp).
Rank replaced_in_place(const CollectiveRow& row, const Seat& seat);

// Returns the spelling of nccl-tests in tables and JSON, such as "float" for float32.
std::string_view table_name(DataType dtype) noexcept;

}  // namespace wreath::perf
