// One call on all ranks: its memory, filled with values that make wrong sums visible, and what must come out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "src/schedule/geometry.hpp"
#include "tests/unit/executor/world.hpp"
#include "wreath/algorithm.hpp"

namespace wreath {

struct JobShape {
  DataType dtype = DataType::Float32;
  ReduceOp op = ReduceOp::Sum;
  std::uint64_t count = 1;
  std::vector<std::uint64_t> block_counts{};  // as VerifyOptions has them; empty: all blocks have `count`
  std::uint64_t tile_bytes = 128;
  bool in_place = false;
};

// Of premultiplied sums, rank r's factor is r + 1.
class Job {
 public:
  // `program`: what some rank runs; parts and data lanes are those of all.
  Job(const Algorithm& algorithm, const Problem& problem, const Lowered& program, const JobShape& shape,
      std::mt19937_64& random);

  std::vector<RankCall> calls();
  // What is wrong with the memory now that all ranks are done; empty: nothing.
  std::string wrong() const;
  // The same of one rank's memory.
  std::string wrong(Rank rank) const;
  std::size_t input_bytes(Rank rank) const { return ranks_[static_cast<std::size_t>(rank)].given.size(); }

 private:
  using Bytes = std::vector<std::byte>;
  struct OneRank {
    Geometry geometry;
    Bytes given;      // Input as it was
    Bytes memory[2];  // by Buffer; in place only the larger one is there
    std::byte* input = nullptr;
    std::byte* output = nullptr;
    std::vector<std::uint64_t> tables[4];
  };

  void cut(const Lowered& program, unsigned traits);
  void give(OneRank& own, Rank rank, bool whole_numbers, std::mt19937_64& random);
  Arithmetic arithmetic_of(Rank rank) const;
  std::uint64_t elements(Buffer buffer, Rank rank) const;
  const std::byte* given_part(Rank rank, std::uint32_t part) const;
  Bytes expected_part(Rank rank, std::uint32_t part) const;
  Bytes sum_of_part(std::uint32_t part, std::uint64_t elements) const;
  std::string wrong(Rank rank, std::uint32_t part) const;

  Problem problem_;
  JobShape shape_;
  std::uint32_t parts_;
  std::uint64_t element_bytes_;
  std::vector<OneRank> ranks_;
};

}  // namespace wreath
