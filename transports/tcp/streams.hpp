// Sets the options of the streams of this transport.
#pragma once

#include "wreath/link.hpp"
#include "wreath/result.hpp"

namespace wreath {

// Returns InvalidArgument for a descriptor that is not a stream socket. `rails` says that the link has several.
Status prepare_stream(int socket, Rank peer, bool same_host, bool rails);

}  // namespace wreath
