// Chooses among names as NCCL's variables do, for interfaces and for RDMA adapters.
#pragma once

#include <string_view>

namespace wreath {

// Returns whether a choice as NCCL writes it admits a name. A choice is a list of comma-separated prefixes. With "="
// before them they are whole names; with "^" before that, all but these are admitted. An empty choice admits all. For a
// name with a port, which is above 0, entries may end in one: "mlx5_0:1".
bool admits(std::string_view choice, std::string_view name, int port = 0);

}  // namespace wreath
