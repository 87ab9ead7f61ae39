// Describes a machine's parts as its kernel shows them, and which of its cores each of several ranks gets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace wreath {

// Describes a hardware thread, by the kernel's number.
struct Processor {
  int number = 0;
  // Holds the lowest number among the hardware threads of its core.
  int core = 0;
  int package = 0;
  int node = 0;  // NUMA
};

enum class CacheKind { Data, Instruction, Unified };

struct Cache {
  int level = 0;
  CacheKind kind = CacheKind::Unified;
  std::size_t bytes = 0;
  // Lists the processors that share the cache, ascending.
  std::vector<int> processors;
};

struct NumaNode {
  int number = 0;
  std::uint64_t bytes = 0;
  std::uint64_t free_bytes = 0;
  std::vector<int> processors;
};

// Describes where a device is plugged in.
struct PciPlace {
  // Holds an address such as "0000:17:00.0"; empty where the device is no PCI device.
  std::string address;
  // Lists the bridges from the root complex ("pci0000:16") down to the one above the device.
  std::vector<std::string> bridges;
  // Holds the NUMA node; -1 where the device is near none, or the kernel does not say.
  int node = -1;
  // Holds text such as "16.0 GT/s PCIe x16"; empty where it is not known.
  std::string link;
};

// Tells how far two devices are from each other; the nearest comes first.
enum class PciDistance { SameBridge, SeveralBridges, SameRoot, SameNode, OtherNode, Unknown };
PciDistance pci_distance(const PciPlace& a, const PciPlace& b);
const char* name(PciDistance distance);

struct Gpu {
  PciPlace place;
  // Holds a name such as "NVIDIA H100 80GB HBM3"; vendor and number where there is no driver.
  std::string name;
  // Names the driver; empty where there is none, so that no program can use the GPU.
  std::string driver;
  // Counts the GPU's memory; 0 where it is not known.
  std::uint64_t bytes = 0;
  // Holds text such as "GPU-..."; empty where it is not known.
  std::string uuid;
};

// Describes the way between two GPUs. Their driver alone says whether one may access the other's memory.
struct GpuLink {
  // Holds an index in Topology::gpus, below `second`.
  int first = 0;
  int second = 0;
  // Counts the NVLinks that are up, either straight or from each GPU to switches. 0 where there are none, or none are
  // known.
  int nvlinks = 0;
  int nvlink_version = 0;
  bool nvswitch = false;
  PciDistance pci = PciDistance::Unknown;
};
// Returns text such as "NVLink 4 x18 by NVSwitch" or "PCIe through a host bridge".
std::string link_text(const GpuLink& link);

struct NetworkInterface {
  std::string name;
  // Is "ethernet", "infiniband", "loopback", "bridge", "bond" or "virtual".
  std::string kind;
  // Holds the kernel's word: "up", "down" or "unknown" (of a device that cannot tell).
  std::string state;
  std::int64_t speed_mbit = 0;  // 0: not known
  int mtu = 0;
  std::string driver;
  // Lists addresses of this machine only; there are none for another `root`.
  std::vector<std::string> addresses;
  PciPlace place;
};

// Holds an address by which other adapters reach a port.
struct RdmaGid {
  int index = 0;
  std::string address;    // "::ffff:10.0.0.1"
  std::string type;       // "RoCE v2", "IB/RoCE v1"; empty where the kernel does not say
  std::string interface;  // the network interface that has the address; empty where the kernel does not say
};

struct RdmaPort {
  int number = 0;
  std::string state;          // "ACTIVE", "DOWN", ...
  std::string link_layer;     // "InfiniBand", "Ethernet" or "Unspecified"
  std::string rate;           // "400 Gb/sec (4X NDR)"
  std::vector<RdmaGid> gids;  // those that are in use, by index
};

struct RdmaDevice {
  std::string name;
  std::vector<RdmaPort> ports;
  // Names the network interfaces of the same device, and those that have its GIDs.
  std::vector<std::string> interfaces;
  PciPlace place;
  std::string driver;  // "mlx5_core"; empty where the device is software, or the kernel does not say
};

// Returns the GIDs that peers may know a port by; the first is taken. On Ethernet RoCE v2 comes before v1, and an IPv4
// address before IPv6 before a link-local one. On InfiniBand they are all.
std::vector<RdmaGid> main_gids(const RdmaPort& port);
// Returns text such as "gid 1 ::ffff:10.0.0.1 RoCE v2 on eth0".
std::string gid_text(const RdmaGid& gid);

struct Topology {
  std::string host;
  std::string kernel;     // "6.1.0-18-amd64"
  std::string processor;  // "Intel(R) Xeon(R) Platinum 8480+"
  // Holds "KVM", or "yes" where its name is not known; empty where none is seen.
  std::string hypervisor;

  // Lists the processors that are online, by package, node, core and number.
  std::vector<Processor> processors;
  std::vector<Cache> caches;    // by level, kind, first processor
  std::vector<NumaNode> nodes;  // by number; at least one
  std::vector<Gpu> gpus;        // by PCI address
  // Holds a link for each pair of GPUs.
  std::vector<GpuLink> gpu_links;
  std::vector<NetworkInterface> interfaces;
  std::vector<RdmaDevice> rdma;

  // Lists the numbers of the processors that this thread may run on, ascending.
  std::vector<int> allowed;
  // Counts cores of `allowed`: as many as the control groups' quota permits to run at once.
  int usable_cores = 0;
  // Counts the memory that can be had now, control groups' limits included.
  std::uint64_t available_bytes = 0;
  // Holds a sentence for each part that could not be read.
  std::vector<std::string> unknown;
};

// Reads the machine's parts and never fails: a part that cannot be read is missing, and `unknown` names it. `root`
// stands for / (a copy of another machine's /sys and /proc, say).
Topology read_topology(const std::string& root = "");

// Returns for each of `ranks` processes of this machine the numbers of the hardware threads that it may use,
// ascending. The parts of `allowed` do not overlap, and neighbours are together. No rank spans packages, NUMA nodes
// or last-level caches where it could fit into one. Ranks get whole cores while there is one for each rank. Some
// cores may be left over. With more ranks than hardware threads every rank gets all that is allowed.
std::vector<std::vector<int>> share_cores(const Topology& topology, int ranks);

// Describes the machine: "2 packages, 4 NUMA nodes, 64 cores, 128 hardware threads, 256 GiB".
std::string machine_text(const Topology& topology);
// Describes this process: "may run on 0-15 (16 hardware threads of 8 cores), 90 GiB of memory can be had".
std::string process_text(const Topology& topology);

// Returns text for people, with three digits at most: "48 KiB", "1.5 GiB".
std::string size_text(std::uint64_t bytes);

// Returns "0-3,8" for 0 1 2 3 8, as the kernel and taskset(1) write it.
std::string format_list(const std::vector<int>& numbers);

}  // namespace wreath
