// Walks through the buffers of an operation.
#pragma once

#include "src/engine/call_shape.hpp"
#include "src/engine/operation.hpp"

namespace wreath {

// Calls use(data) with the beginning of each buffer that rank `me` uses, as the program knows it.
template <typename Use>
void for_each_buffer(const Operation& operation, Rank me, Use use) {
  for (const Direction direction : {Direction::Send, Direction::Receive}) {
    for (const ExchangeMessage& message : operation.messages.of(direction)) {
      if (message.count > 0) use(message.data);
    }
  }
  const Call& call = operation.call;
  if (operation.exchanges() || call.collective == Collective::Barrier) return;
  if (call.input != nullptr && uses_input(call.collective, call.root, me)) use(call.input);
  if (call.output != nullptr && uses_output(call.collective, call.root, me)) use(call.output);
}

}  // namespace wreath
