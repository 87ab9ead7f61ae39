// Decides how many bytes of slots a sender fills in turn, before it fills the same lines again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "src/base/cpu.hpp"
#include "src/tuner/tuner.hpp"

namespace wreath {

// Returns the bytes of slots that messages of a middle size to one peer use in turn. `near_cache_bytes` is the size of
// the cache that a core has for itself (0 where it is not known), and `slots_bytes` are those of all slots to a peer.
//
// A line that lies in its reader's near cache is dear to fill again. Twice that cache, over all peers that the rank
// sends to in turn, is enough for lines to have left it. Less than one and a half times gains nothing. Then the ring is
// as small as possible, since its lines push other data out of the caches.
std::size_t ring_bytes(std::uint64_t near_cache_bytes, int peers, std::size_t slots_bytes) noexcept;

// Returns the same for this machine, where so many ranks run on it. Ranks that share cores share their caches, too, and
// have the smallest ring.
std::size_t ring_bytes(const HostRanks& host, std::size_t slots_bytes) noexcept;

// Returns whether ranks fill ping-pong slots (PingPongSlots) on a processor of this maker, where so many run on the
// host: two with a core each. An Intel core that reads what another one has just written takes the lines over, and may
// then write there at once. Ranks that share cores have the lines in their own cache anyway.
bool fills_ping_pong(std::string_view vendor, const HostRanks& host) noexcept;

// Returns the limits of the path of small messages, where no rank has a smaller ring, and all fill ping-pong slots or
// not. Two ranks with a wide ring send larger messages by that path, whose blocks have a ring of the same width. With
// ping-pong slots they do so where both send.
SmallLimits small_limits(int ranks, std::size_t ring_bytes, bool ping_pong) noexcept;

}  // namespace wreath
