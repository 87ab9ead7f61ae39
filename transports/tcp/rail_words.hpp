// The ends of a link over several sockets say to each other which sockets are lost, and where new ones are accepted.
// All bytes here are a stranger's until decode_rail_word() has seen them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

#include "src/base/socket.hpp"
#include "wreath/link.hpp"
#include "wreath/result.hpp"

namespace wreath {

// Names a socket by the addresses that its end knows. It has other names at the two ends, where the network changes
// addresses on the way.
struct RailAddresses {
  SocketAddress local;
  SocketAddress remote;

  bool known() const { return !local.ip_bytes().empty() && !remote.ip_bytes().empty(); }
  // Returns whether `theirs` is the other end's name of the same socket.
  bool is_other_end_of(const RailAddresses& theirs) const;
};

// A number that nobody else knows: who says it over a new socket is the peer.
using RailSecret = std::array<std::byte, 16>;

// The sender has closed this socket.
struct RailLost {
  RailAddresses socket;
};
// The sender has lost the rail that began with this socket, and waits for another one at that port of its local
// address.
struct RailAwaited {
  RailAddresses socket;
  std::uint16_t port = 0;
  RailSecret secret{};  // the one who connects says it
  RailSecret answer{};  // the one who waits says it then, and both use the socket
};
using RailWord = std::variant<RailLost, RailAwaited>;

Offer encode_rail_word(const RailWord& word);
// Returns Mismatch with what is wrong where this is no word.
Result<RailWord> decode_rail_word(std::span<const std::byte> bytes);

}  // namespace wreath
