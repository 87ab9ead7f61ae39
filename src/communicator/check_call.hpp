// The arguments of a collective are checked once, where they enter.
#pragma once

#include "src/engine/call_shape.hpp"
#include "wreath/call.hpp"
#include "wreath/result.hpp"

namespace wreath {

// Checks a call. InvalidArgument names the argument and its value. `varying` means a v-form, which must have counts.
Status check_call(const Call& call, bool varying, Place place);

// Returns `call` without the arguments that its collective does not read.
Call normalized(const Call& call);

}  // namespace wreath
