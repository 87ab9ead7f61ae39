// The token one rank makes and hands to the others so that they meet: an address and a secret.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "wreath/result.hpp"

namespace wreath {

// 128 bytes, opaque, freely copied. Whoever holds it may join: send it over a private channel.
struct UniqueId {
  std::array<std::byte, 128> bytes{};

  // Opens the meeting point in this process (a short-lived thread serves it until all ranks have
  // met or the start-up clock ends) and makes the id that leads to it. Ranks of one host meet over
  // a UNIX socket; with `address` (an IP of this host) other hosts can join too.
  static Result<UniqueId> create(std::string_view address = {});

  // The same for ranks of other hosts, too, at the address of an interface that WREATH_SOCKET_IFNAME admits; without
  // it, of the first that leads to other hosts. Where the host has none, as create().
  static Result<UniqueId> create_for_hosts();

  // 256 hexadecimal digits, and back; parse names the first wrong character.
  std::string to_string() const;
  static Result<UniqueId> parse(std::string_view text);
};

}  // namespace wreath
