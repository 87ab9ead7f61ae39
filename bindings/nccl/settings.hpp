// What NCCL_* variables mean here (docs/nccl.md): kept, or refused aloud.
#pragma once

#include "bindings/nccl/nccl.h"

namespace wreath::nccl {

// Once per process, at the first call that needs it: hands them to the library's own settings, and says what has no
// meaning. The same answer ever after: InvalidUsage where a variable asks for what cannot be had.
ncclResult_t apply_settings();

// NCCL_DEBUG alone, again.
ncclResult_t read_debug_again();

}  // namespace wreath::nccl
