// The geometries of all ranks at one point of a proof.
#pragma once

#include <cstdint>
#include <vector>

#include "src/schedule/geometry.hpp"
#include "wreath/algorithm.hpp"
#include "wreath/plan.hpp"

namespace wreath {

// The values on which a point's geometries depend, beside its options.
struct PointOf {
  Collective collective;
  int ranks;
  unsigned traits;  // of the algorithm's row
  std::uint32_t parts;
  std::uint32_t data_lanes;
};

// Owns the tables of blocks that vary.
class Shapes {
 public:
  // options.block_counts is empty, or has as many counts as VerifyOptions says.
  Shapes(const PointOf& point, const VerifyOptions& options);
  Shapes(const Shapes&) = delete;
  Shapes& operator=(const Shapes&) = delete;

  const Geometry& operator[](Rank rank) const { return geometries_[static_cast<std::size_t>(rank)]; }
  int ranks() const { return static_cast<int>(geometries_.size()); }
  // Returns the most tiles of any rank.
  std::uint32_t tiles() const;

 private:
  BlockTable table(std::vector<std::uint64_t> counts);

  std::vector<Geometry> geometries_;
  std::vector<std::vector<std::uint64_t>> tables_;
};

}  // namespace wreath
