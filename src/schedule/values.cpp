// Makes the complete value of a cell.
#include "src/schedule/values.hpp"

#include <vector>

namespace wreath {

Value Values::full(std::uint32_t cell) const {
  std::vector<Value> leaves;
  for (Rank rank = 0; rank < ranks_; ++rank) leaves.push_back(leaf(rank, cell));
  ValueFault fault{};
  return canonical(leaves, fault);
}

}  // namespace wreath
