// Describes one call on all ranks: its memory, filled with values that make wrong sums visible, and the expected
// results.
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
  // The counts are like those of VerifyOptions: where there are none, all blocks have `count`.
  std::vector<std::uint64_t> block_counts{};
  std::uint64_t tile_bytes = 128;
  bool in_place = false;
};

// In a premultiplied sum, the factor of rank r is r + 1.
class Job {
 public:
  // Takes as `program` what some rank runs: its parts and data lanes are those of all ranks.
  Job(const Algorithm& algorithm, const Problem& problem, const Lowered& program, const JobShape& shape,
      std::mt19937_64& random);

  std::vector<RankCall> calls();
  // Returns what is wrong with the memory now that all ranks are done, or an empty text.
  std::string wrong() const;
  // Returns the same for one rank's memory.
  std::string wrong(Rank rank) const;
  std::size_t input_bytes(Rank rank) const { return ranks_[static_cast<std::size_t>(rank)].given.size(); }

 private:
  using Bytes = std::vector<std::byte>;
  struct OneRank {
    Geometry geometry;
    Bytes given;  // Input before the call
    // The memory is indexed by Buffer. In place only the larger one is there.
    Bytes memory[2];
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
