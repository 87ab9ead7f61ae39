// Messages over TCP: one stream per peer, driven by whoever drives the link, no thread of its own.
#pragma once

#include <memory>

#include "wreath/result.hpp"
#include "wreath/transport.hpp"

namespace wreath {

// Needs a connected, authenticated stream socket as Offer::descriptors[0] of connect() (TCP, or a UNIX
// stream); offers nothing itself. InvalidArgument names a field of the shape that is out of range.
// Between two ends on one host, connect() asks for reno congestion control: pacing halves loopback.
Result<std::unique_ptr<Transport>> make_tcp(const TransportContext& context);

}  // namespace wreath
