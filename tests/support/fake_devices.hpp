// Makes machines with devices: a healthy one with GPUs and RDMA, and a small virtual one.
#pragma once

#include <string>

#include "tests/support/fake_machine.hpp"

namespace wreath::test {

// A PCI device; its folder is below the folders of its bridges.
struct FakePci {
  std::string bridges;  // "pci0000:16/0000:16:00.0"
  std::string address;
  std::string device_class;
  std::string vendor;
  std::string device;
  int node = -1;

  std::string folder() const { return "/sys/devices/" + bridges + "/" + address; }
};

inline void add_pci(const FakeMachine& machine, const FakePci& pci, const std::string& driver) {
  const std::string folder = pci.folder();
  machine.file(folder + "/class", pci.device_class);
  machine.file(folder + "/vendor", pci.vendor);
  machine.file(folder + "/device", pci.device);
  machine.file(folder + "/numa_node", std::to_string(pci.node));
  machine.file(folder + "/current_link_speed", "32.0 GT/s PCIe");
  machine.file(folder + "/current_link_width", "16");
  if (!driver.empty()) machine.link(folder + "/driver", "/sys/bus/pci/drivers/" + driver);
  machine.link("/sys/bus/pci/devices/" + pci.address, folder);
}

struct FakeInterface {
  std::string name;
  std::string device;  // the device's folder; empty: virtual
  std::string type = "1";
  std::string state = "up";
  std::string speed = "100000";
  std::string mtu = "1500";
};

inline void add_interface(const FakeMachine& machine, const FakeInterface& interface) {
  const bool is_virtual = interface.device.empty();
  const std::string folder = (is_virtual ? "/sys/devices/virtual" : interface.device) + "/net/" + interface.name;
  machine.file(folder + "/type", interface.type);
  machine.file(folder + "/operstate", interface.state);
  machine.file(folder + "/speed", interface.speed);
  machine.file(folder + "/mtu", interface.mtu);
  if (!is_virtual) machine.link(folder + "/device", interface.device);
  machine.link("/sys/class/net/" + interface.name, folder);
}

inline void add_rdma(const FakeMachine& machine, const std::string& name, const std::string& device,
                     const std::string& state) {
  const std::string folder = device + "/infiniband/" + name;
  machine.file(folder + "/ports/1/state", state);
  machine.file(folder + "/ports/1/link_layer", "InfiniBand");
  machine.file(folder + "/ports/1/rate", "400 Gb/sec (4X NDR)");
  machine.link(folder + "/device", device);
  machine.link("/sys/class/infiniband/" + name, folder);
}

struct FakeGid {
  int index = 0;
  std::string address;  // eight groups of four digits, as the kernel writes them
  std::string type;
  std::string interface;
};

inline void add_gid(const FakeMachine& machine, const std::string& name, const FakeGid& gid) {
  const std::string port = fmt::format("/sys/class/infiniband/{}/ports/1", name);
  machine.file(fmt::format("{}/gids/{}", port, gid.index), gid.address);
  machine.file(fmt::format("{}/gid_attrs/types/{}", port, gid.index), gid.type);
  machine.file(fmt::format("{}/gid_attrs/ndevs/{}", port, gid.index), gid.interface);
}

// Makes an RDMA device that is software over the virtual interface `interface`, as the kernel's rdma_rxe does. It has
// the addresses of an interface with an IPv4 address, and empty places among them.
inline void add_soft_roce(const FakeMachine& machine, const std::string& name, const std::string& interface,
                          const std::string& mtu = "9000") {
  add_interface(machine, {interface, "", "1", "up", "10000", mtu});
  const std::string folder = "/sys/devices/virtual/infiniband/" + name;
  machine.file(folder + "/ports/1/state", "4: ACTIVE");
  machine.file(folder + "/ports/1/link_layer", "Ethernet");
  machine.file(folder + "/ports/1/rate", "10 Gb/sec (4X SDR)");
  machine.link("/sys/class/infiniband/" + name, folder);
  add_gid(machine, name, {0, "fe80:0000:0000:0000:b0f3:8fff:fe1c:1001", "RoCE v2", interface});
  add_gid(machine, name, {1, "0000:0000:0000:0000:0000:ffff:0a4d:0001", "RoCE v2", interface});
  add_gid(machine, name, {2, "0000:0000:0000:0000:0000:0000:0000:0000", "", ""});
}

inline void name_machine(const FakeMachine& machine, const std::string& host, const std::string& kernel,
                         const std::string& processor) {
  machine.file("/proc/sys/kernel/hostname", host);
  machine.file("/proc/sys/kernel/osrelease", kernel);
  machine.file("/proc/cpuinfo", "processor\t: 0\nmodel name\t: " + processor + "\nflags\t\t: fpu sse avx512f");
}

// Makes a server of two packages, each with a GPU and an RDMA device behind one bridge, and one Ethernet card.
inline void make_gpu_server(const FakeMachine& machine) {
  machine.processors({2, 1, 4, 2});
  name_machine(machine, "h1", "6.1.0-18-amd64", "Intel(R) Xeon(R) Platinum 8480+");
  machine.file("/proc/meminfo", "MemTotal: 134217728 kB\nMemAvailable: 67108864 kB\nSwapFree: 0 kB");
  const FakePci gpu0{"pci0000:16/0000:16:01.0", "0000:17:00.0", "0x030200", "0x10de", "0x2330", 0};
  const FakePci hca0{"pci0000:16/0000:16:01.0", "0000:18:00.0", "0x020700", "0x15b3", "0x1021", 0};
  const FakePci gpu1{"pci0000:96/0000:96:01.0", "0000:97:00.0", "0x030200", "0x10de", "0x2330", 1};
  const FakePci hca1{"pci0000:96/0000:96:05.0", "0000:98:00.0", "0x020700", "0x15b3", "0x1021", 1};
  const FakePci card{"pci0000:00/0000:00:02.0", "0000:02:00.0", "0x020000", "0x8086", "0x1592", 0};
  const FakePci screen{"pci0000:00", "0000:00:03.0", "0x030000", "0x1a03", "0x2000", -1};
  for (const FakePci& gpu : {gpu0, gpu1}) {
    add_pci(machine, gpu, "nvidia");
    machine.file("/proc/driver/nvidia/gpus/" + gpu.address + "/information",
                 "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 16");
  }
  for (const FakePci& hca : {hca0, hca1}) add_pci(machine, hca, "mlx5_core");
  add_pci(machine, card, "ice");
  add_pci(machine, screen, "ast");
  add_interface(machine, {"ib0", hca0.folder(), "32", "up", "400000", "2044"});
  add_interface(machine, {"ib1", hca1.folder(), "32", "down", "-1", "2044"});
  add_interface(machine, {"eth0", card.folder()});
  add_interface(machine, {"lo", "", "772", "unknown", "", "65536"});
  add_interface(machine, {"veth1a", "", "1", "up", "10000"});
  add_rdma(machine, "mlx5_0", hca0.folder(), "4: ACTIVE");
  add_rdma(machine, "mlx5_1", hca1.folder(), "1: DOWN");
}

// Makes a virtual machine of one package with two cores, without NUMA. Its control group has one core and 2 GiB.
inline void make_small_virtual(const FakeMachine& machine) {
  machine.file("/sys/devices/system/cpu/online", "0-1");
  for (const char* const number : {"0", "1"}) {  // without caches
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu{}/topology", number);
    machine.file(folder + "/physical_package_id", "0");
    machine.file(folder + "/core_id", number);
    machine.processor_set(folder + "/thread_siblings_list", folder + "/thread_siblings", number);
    machine.processor_set(folder + "/core_siblings_list", folder + "/core_siblings", "0-1");
  }
  machine.allow("0-1");
  machine.file("/proc/self/cgroup", "0::/job");
  machine.file("/sys/fs/cgroup/job/cpu.max", "100000 100000");
  machine.file("/sys/fs/cgroup/job/memory.max", "2147483648");
  machine.file("/sys/fs/cgroup/job/memory.current", "1073741824");
  machine.file("/proc/sys/kernel/hostname", "vm1");
  machine.file("/proc/sys/kernel/osrelease", "5.4.0");
  machine.file("/proc/cpuinfo", "model name\t: AMD EPYC 7B13\nflags\t\t: fpu hypervisor");
  machine.file("/sys/class/dmi/id/sys_vendor", "QEMU");
  machine.file("/sys/class/dmi/id/product_name", "Standard PC (Q35)");
  machine.file("/proc/meminfo", "MemTotal: 8388608 kB\nMemFree: 4194304 kB\nMemAvailable: 6291456 kB\nSwapFree: 0 kB");
  const FakePci card{"pci0000:00", "0000:00:03.0", "0x020000", "0x1af4", "0x1041", -1};
  add_pci(machine, card, "virtio-pci");
  add_interface(machine, {"eth0", card.folder(), "1", "up", "-1"});
}

}  // namespace wreath::test
