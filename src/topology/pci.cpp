// Finds a device's way through the bridges: the folders of /sys/devices above its own are named after them.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "src/topology/kernel_files.hpp"
#include "src/topology/parts.hpp"

namespace wreath {
namespace {

// Returns whether the name ends as an address does, such as "0000:17:00.0".
bool is_address(std::string_view name) {
  constexpr std::string_view kForm = "xxxx:xx:xx.x";
  if (name.size() < kForm.size()) return false;
  name.remove_prefix(name.size() - kForm.size());  // domains may be longer
  return std::equal(name.begin(), name.end(), kForm.begin(), [](char c, char form) {
    return form == 'x' ? std::isxdigit(static_cast<unsigned char>(c)) != 0 : c == form;
  });
}

// Returns whether the name is a root complex, such as "pci0000:16".
bool is_root(std::string_view name) { return name.starts_with("pci") && name.find(':') != std::string_view::npos; }

}  // namespace

PciPlace read_place(const std::string& path) {
  PciPlace place;
  std::error_code none;
  const std::filesystem::path real = std::filesystem::canonical(path, none);
  if (none) return place;
  // Is the folder of the last PCI device so far.
  std::filesystem::path folder;
  std::filesystem::path at;
  for (const std::filesystem::path& part : real) {
    at /= part;
    const std::string part_name = part.string();
    if (!is_address(part_name) && !is_root(part_name)) continue;
    if (!place.address.empty()) place.bridges.push_back(place.address);
    place.address = part_name;
    folder = at;
  }
  if (!is_address(place.address)) return {};
  place.node = static_cast<int>(number_of(folder / "numa_node").value_or(-1));
  const std::string speed = line_of(folder / "current_link_speed");
  const std::string width = line_of(folder / "current_link_width");
  if (!speed.empty() && !speed.starts_with("Unknown") && width != "0") place.link = fmt::format("{} x{}", speed, width);
  return place;
}

PciDistance pci_distance(const PciPlace& a, const PciPlace& b) {
  if (a.address.empty() || b.address.empty()) return PciDistance::Unknown;
  const auto [left, right] = std::mismatch(a.bridges.begin(), a.bridges.end(), b.bridges.begin(), b.bridges.end());
  const auto common = left - a.bridges.begin();
  const bool same_bridge = left == a.bridges.end() && right == b.bridges.end();
  if (common > 1) return same_bridge ? PciDistance::SameBridge : PciDistance::SeveralBridges;
  if (common == 1) return PciDistance::SameRoot;
  if (a.node < 0 || b.node < 0) return PciDistance::Unknown;
  return a.node == b.node ? PciDistance::SameNode : PciDistance::OtherNode;
}

const char* name(PciDistance distance) {
  switch (distance) {
    case PciDistance::SameBridge: return "behind the same PCI bridge";
    case PciDistance::SeveralBridges: return "over PCI bridges";
    case PciDistance::SameRoot: return "over the same PCI root";
    case PciDistance::SameNode: return "of the same NUMA node";
    case PciDistance::OtherNode: return "of another NUMA node";
    case PciDistance::Unknown: break;
  }
  return "somewhere";
}

}  // namespace wreath
