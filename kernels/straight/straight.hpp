// Collectives and messages as loops written by hand, over the FIFOs and kernels that steps use: what the executor is
// held to, and an implementation to compare it with.
#pragma once

#include <string_view>

#include "src/executor/straight.hpp"
#include "wreath/types.hpp"

namespace wreath {

// The loop of a row of the registry, which has kWrittenByHand; of sends and receives with Collective::Exchange and no
// name. It does what the lowered schedule says, in its order: lanes, FIFOs and trace are the same.
StraightRow straight_row(Collective collective, std::string_view algorithm) noexcept;

// The same for this CPU. Null: there is none.
StraightLoop straight_loop(StraightRow row) noexcept;
StraightLoop find_straight(Collective collective, std::string_view algorithm) noexcept;

}  // namespace wreath
