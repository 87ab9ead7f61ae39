// Reads lists of ports, and listens where WREATH_PORT_RANGE admits it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/socket.hpp"
#include "wreath/result.hpp"

namespace wreath {

// Returns the parts of a text between its commas, without the empty ones.
std::vector<std::string> split_list(std::string_view text);

// Reads text such as "29600-29615,30000", with at most 1024 ports. `name` is the variable's, for the error.
Result<std::vector<std::uint16_t>> parse_ports(std::string_view text, std::string_view name);

// Listens at the first port of WREATH_PORT_RANGE that is free, or at any port without the variable.
Result<Fd> listen_in_range(const SocketAddress& interface);

}  // namespace wreath
