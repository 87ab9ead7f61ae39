// Turns Wreath's errors into torch's exceptions.
#pragma once

#include <exception>
#include <string>
#include <vector>

#include "wreath/result.hpp"

namespace wreath_torch {

// Says which group a rank's number in a message is of.
struct GroupNames {
  std::string name;
  // Lists the ranks of all by rank in the group; empty where they are the same.
  std::vector<std::int64_t> global_ranks;
};

// Returns a torch.distributed.DistBackendError (a RuntimeError) with the error's sentence. It also says which ranks of
// all the group's ranks are.
std::exception_ptr as_torch_error(const wreath::Error& error, const GroupNames& group);

}  // namespace wreath_torch
