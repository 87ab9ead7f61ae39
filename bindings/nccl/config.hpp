// What a program's ncclConfig_t asks for.
#pragma once

#include <string>

#include "bindings/nccl/nccl.h"
#include "wreath/result.hpp"

namespace wreath::nccl {

struct ProgramConfig {
  bool blocking = true;
  std::string name;  // commName
};

// Null: the defaults. Structs of older versions are shorter; of newer ones the known part counts. InvalidArgument for
// one that was not initialized and for values out of range, InvalidUsage for a network that is not here.
Result<ProgramConfig> read_config(const ncclConfig_t* config);

}  // namespace wreath::nccl
