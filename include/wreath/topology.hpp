// What a machine is made of, as its kernel shows it, and which of its cores each of several ranks gets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace wreath {

// A hardware thread, by the kernel's number.
struct Processor {
  int number = 0;
  int core = 0;  // the lowest number among the hardware threads of its core
  int package = 0;
  int node = 0;  // NUMA
};

enum class CacheKind { Data, Instruction, Unified };

struct Cache {
  int level = 0;
  CacheKind kind = CacheKind::Unified;
  std::size_t bytes = 0;
  std::vector<int> processors;  // who share it, ascending
};

struct NumaNode {
  int number = 0;
  std::uint64_t bytes = 0;
  std::uint64_t free_bytes = 0;
  std::vector<int> processors;
};

// Where a device is plugged in.
struct PciPlace {
  std::string address;               // "0000:17:00.0"; empty: it is no PCI device
  std::vector<std::string> bridges;  // from the root complex ("pci0000:16") down to the one above it
  int node = -1;                     // NUMA; -1: near none, or the kernel does not say
  std::string link;                  // "16.0 GT/s PCIe x16"; empty: not known
};

// How far two devices are from each other; nearest first.
enum class PciDistance { SameBridge, SeveralBridges, SameRoot, SameNode, OtherNode, Unknown };
PciDistance pci_distance(const PciPlace& a, const PciPlace& b);
const char* name(PciDistance distance);

struct Gpu {
  PciPlace place;
  std::string name;         // "NVIDIA H100 80GB HBM3"; vendor and number where there is no driver
  std::string driver;       // empty: none, so that no program can use it
  std::uint64_t bytes = 0;  // of its memory; 0: not known
  std::string uuid;         // "GPU-..."; empty: not known
};

// The way between two GPUs. Whether one may access the other's memory is its driver's word, not this.
struct GpuLink {
  int first = 0;  // in Topology::gpus, below second
  int second = 0;
  int nvlinks = 0;  // that are up: straight, or of each to switches; 0: none, or not known
  int nvlink_version = 0;
  bool nvswitch = false;
  PciDistance pci = PciDistance::Unknown;
};
// "NVLink 4 x18 by NVSwitch", "PCIe through a host bridge".
std::string link_text(const GpuLink& link);

struct NetworkInterface {
  std::string name;
  std::string kind;             // "ethernet", "infiniband", "loopback", "bridge", "bond", "virtual"
  std::string state;            // the kernel's: "up", "down", "unknown" (of a device that cannot tell)
  std::int64_t speed_mbit = 0;  // 0: not known
  int mtu = 0;
  std::string driver;
  std::vector<std::string> addresses;  // of this machine only; none for another `root`
  PciPlace place;
};

struct RdmaPort {
  int number = 0;
  std::string state;       // "ACTIVE", "DOWN", ...
  std::string link_layer;  // "InfiniBand" or "Ethernet"
  std::string rate;        // "400 Gb/sec (4X NDR)"
};

struct RdmaDevice {
  std::string name;
  std::vector<RdmaPort> ports;
  std::vector<std::string> interfaces;  // network interfaces of the same device
  PciPlace place;
};

struct Topology {
  std::string host;
  std::string kernel;      // "6.1.0-18-amd64"
  std::string processor;   // "Intel(R) Xeon(R) Platinum 8480+"
  std::string hypervisor;  // "KVM", or "yes" where its name is not known; empty: none is seen

  std::vector<Processor> processors;  // online ones: by package, node, core, number
  std::vector<Cache> caches;          // by level, kind, first processor
  std::vector<NumaNode> nodes;        // by number; at least one
  std::vector<Gpu> gpus;              // by PCI address
  std::vector<GpuLink> gpu_links;     // of each pair
  std::vector<NetworkInterface> interfaces;
  std::vector<RdmaDevice> rdma;

  std::vector<int> allowed;           // numbers of the processors that this thread may run on, ascending
  int usable_cores = 0;               // of `allowed`, as many as the control groups' quota lets run at once
  std::uint64_t available_bytes = 0;  // memory that can be had now, control groups' limits included
  std::vector<std::string> unknown;   // a sentence for each part that could not be read
};

// Never fails: what cannot be read is missing, and named in `unknown`. `root` stands for / (a copy of another machine's
// /sys and /proc, say).
Topology read_topology(const std::string& root = "");

// For each of `ranks` processes of this machine the numbers of the hardware threads it may use, ascending: parts of
// `allowed` that do not overlap, neighbours together, no rank across packages, NUMA nodes or last-level caches that
// could fit into one, and whole cores while there is one for each rank. Some cores may be left over. With more ranks
// than hardware threads every rank gets all that is allowed.
std::vector<std::vector<int>> share_cores(const Topology& topology, int ranks);

// Of the machine: "2 packages, 4 NUMA nodes, 64 cores, 128 hardware threads, 256 GiB". Of this process: "may run on
// 0-15 (16 hardware threads of 8 cores), 90 GiB of memory can be had".
std::string machine_text(const Topology& topology);
std::string process_text(const Topology& topology);

// "48 KiB", "1.5 GiB": three digits at most, for people.
std::string size_text(std::uint64_t bytes);

// "0-3,8" for 0 1 2 3 8, as the kernel and taskset(1) write it.
std::string format_list(const std::vector<int>& numbers);

}  // namespace wreath
