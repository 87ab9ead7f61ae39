// The arguments of a collective: checked once, where they enter.
#pragma once

#include "src/engine/call_shape.hpp"
#include "wreath/call.hpp"
#include "wreath/result.hpp"

namespace wreath {

// InvalidArgument names the argument and its value. `varying`: a v-form, whose counts must be there.
Status check_call(const Call& call, bool varying, Place place);

// As `call`, without what its collective does not read.
Call normalized(const Call& call);

}  // namespace wreath
