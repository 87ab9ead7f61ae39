// The peer of --peer, which a run measures in turns with this library, on the same memory, streams and loop.
#pragma once

#include <memory>
#include <string>

#include "perf/base/member.hpp"
#include "perf/common/collectives.hpp"
#include "perf/common/options.hpp"

namespace wreath::perf {

// Returns the reason why such a run cannot measure its peer; empty where it can, or has none.
std::string why_no_peer(const CollectiveRow& row, const Options& options);

// Checks whether the peer is on this machine. Unavailable says what was found instead.
Status find_peer(const Options& options);

// Returns the rank whose time stands for all: rank 0 where it works alone, else as -a says.
Average peer_average(const Options& options);

// Makes one rank's end of the peer. It is collective. `own` and `stream` must live longer; `stream` is null where calls
// are in none.
Result<std::unique_ptr<Member>> make_peer(Communicator& own, const Options& options, Stream* stream);

// Creates a communicator of the same ranks with other options. It is collective.
Result<Communicator> create_alike(Communicator& all, const CommunicatorOptions& options);

}  // namespace wreath::perf
