// These functions look rows up in the table of transports.
#include "wreath/transport.hpp"

namespace wreath {

const TransportRow* find_transport(std::string_view name) noexcept {
  for (const TransportRow& row : transports()) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

std::vector<std::string> transports_between_processes() {
  std::vector<std::string> names;
  for (const TransportRow& row : transports()) {
    if (row.links_processes()) names.emplace_back(row.name);
  }
  return names;
}

std::vector<std::string> usable_between_processes() {
  std::vector<std::string> names = transports_between_processes();
  std::erase_if(names, [](const std::string& name) { return !find_transport(name)->usable(); });
  return names;
}

std::vector<std::string_view> transport_names() {
  std::vector<std::string_view> names;
  for (const TransportRow& row : transports()) names.push_back(row.name);
  names.push_back(kDeviceReach);
  return names;
}

}  // namespace wreath
