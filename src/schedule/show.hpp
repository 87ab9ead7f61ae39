// Shows lowered schedules in words, for `wreath plan show` and for messages.
#pragma once

#include <string>
#include <string_view>

#include "src/schedule/geometry.hpp"
#include "src/schedule/step.hpp"

namespace wreath {

// Returns a name like "recv_reduce_send".
std::string_view name(StepOp op) noexcept;
// Returns a name like "input", "output" or "scratch".
std::string_view name(Buffer buffer) noexcept;

// Returns one line: "recv_reduce_send  output[3] = input[3] + message from 2.0; send to 4  (target dead)". `lane` is
// the lane's own number. A message is written RANK.LANE where its lane differs from that number.
std::string show(const Lowered& program, const Step& step, std::uint16_t lane);

// Returns all lanes of rank `me`, a line per step, with the elements that each works on in its first and last tile.
std::string show(const Lowered& program, Rank me, const Geometry& geometry);

}  // namespace wreath
