// The arguments of a collective: checked once, where they enter.
#pragma once

#include "wreath/call.hpp"
#include "wreath/result.hpp"

namespace wreath {

// Which rank of how many asks.
struct Place {
  int ranks;
  Rank me;
};

// InvalidArgument names the argument and its value. `varying`: a v-form, whose counts must be there.
Status check_call(const Call& call, bool varying, Place place);

// As `call`, without what its collective does not read.
Call normalized(const Call& call);

// Whether `collective` reads Input, or writes Output, at rank `me`.
bool uses_input(Collective collective, Rank root, Rank me) noexcept;
bool uses_output(Collective collective, Rank root, Rank me) noexcept;

}  // namespace wreath
