// Reads GPUs: PCI devices of display and accelerator classes by the vendors that make GPUs for computing.
#include <fmt/format.h>

#include <iterator>
#include <string_view>

#include "src/topology/kernel_files.hpp"
#include "src/topology/parts.hpp"

namespace wreath {
namespace {

struct Vendor {
  std::int64_t number;
  std::string_view name;
};
constexpr Vendor kVendors[] = {{0x10de, "NVIDIA"}, {0x1002, "AMD"}, {0x8086, "Intel"}};

// These are first bytes of a PCI class.
constexpr std::int64_t kDisplay = 0x03;
constexpr std::int64_t kAccelerator = 0x12;

const Vendor* gpu_vendor(const std::string& folder) {
  const std::int64_t device_class = number_of(folder + "/class").value_or(0) >> 16;
  if (device_class != kDisplay && device_class != kAccelerator) return nullptr;
  const auto number = number_of(folder + "/vendor");
  for (const Vendor& vendor : kVendors) {
    if (vendor.number == number) return &vendor;
  }
  return nullptr;
}

// Returns the driver's name for the GPU, else its vendor and number.
std::string gpu_name(const std::string& root, const std::string& folder, const std::string& address,
                     std::string_view vendor) {
  for (const std::string& given : {field_of(root + "/proc/driver/nvidia/gpus/" + address + "/information", "Model"),
                                   line_of(folder + "/product_name")}) {
    if (!given.empty()) return given;
  }
  return fmt::format("{} {:04x}", vendor, number_of(folder + "/device").value_or(0));
}

}  // namespace

void read_gpus(const std::string& root, Topology& topology) {
  const std::string devices = root + "/sys/bus/pci/devices";
  for (const std::string& address : entries_of(devices)) {
    const std::string folder = fmt::format("{}/{}", devices, address);
    const Vendor* const vendor = gpu_vendor(folder);
    if (vendor == nullptr) continue;
    // The driver amdgpu has this file.
    const auto bytes = number_of(folder + "/mem_info_vram_total");
    topology.gpus.push_back({read_place(folder),
                             gpu_name(root, folder, address, vendor->name),
                             link_name(folder + "/driver"),
                             static_cast<std::uint64_t>(bytes.value_or(0)),
                             {}});
  }
  const int gpus = static_cast<int>(topology.gpus.size());
  const auto place = [&](int gpu) -> const PciPlace& { return topology.gpus[static_cast<std::size_t>(gpu)].place; };
  for (int first = 0; first < gpus; ++first) {
    for (int second = first + 1; second < gpus; ++second) {
      topology.gpu_links.push_back({first, second, 0, 0, false, pci_distance(place(first), place(second))});
    }
  }
}

}  // namespace wreath
