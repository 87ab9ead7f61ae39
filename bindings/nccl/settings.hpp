// Applies NCCL_* variables by what they mean here (docs/nccl.md): they are kept, or refused with an error.
#pragma once

#include "bindings/nccl/nccl.h"

namespace wreath::nccl {

// Hands the variables to the library's own settings, once per process, at the first call that needs them. Says which
// have no meaning. Returns the same answer ever after: ncclInvalidUsage where a variable asks for what cannot be had.
ncclResult_t apply_settings();

// Reads NCCL_DEBUG alone, again.
ncclResult_t read_debug_again();

}  // namespace wreath::nccl
