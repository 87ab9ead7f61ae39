// Calls NVIDIA's management library: see nvml.hpp. Each function is found by the name that has the declared form in all
// versions of the library since NVLink.
#include "src/topology/nvml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "src/topology/parts.hpp"

namespace wreath {
namespace {

constexpr unsigned kMostLinks = 32;

template <typename Function>
void find(const SharedLibrary& library, const char* name, Function*& function, std::string& missing) {
  function = library.find<Function>(name);
  if (function == nullptr && missing.empty()) missing = name;
}

std::string find_all(const SharedLibrary& library, NvmlFunctions& functions) {
  std::string missing;
  find(library, "nvmlInit_v2", functions.init, missing);
  find(library, "nvmlShutdown", functions.shutdown, missing);
  find(library, "nvmlErrorString", functions.error_string, missing);
  find(library, "nvmlDeviceGetHandleByPciBusId_v2", functions.handle_by_pci, missing);
  find(library, "nvmlDeviceGetUUID", functions.uuid, missing);
  find(library, "nvmlDeviceGetMemoryInfo", functions.memory_info, missing);
  find(library, "nvmlDeviceGetTopologyCommonAncestor", functions.common_ancestor, missing);
  find(library, "nvmlDeviceGetNvLinkState", functions.nvlink_state, missing);
  find(library, "nvmlDeviceGetNvLinkVersion", functions.nvlink_version, missing);
  find(library, "nvmlDeviceGetNvLinkRemoteDeviceType", functions.nvlink_remote_type, missing);
  find(library, "nvmlDeviceGetNvLinkRemotePciInfo_v2", functions.nvlink_remote_pci, missing);
  return missing;
}

PciDistance distance_of(int ancestor) {
  switch (ancestor) {
    case kNvmlInternal:
    case kNvmlSingle: return PciDistance::SameBridge;
    case kNvmlMultiple: return PciDistance::SeveralBridges;
    case kNvmlHostBridge: return PciDistance::SameRoot;
    case kNvmlNode: return PciDistance::SameNode;
    case kNvmlSystem: return PciDistance::OtherNode;
    default: return PciDistance::Unknown;
  }
}

struct PciNumbers {
  unsigned domain = 0;
  unsigned bus = 0;
  unsigned device = 0;
  friend bool operator==(const PciNumbers&, const PciNumbers&) = default;
};

// Reads the numbers of "0000:17:00.0"; domains have four digits or eight.
PciNumbers numbers_of(const std::string& address) {
  PciNumbers numbers;
  if (std::sscanf(address.c_str(), "%x:%x:%x", &numbers.domain, &numbers.bus, &numbers.device) != 3) return {};
  return numbers;
}

}  // namespace

Result<std::unique_ptr<Nvml>> Nvml::open(const char* file) {
  auto library = SharedLibrary::open(file);
  if (!library) return library.error();
  std::unique_ptr<Nvml> nvml(new Nvml(*std::move(library)));
  if (const std::string missing = find_all(nvml->library_, nvml->functions_); !missing.empty()) {
    return Error{ErrorCode::Unavailable, fmt::format("{}: has no {}", file, missing)};
  }
  const NvmlResult begun = nvml->functions_.init();
  if (begun != kNvmlSuccess) {
    return Error{ErrorCode::Unavailable, fmt::format("{}: nvmlInit: {}", file, nvml->functions_.error_string(begun))};
  }
  nvml->begun_ = true;
  return nvml;
}

Nvml::~Nvml() {
  if (begun_) functions_.shutdown();
}

NvmlDevice Nvml::device_at(const std::string& address) const {
  NvmlDevice device = nullptr;
  return functions_.handle_by_pci(address.c_str(), &device) == kNvmlSuccess ? device : nullptr;
}

std::uint64_t Nvml::memory_bytes(const std::string& address) const {
  const NvmlDevice device = device_at(address);
  NvmlMemory memory{};
  return device != nullptr && functions_.memory_info(device, &memory) == kNvmlSuccess ? memory.total : 0;
}

std::string Nvml::uuid(const std::string& address) const {
  const NvmlDevice device = device_at(address);
  std::array<char, kNvmlUuidBytes> text{};
  if (device == nullptr || functions_.uuid(device, text.data(), text.size() - 1) != kNvmlSuccess) return {};
  return text.data();
}

// Calls `visit(link, type)` for each link that is up; `type` is what is at its other end.
template <typename Visit>
void Nvml::each_nvlink(NvmlDevice device, Visit visit) const {
  for (unsigned link = 0; link < kMostLinks; ++link) {
    int state = 0;
    int type = -1;
    if (functions_.nvlink_state(device, link, &state) != kNvmlSuccess) return;
    if (state != kNvmlEnabled || functions_.nvlink_remote_type(device, link, &type) != kNvmlSuccess) continue;
    visit(link, type);
  }
}

// Returns the way between two GPUs. Switches of one machine are taken to reach each other.
GpuLink Nvml::link(const std::string& first, const std::string& second) const {
  GpuLink found;
  const NvmlDevice a = device_at(first);
  const NvmlDevice b = device_at(second);
  if (a == nullptr || b == nullptr) return found;
  int ancestor = -1;
  if (functions_.common_ancestor(a, b, &ancestor) == kNvmlSuccess) found.pci = distance_of(ancestor);
  int direct = 0;
  int to_switches = 0;
  const auto note_version = [&](unsigned link) {
    unsigned version = 0;
    if (functions_.nvlink_version(a, link, &version) == kNvmlSuccess) found.nvlink_version = static_cast<int>(version);
  };
  each_nvlink(a, [&](unsigned link, int type) {
    NvmlPci remote{};
    if (type == kNvmlRemoteSwitch) {
      ++to_switches;
    } else if (type == kNvmlRemoteGpu && functions_.nvlink_remote_pci(a, link, &remote) == kNvmlSuccess &&
               PciNumbers{remote.domain, remote.bus, remote.device} == numbers_of(second)) {
      ++direct;
    } else {
      return;
    }
    note_version(link);
  });
  int others = 0;
  each_nvlink(b, [&](unsigned, int type) { others += type == kNvmlRemoteSwitch ? 1 : 0; });
  found.nvswitch = direct == 0 && std::min(to_switches, others) > 0;
  found.nvlinks = found.nvswitch ? std::min(to_switches, others) : direct;
  if (found.nvlinks == 0) found.nvlink_version = 0;
  return found;
}

std::string link_text(const GpuLink& link) {
  if (link.nvlinks > 0) {
    const std::string version = link.nvlink_version > 0 ? fmt::format(" {}", link.nvlink_version) : "";
    return fmt::format("NVLink{} x{}{}", version, link.nvlinks, link.nvswitch ? " by NVSwitch" : "");
  }
  switch (link.pci) {
    case PciDistance::SameBridge: return "PCIe through a switch";
    case PciDistance::SeveralBridges: return "PCIe through several switches";
    case PciDistance::SameRoot: return "PCIe through a host bridge";
    case PciDistance::SameNode: return "PCIe within a NUMA node";
    case PciDistance::OtherNode: return "PCIe to another NUMA node";
    case PciDistance::Unknown: break;
  }
  return "PCIe";
}

void ask_nvml(const char* file, Topology& topology) {
  const auto is_nvidia = [](const Gpu& gpu) { return gpu.driver == "nvidia"; };
  const auto count = std::count_if(topology.gpus.begin(), topology.gpus.end(), is_nvidia);
  if (count == 0) return;
  const auto nvml = Nvml::open(file);
  if (!nvml) {
    topology.unknown.push_back("links and memory of NVIDIA's GPUs: " + nvml.error().message);
    return;
  }
  for (Gpu& gpu : topology.gpus) {
    if (!is_nvidia(gpu)) continue;
    if (gpu.bytes == 0) gpu.bytes = (*nvml)->memory_bytes(gpu.place.address);
    gpu.uuid = (*nvml)->uuid(gpu.place.address);
  }
  for (GpuLink& link : topology.gpu_links) {
    const Gpu& first = topology.gpus[static_cast<std::size_t>(link.first)];
    const Gpu& second = topology.gpus[static_cast<std::size_t>(link.second)];
    if (!is_nvidia(first) || !is_nvidia(second)) continue;
    GpuLink found = (*nvml)->link(first.place.address, second.place.address);
    if (found.pci == PciDistance::Unknown) found.pci = link.pci;
    found.first = link.first;
    found.second = link.second;
    link = found;
  }
}

}  // namespace wreath
