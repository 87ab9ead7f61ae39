// Reads lists of ports: see ports.hpp.
#include "src/base/ports.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "src/base/config.hpp"

namespace wreath {
namespace {

constexpr std::size_t kMostPorts = 1024;

}  // namespace

std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    if (!part.empty()) parts.emplace_back(part);
    text.remove_prefix(std::min(text.size(), part.size() + 1));
  }
  return parts;
}

Result<std::vector<std::uint16_t>> parse_ports(std::string_view text, std::string_view name) {
  const Error refused{
      ErrorCode::InvalidArgument,
      fmt::format("{}={} must be ports from 1 to 65535, as 29600-29615,30000, at most {}", name, text, kMostPorts)};
  std::vector<std::uint16_t> ports;
  for (const std::string& part : split_list(text)) {
    int first = 0;
    const char* const end = part.data() + part.size();
    auto read = std::from_chars(part.data(), end, first);
    int last = first;
    if (read.ec == std::errc() && read.ptr != end && *read.ptr == '-') read = std::from_chars(read.ptr + 1, end, last);
    if (read.ec != std::errc() || read.ptr != end || first < 1 || last < first || last > kMaximumPort) return refused;
    for (int port = first; port <= last; ++port) {
      if (ports.size() == kMostPorts) return refused;
      ports.push_back(static_cast<std::uint16_t>(port));
    }
  }
  if (ports.empty()) return refused;
  return ports;
}

Result<Fd> listen_in_range(const SocketAddress& interface) {
  const std::string text = setting_text(Setting::PortRange);
  if (text.empty()) return listen_on(interface.with_port(0));
  const auto ports = parse_ports(text, row(Setting::PortRange).name);
  if (!ports) return ports.error();
  for (const std::uint16_t port : *ports) {
    int error = 0;
    auto listener = listen_on(interface.with_port(port), &error);
    if (listener || error != EADDRINUSE) return listener;
  }
  return Error{ErrorCode::StartupFailed,
               fmt::format("all ports of WREATH_PORT_RANGE={} are in use at {}", text, interface.ip_text())};
}

}  // namespace wreath
