// Adds words to an error: which library, which group, which rank of all.
#include "bindings/torch/errors.hpp"

#include <c10/util/Exception.h>

namespace wreath_torch {
namespace {

// Returns "; ranks 0, 1 of group 7 are ranks 2, 5 of all", where they are not the same.
std::string whose_ranks(const GroupNames& group) {
  std::string own;
  std::string of_all;
  bool same = true;
  for (std::size_t rank = 0; rank < group.global_ranks.size(); ++rank) {
    const std::string separator = rank == 0 ? " " : ", ";
    own += separator + std::to_string(rank);
    of_all += separator + std::to_string(group.global_ranks[rank]);
    same = same && group.global_ranks[rank] == static_cast<std::int64_t>(rank);
  }
  return same ? std::string() : "; ranks" + own + " of group " + group.name + " are ranks" + of_all + " of all";
}

}  // namespace

std::exception_ptr as_torch_error(const wreath::Error& error, const GroupNames& group) {
  return std::make_exception_ptr(c10::DistBackendError({__func__, __FILE__, static_cast<std::uint32_t>(__LINE__)},
                                                       "wreath: " + error.message + whose_ranks(group)));
}

}  // namespace wreath_torch
