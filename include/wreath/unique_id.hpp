// Defines the token that one rank makes and gives to the others so that they meet: an address and a secret.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "wreath/result.hpp"

namespace wreath {

// Holds 128 bytes that are opaque and freely copied. Any process that has them may join: send them over a private
// channel.
struct UniqueId {
  std::array<std::byte, 128> bytes{};

  // Opens the meeting point in this process and makes the id that leads to it. A short-lived thread serves it until
  // all ranks have met or the start-up clock ends. Ranks of one host meet over a UNIX socket; with `address` (an IP
  // of this host) other hosts can join too.
  static Result<UniqueId> create(std::string_view address = {});

  // Makes an id for ranks of other hosts, too. Its address is that of an interface that WREATH_SOCKET_IFNAME admits;
  // without the variable, of the first interface that leads to other hosts. Where the host has none, this is
  // create().
  static Result<UniqueId> create_for_hosts();

  // Returns 256 hexadecimal digits.
  std::string to_string() const;
  // Reads 256 hexadecimal digits; an error names the first wrong character.
  static Result<UniqueId> parse(std::string_view text);
};

}  // namespace wreath
