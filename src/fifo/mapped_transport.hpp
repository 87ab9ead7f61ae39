// The transports over mapped memory share this code; they differ only in how far the memory reaches.
#pragma once

#include <memory>

#include "wreath/transport.hpp"

namespace wreath {

// Makes a transport over the segment of `context` for ranks of one process or of one host. Unavailable when there is no
// segment. Where the reach is the host its offers are Unavailable while other processes cannot map the segment.
Result<std::unique_ptr<Transport>> make_mapped_transport(const TransportContext& context, SharedMemory reach);

}  // namespace wreath
