// Checks RDMA devices: their ports, addresses and packets, and what lets programs of this user reach them.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "src/base/config.hpp"
#include "src/base/text_file.hpp"
#include "src/topology/kernel_files.hpp"
#include "tools/doctor/findings.hpp"

namespace wreath {
namespace {

bool exists(const std::string& path) {
  std::error_code none;
  return std::filesystem::exists(path, none);
}

std::string subject_of(const RdmaDevice& device, const RdmaPort& port) {
  return fmt::format("{} port {}", device.name, port.number);
}

void check_state(const RdmaDevice& device, const RdmaPort& port, Findings& findings) {
  const std::string text = fmt::format("{}, {} {}", port.state, port.link_layer, port.rate);
  if (port.state == "ACTIVE") return findings.ok(subject_of(device, port), text);
  findings.note(subject_of(device, port), text,
                port.link_layer == "InfiniBand" ? "look at its cable, and that a subnet manager runs (opensm)"
                                                : "as root: ip link set its interface up; then look at its cable");
}

std::string interface_of(const RdmaDevice& device, const std::vector<RdmaGid>& gids) {
  for (const RdmaGid& gid : gids) {
    if (!gid.interface.empty()) return gid.interface;
  }
  return device.interfaces.empty() ? "its interface" : device.interfaces.front();
}

// Checks the addresses of an Ethernet port. Each comes from an address of its network interface.
void check_gids(const RdmaDevice& device, const RdmaPort& port, Findings& findings) {
  const std::vector<RdmaGid> gids = main_gids(port);
  const std::string subject = subject_of(device, port) + " GIDs";
  const std::string address = fmt::format("as root: ip addr add ADDRESS/PREFIX dev {}", interface_of(device, gids));
  if (gids.empty()) {
    // Adapters of InfiniBand find each other by other addresses, too.
    if (port.link_layer == "Ethernet") findings.note(subject, "none: no peer can name this port", address);
    return;
  }
  constexpr std::size_t kShown = 4;
  std::vector<std::string> texts;
  for (const RdmaGid& gid : gids) texts.push_back(gid_text(gid));
  const std::size_t more = texts.size() > kShown ? texts.size() - kShown : 0;
  texts.resize(texts.size() - more);
  const std::string text =
      fmt::format("{}{}", fmt::join(texts, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
  if (port.link_layer != "Ethernet") return findings.ok(subject, text);
  if (gids.front().type.ends_with("RoCE v1")) {
    findings.note(subject, text + "; RoCE v1 does not leave its Ethernet segment",
                  "for peers behind a router: a driver and an adapter that have RoCE v2");
  } else if (gids.front().address.starts_with("fe80:")) {
    findings.note(subject, text + "; a link-local address does not leave its Ethernet segment", address);
  } else {
    findings.ok(subject, text);
  }
}

// Returns the most data of an RDMA packet on an interface of that MTU, as the kernel computes it: a power of two.
int packet_bytes(int interface_mtu) {
  constexpr int kHeaders = 96;
  int bytes = 4096;
  while (bytes > 256 && bytes > interface_mtu - kHeaders) bytes /= 2;
  return bytes;
}

// Checks the packets of an Ethernet port. The files of the kernel do not tell those of InfiniBand.
void check_packets(const Surroundings& surroundings, const RdmaDevice& device, const RdmaPort& port,
                   Findings& findings) {
  const std::string name = interface_of(device, main_gids(port));
  const auto& interfaces = surroundings.topology.interfaces;
  const auto interface = std::find_if(interfaces.begin(), interfaces.end(),
                                      [&](const NetworkInterface& each) { return each.name == name; });
  if (port.link_layer != "Ethernet" || interface == interfaces.end() || interface->mtu == 0) return;
  const int bytes = packet_bytes(interface->mtu);
  const std::string subject = subject_of(device, port) + " MTU";
  const std::string text = fmt::format("{} bytes of data a packet; {} has mtu {}", bytes, name, interface->mtu);
  if (bytes >= 4096) return findings.ok(subject, text);
  findings.note(subject, text, fmt::format("where all of the network can, as root: ip link set {} mtu 9000", name));
}

// Returns the byte of a PCI device's configuration at that place; -1 where the file is shorter.
int byte_at(const std::string& configuration, std::size_t at) {
  return at < configuration.size() ? static_cast<unsigned char>(configuration[at]) : -1;
}

// Returns whether a PCI device may let its writes overtake each other. Only root reads so much of the file: nullopt
// where it ends before.
std::optional<bool> relaxed_ordering(const std::string& configuration) {
  constexpr std::size_t kFirstCapability = 0x34;
  constexpr int kPciExpress = 0x10;
  constexpr std::size_t kDeviceControl = 8;
  constexpr int kEnableRelaxedOrdering = 0x10;
  constexpr int kMostCapabilities = 48;
  int at = byte_at(configuration, kFirstCapability);
  for (int i = 0; i < kMostCapabilities && at > 0; ++i) {
    const auto offset = static_cast<std::size_t>(at);
    if (byte_at(configuration, offset) == kPciExpress) {
      const int control = byte_at(configuration, offset + kDeviceControl);
      return control < 0 ? std::nullopt : std::optional((control & kEnableRelaxedOrdering) != 0);
    }
    at = byte_at(configuration, offset + 1);
  }
  return std::nullopt;
}

void check_ordering(const Surroundings& surroundings, const RdmaDevice& device, Findings& findings) {
  constexpr std::size_t kMostBytes = 4096;
  const std::string folder = fmt::format("{}/sys/class/infiniband/{}/device", surroundings.root, device.name);
  const auto configuration = read_file(folder + "/config", kMostBytes);
  if (!configuration) return;
  const std::optional<bool> relaxed = relaxed_ordering(*configuration);
  if (!relaxed) return;
  const std::string subject = device.name + " ordering";
  if (*relaxed) return findings.ok(subject, "its writes may overtake each other (PCIe relaxed ordering)");
  findings.note(subject, "PCIe relaxed ordering is off: each of its writes to memory waits for those before it",
                fmt::format("as root: setpci -s {} CAP_EXP+8.w=10:10, or in the machine's firmware",
                            device.place.address.empty() ? "ADDRESS" : device.place.address));
}

// Returns the name of the device file by which programs reach an RDMA device, such as "uverbs0"; empty: it has none.
std::string verbs_node(const Surroundings& surroundings, const RdmaDevice& device) {
  const std::string folder = surroundings.root + "/sys/class/infiniband_verbs";
  for (const std::string& node : entries_of(folder)) {
    if (line_of(fmt::format("{}/{}/ibdev", folder, node)) == device.name) return node;
  }
  return {};
}

// Checks whether this process may open the device. A copy of another machine's files does not tell that.
void check_node(const Surroundings& surroundings, const RdmaDevice& device, Findings& findings) {
  const std::string node = verbs_node(surroundings, device);
  if (node.empty()) return;
  const std::string path = "/dev/infiniband/" + node;
  const std::string subject = device.name + " access";
  if (!exists(surroundings.root + path)) {
    return findings.note(subject, path + " is missing: this container does not see the device",
                         "docker run --device=/dev/infiniband ...");
  }
  if (surroundings.probes && ::access((surroundings.root + path).c_str(), R_OK | W_OK) != 0) {
    return findings.note(subject, fmt::format("{}: {}", path, std::strerror(errno)),
                         fmt::format("as root: chmod a+rw {}, which the package rdma-core does for all of them", path));
  }
  findings.ok(subject, path);
}

// Checks what a device answered to a program that opened it.
void check_answers(const Surroundings& surroundings, const AdapterProbe& probe, Findings& findings) {
  const std::string subject = probe.name + " dma-buf";
  if (probe.open_error != 0) {
    return findings.note(probe.name + " open", std::strerror(probe.open_error),
                         "look at the libraries of `ibv_devinfo -v`: apt-get install ibverbs-providers");
  }
  if (probe.dma_buf_error == 0) return findings.ok(subject, "it takes memory of GPUs");
  if (surroundings.topology.gpus.empty()) {
    return findings.ok(subject, "it takes no memory of GPUs; there are none");
  }
  findings.note(subject, fmt::format("it takes no memory of GPUs: {}", std::strerror(probe.dma_buf_error)),
                "a kernel of 5.12 or later, and a driver that can (mlx5, bnxt_re, irdma, efa)");
}

// Tells the outage of a network that connections survive, by the variables of this process.
void check_retries(Findings& findings) {
  constexpr double kUnitUs = 4.096;
  constexpr double kShortMs = 1'000;
  const auto timeout = setting_integer(Setting::IbTimeout);
  const auto retries = setting_integer(Setting::IbRetryCount);
  if (!timeout || !retries) return;  // the variables have a finding of their own
  const double wait_ms = kUnitUs * static_cast<double>(std::int64_t{1} << *timeout) / 1'000;
  const double all_ms = wait_ms * static_cast<double>(*retries + 1);
  const std::string text = fmt::format("{} after {:.3g} ms each: a connection survives {:.1f} s without a packet",
                                       *retries, wait_ms, all_ms / 1'000);
  if (all_ms >= kShortMs) return findings.ok("RDMA retries", text);
  findings.note("RDMA retries", text,
                fmt::format("unset {} {}, whose defaults are {} and {}", row(Setting::IbTimeout).name,
                            row(Setting::IbRetryCount).name, row(Setting::IbTimeout).fallback,
                            row(Setting::IbRetryCount).fallback));
}

bool is_efa(const RdmaDevice& device) { return device.driver == "efa"; }

// Checks that libfabric drives an EFA device. A copy of another machine's files does not tell that.
void check_efa(const Surroundings& surroundings, const RdmaDevice& device, Findings& findings) {
  constexpr std::string_view kDrives = "an EFA device, which the transport ofi drives by libfabric";
  if (!surroundings.probes) return findings.ok(device.name, std::string(kDrives));
  const auto& fabrics = surroundings.probes->fabrics;
  if (std::ranges::find(fabrics, "efa", &FabricProbe::provider) != fabrics.end()) {
    return findings.ok(device.name, std::string(kDrives));
  }
  findings.note(device.name, "an EFA device, and libfabric has no provider efa here: ranks of several hosts use tcp",
                "install libfabric by AWS's EFA installer; FI_PROVIDER and FI_LOG_LEVEL=warn say more");
}

void check_device(const Surroundings& surroundings, const RdmaDevice& device, Findings& findings) {
  for (const RdmaPort& port : device.ports) {
    check_state(device, port, findings);
    if (port.state != "ACTIVE" || is_efa(device)) continue;
    check_gids(device, port, findings);
    check_packets(surroundings, device, port, findings);
  }
  check_ordering(surroundings, device, findings);
  check_node(surroundings, device, findings);
  if (is_efa(device)) check_efa(surroundings, device, findings);
}

}  // namespace

void check_rdma(const Surroundings& surroundings, Findings& findings) {
  const auto& devices = surroundings.topology.rdma;
  if (devices.empty()) return findings.ok("RDMA", "none");
  for (const RdmaDevice& device : devices) check_device(surroundings, device, findings);
  const auto nodes = entries_of(surroundings.root + "/dev/infiniband");
  const bool verbs =
      std::any_of(nodes.begin(), nodes.end(), [](const std::string& node) { return node.starts_with("uverbs"); });
  if (!verbs) {
    findings.note("/dev/infiniband", "has no uverbs: programs cannot reach the RDMA devices",
                  "as root: modprobe ib_uverbs, or docker run --device=/dev/infiniband ...");
  }
  if (!surroundings.probes) return;
  check_retries(findings);
  for (const AdapterProbe& probe : surroundings.probes->adapters) check_answers(surroundings, probe, findings);
}

}  // namespace wreath
