// Sets the options of the streams of this transport.
#pragma once

#include "wreath/link.hpp"
#include "wreath/result.hpp"

namespace wreath {

// Returns InvalidArgument for a descriptor that is not a stream socket. `rails` says that the link has several.
Status prepare_stream(int socket, Rank peer, bool same_host, bool rails);

// Lets the kernel hold little that it has not sent, so that a rail takes no more than it can carry; or as much as it
// does by itself.
void limit_unsent(int socket, bool limited);

}  // namespace wreath
