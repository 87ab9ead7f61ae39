// Reads what a program's ncclConfig_t asks for.
#pragma once

#include <string>

#include "bindings/nccl/nccl.h"
#include "wreath/result.hpp"

namespace wreath::nccl {

struct ProgramConfig {
  bool blocking = true;
  std::string name;  // commName
};

// Reads a config; null means the defaults. Structs of older versions are shorter; of newer ones the known part counts.
// Fails with InvalidArgument for a struct that was not initialized and for values out of range. Fails with InvalidUsage
// for a network that is not here.
Result<ProgramConfig> read_config(const ncclConfig_t* config);

}  // namespace wreath::nccl
