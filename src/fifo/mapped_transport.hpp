// What the transports over mapped memory have in common: all but who can be reached.
#pragma once

#include <memory>
#include <string_view>

#include "src/fifo/segment.hpp"
#include "wreath/transport.hpp"

namespace wreath {

// How far the memory of a transport reaches.
struct MappedReach {
  std::string_view name;    // of the transport
  bool same_process;        // only threads of this process
  std::string_view reason;  // why others cannot be reached: "is in another process"
};

// A transport over the segment of `context`. Unavailable when there is none, or when it is not shareable and
// the reach goes beyond this process. `reach` must have static storage.
Result<std::unique_ptr<Transport>> make_mapped_transport(const TransportContext& context, const MappedReach& reach);

}  // namespace wreath
