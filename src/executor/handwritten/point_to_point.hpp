// Does sends and receives by hand. A lane has the messages to or from one peer, one after the other. Its steps say
// which messages these are, because no algorithm does.
#pragma once

#include "src/executor/handwritten/lane.hpp"

namespace wreath {

template <typename Processor>
WREATH_HOST_DEVICE inline Advance point_to_point_by_hand(HandwrittenLane<Processor> lane) {
  const Step& message = lane.present_step();
  const Geometry& geometry = lane.geometry();
  const std::uint32_t sent = message.source_part;
  const std::uint32_t received = message.target_part;
  switch (message.op) {
    case StepOp::Send:
      return lane.tile_of_message(geometry.input.part(sent).count, [&] {
        return lane.send({message.out_first, 1}, lane.input(sent));
      });
    case StepOp::Recv:
      return lane.tile_of_message(geometry.output.part(received).count, [&] {
        return lane.recv({message.in_first, 1}, lane.output(received));
      });
    // The rank copies what it sends to itself.
    default:
      return lane.tile_of_message(geometry.input.part(sent).count,
                                  [&] { return lane.copy(lane.input(sent), lane.output(received)); });
  }
}

}  // namespace wreath
