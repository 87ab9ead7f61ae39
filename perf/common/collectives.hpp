// The collectives that have a perf tool: one row each, read by every part of it.
//
// Sizes mean what they mean in nccl-tests: of a vector its bytes, where blocks of ranks move those of all blocks.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "perf/base/member.hpp"
#include "wreath/types.hpp"

namespace wreath::perf {

// One rank's place in a call.
struct Seat {
  Rank rank = 0;
  int ranks = 1;
  Rank root = 0;
};

// Elements of one rank's buffers, 0 where it uses none, and the `count` that calls and tables name.
struct Shape {
  std::size_t input = 0;
  std::size_t output = 0;
  std::size_t count = 0;
};

// What elements [first, first + count) of an output must be: those of rank `source`'s input from `source_first` on, or
// where `source` is kCombined of the combination of all inputs.
inline constexpr Rank kCombined = -1;
struct Segment {
  std::size_t first = 0;
  std::size_t count = 0;
  Rank source = kCombined;
  std::size_t source_first = 0;
};

// Where Input and Output begin in the one buffer of a call in place, in elements.
struct InPlace {
  std::size_t input = 0;
  std::size_t output = 0;
};

// What a row of a table is about, but for its size. `op` and `root` mean something where the collective has them.
struct Kind {
  DataType dtype = DataType::Float32;
  ReduceOp op = ReduceOp::Sum;
  Rank root = 0;
  bool operator==(const Kind&) const = default;
};

// One call of one rank.
struct Invocation {
  Seat seat;
  std::size_t elements = 0;  // as Case has them
  Kind kind;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
};

enum RowTrait : unsigned {
  kPowerOfTwo = 1,      // serves powers of two of ranks alone
  kNoData = 2,          // moves nothing: it has no sizes and no dtypes
  kNothingToReuse = 4,  // cannot be in place
  kCountsOthers = 8,    // algbw counts what comes from other ranks alone, as nccl-tests' tool does
  kVarying = 16,        // blocks differ in size
};

struct CollectiveRow {
  std::string_view program;         // "all_reduce_perf"
  Collective collective;            // whose algorithms serve it
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
  // "all_reduce".
  std::string_view title() const { return program.substr(0, program.size() - std::string_view("_perf").size()); }
};

std::span<const CollectiveRow> collectives() noexcept;
// The row of that program, which exists.
const CollectiveRow& row_of(std::string_view program) noexcept;

// What is measured.
struct Case {
  std::size_t bytes = 0;     // of the largest buffer of the call
  std::size_t elements = 0;  // asked for: of a vector, or of all blocks and a rest
  std::size_t count = 0;     // Shape::count
  Kind kind;
};
// The case of `bytes` bytes, or of as many as make whole elements or blocks.
Case make_case(const CollectiveRow& row, int ranks, std::size_t bytes, const Kind& kind);

// Whose input a result in place replaces: kEveryRank, or a rank's (pattern.hpp).
Rank replaced_in_place(const CollectiveRow& row, const Seat& seat);

// nccl-tests' spelling in tables and JSON: "float" for float32.
std::string_view table_name(DataType dtype) noexcept;

}  // namespace wreath::perf
