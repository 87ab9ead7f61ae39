// The ends of a link over several sockets say to each other which sockets are lost, where new ones are accepted, and
// how many they want. All bytes here are a stranger's until decode_rail_word() has seen them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

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

// The sender wants so many rails, and has so many.
struct RailCount {
  std::uint8_t wants = 1;
  std::uint8_t has = 1;
  bool operator==(const RailCount&) const = default;
};

struct RailWord {
  enum class Kind : std::uint8_t {
    // The sender has closed this socket.
    Lost = 1,
    // The sender has lost the rail that began with this socket, and waits for another one at that port of its local
    // address.
    Awaited,
    // The sender waits for one more rail, at that port of the local address of the rail that began with this socket.
    Offered,
    // The sender does not need this socket, which is that of the last rail: the receiver closes it.
    Unneeded,
    // The word has nothing but `count`.
    Count,
  };
  Kind kind = Kind::Lost;
  RailAddresses socket{};
  // These are in words that a socket is awaited or offered.
  std::uint16_t port = 0;
  RailSecret secret{};  // the one who connects says it
  RailSecret answer{};  // the one who waits says it then, and both use the socket
  RailCount count{};
};

Offer encode_rail_word(const RailWord& word);
// Returns Mismatch with what is wrong where this is no word.
Result<RailWord> decode_rail_word(std::span<const std::byte> bytes);

}  // namespace wreath
