// Wreath's errors as torch's exceptions.
#pragma once

#include <exception>
#include <string>
#include <vector>

#include "wreath/result.hpp"

namespace wreath_torch {

// Which group a rank's number in a message is of.
struct GroupNames {
  std::string name;
  std::vector<std::int64_t> global_ranks;  // by rank in the group; empty: they are the same
};

// A torch.distributed.DistBackendError (a RuntimeError) with the error's sentence, and which ranks of all the group's
// are.
std::exception_ptr as_torch_error(const wreath::Error& error, const GroupNames& group);

}  // namespace wreath_torch
