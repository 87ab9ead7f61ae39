// Memory, GPUs, networks and RDMA devices are found on machines made for the test and on this machine.
#include <gmock/gmock.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "src/topology/nvml.hpp"
#include "src/topology/parts.hpp"
#include "tests/support/fake_devices.hpp"
#include "tests/support/in_child.hpp"
#include "wreath/topology.hpp"

namespace wreath {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::EndsWith;
using testing::Field;
using testing::IsEmpty;
using testing::StartsWith;

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

class Devices : public testing::Test {
 protected:
  Devices() {
    test::make_gpu_server(server_);
    test::make_small_virtual(small_);
    topology_ = read_topology(server_.root());
  }

  const NetworkInterface& interface(const std::string& name) const {
    return *std::find_if(topology_.interfaces.begin(), topology_.interfaces.end(),
                         [&](const NetworkInterface& each) { return each.name == name; });
  }

  test::FakeMachine server_;
  test::FakeMachine small_;
  Topology topology_;
};

TEST_F(Devices, MemoryIsCountedByNode) {
  ASSERT_EQ(topology_.nodes.size(), 2u);
  EXPECT_EQ(topology_.nodes[1].number, 1);
  EXPECT_EQ(topology_.nodes[1].bytes, 64 * kGiB);
  EXPECT_EQ(topology_.nodes[1].free_bytes, 32 * kGiB);
  EXPECT_THAT(topology_.nodes[1].processors, ElementsAre(4, 5, 6, 7, 12, 13, 14, 15));
}

TEST_F(Devices, WithoutNodesAllMemoryIsOnes) {
  const Topology topology = read_topology(small_.root());
  ASSERT_EQ(topology.nodes.size(), 1u);
  EXPECT_EQ(topology.nodes[0].bytes, 8 * kGiB);
  EXPECT_THAT(topology.nodes[0].processors, ElementsAre(0, 1));
}

TEST_F(Devices, GpusAreTheComputingOnes) {
  ASSERT_EQ(topology_.gpus.size(), 2u);
  const Gpu& gpu = topology_.gpus[0];
  EXPECT_EQ(gpu.name, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(gpu.driver, "nvidia");
  EXPECT_EQ(gpu.place.address, "0000:17:00.0");
  EXPECT_EQ(gpu.place.node, 0);
  EXPECT_EQ(gpu.place.link, "32.0 GT/s PCIe x16");
  EXPECT_THAT(gpu.place.bridges, ElementsAre("pci0000:16", "0000:16:01.0"));
}

TEST_F(Devices, AManagementLibraryTellsTheMemoryOfGpus) {
  EXPECT_EQ(topology_.gpus[0].bytes, 0u);
  ask_nvml(WREATH_FAKE_NVML, topology_);
  EXPECT_EQ(topology_.gpus[0].bytes, 80 * kGiB);
  EXPECT_EQ(topology_.gpus[1].bytes, 0u) << "it does not know that one";
  EXPECT_EQ(topology_.gpus[0].uuid, "GPU-00000000-0000-0000-0000-000000000017");
  EXPECT_EQ(topology_.gpus[1].uuid, "");
  EXPECT_TRUE(topology_.unknown.empty());
  ask_nvml("libdoes-not-exist.so.1", topology_);
  EXPECT_EQ(topology_.gpus[0].bytes, 80 * kGiB);
  EXPECT_THAT(topology_.unknown.back(),
              StartsWith("links and memory of NVIDIA's GPUs: no libdoes-not-exist.so.1: cannot open"));
}

TEST_F(Devices, GpusAreLinkedAsPciTells) {
  ASSERT_EQ(topology_.gpu_links.size(), 1u);
  const GpuLink& link = topology_.gpu_links[0];
  EXPECT_EQ(link.first, 0);
  EXPECT_EQ(link.second, 1);
  EXPECT_EQ(link.pci, PciDistance::OtherNode);
  EXPECT_EQ(link_text(link), "PCIe to another NUMA node");
  // The management library does not know the second GPU.
  ask_nvml(WREATH_FAKE_NVML, topology_);
  EXPECT_EQ(topology_.gpu_links[0].pci, PciDistance::OtherNode);
  EXPECT_EQ(topology_.gpu_links[0].second, 1);
}

// The library that stands in for NVML joins GPUs 17 and 18 by four links, and 19 and 1a by switches only. GPU 1b has no
// links.
TEST(ManagementLibrary, TellsTheWayBetweenTwoGpus) {
  const auto nvml = Nvml::open(WREATH_FAKE_NVML).value();
  const auto way = [&](const char* first, const char* second) { return link_text(nvml->link(first, second)); };
  EXPECT_EQ(way("0000:17:00.0", "0000:18:00.0"), "NVLink 4 x4");
  // The domain of this address has eight digits.
  EXPECT_EQ(way("00000000:17:00.0", "0000:18:00.0"), "NVLink 4 x4");
  EXPECT_EQ(way("0000:19:00.0", "0000:1a:00.0"), "NVLink 5 x18 by NVSwitch");
  EXPECT_EQ(way("0000:17:00.0", "0000:19:00.0"), "PCIe through a host bridge");
  EXPECT_EQ(way("0000:17:00.0", "0000:1b:00.0"), "PCIe to another NUMA node");
  EXPECT_EQ(way("0000:17:00.0", "0000:55:00.0"), "PCIe");
  EXPECT_EQ(nvml->link("0000:17:00.0", "0000:1b:00.0").nvlink_version, 0);
}

TEST(ManagementLibrary, ThatIsNoneSaysWhy) {
  const auto other = Nvml::open("libc.so.6");
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, ErrorCode::Unavailable);
  EXPECT_EQ(other.error().message, "libc.so.6: has no nvmlInit_v2");
  ::setenv("FAKE_NVML_NO_DRIVER", "1", 1);
  const auto refused = Nvml::open(WREATH_FAKE_NVML);
  ::unsetenv("FAKE_NVML_NO_DRIVER");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, EndsWith(": nvmlInit: Driver Not Loaded"));
}

TEST_F(Devices, AGpuWithoutADriverIsNamedByItsNumber) {
  test::add_pci(small_, {"pci0000:00", "0000:00:05.0", "0x120000", "0x1002", "0x74a1"}, "");
  const Topology topology = read_topology(small_.root());
  ASSERT_EQ(topology.gpus.size(), 1u);
  EXPECT_EQ(topology.gpus[0].name, "AMD 74a1");
  EXPECT_EQ(topology.gpus[0].driver, "");
}

TEST_F(Devices, InterfacesHaveStateSpeedAndPlace) {
  EXPECT_EQ(interface("ib0").kind, "infiniband");
  EXPECT_EQ(interface("ib0").speed_mbit, 400'000);
  EXPECT_EQ(interface("ib0").place.node, 0);
  EXPECT_EQ(interface("ib1").state, "down");
  EXPECT_EQ(interface("ib1").speed_mbit, 0);
  EXPECT_EQ(interface("eth0").kind, "ethernet");
  EXPECT_EQ(interface("eth0").driver, "ice");
  EXPECT_EQ(interface("lo").kind, "loopback");
  EXPECT_EQ(interface("lo").mtu, 65536);
  EXPECT_EQ(interface("veth1a").kind, "virtual");
  EXPECT_EQ(interface("veth1a").place.address, "");
  EXPECT_THAT(interface("eth0").addresses, IsEmpty()) << "this machine's addresses are not that one's";
}

TEST_F(Devices, RdmaDevicesKnowTheirPortsAndInterfaces) {
  ASSERT_EQ(topology_.rdma.size(), 2u);
  EXPECT_EQ(topology_.rdma[0].name, "mlx5_0");
  EXPECT_THAT(topology_.rdma[0].interfaces, ElementsAre("ib0"));
  ASSERT_EQ(topology_.rdma[0].ports.size(), 1u);
  EXPECT_EQ(topology_.rdma[0].ports[0].number, 1);
  EXPECT_EQ(topology_.rdma[0].ports[0].state, "ACTIVE");
  EXPECT_EQ(topology_.rdma[0].ports[0].link_layer, "InfiniBand");
  EXPECT_EQ(topology_.rdma[0].ports[0].rate, "400 Gb/sec (4X NDR)");
  EXPECT_EQ(topology_.rdma[1].ports[0].state, "DOWN");
}

TEST_F(Devices, RdmaPortsKnowTheirAddresses) {
  EXPECT_EQ(topology_.rdma[0].driver, "mlx5_core");
  EXPECT_THAT(topology_.rdma[0].ports[0].gids, IsEmpty());
  test::add_soft_roce(small_, "rxe0", "rh0");
  const Topology topology = read_topology(small_.root());
  ASSERT_EQ(topology.rdma.size(), 1u);
  const RdmaDevice& device = topology.rdma[0];
  EXPECT_EQ(device.driver, "");
  EXPECT_THAT(device.interfaces, ElementsAre("rh0"));
  ASSERT_EQ(device.ports.size(), 1u);
  ASSERT_EQ(device.ports[0].gids.size(), 2u) << "a place that is all zeros has no address";
  const RdmaGid& gid = device.ports[0].gids[1];
  EXPECT_EQ(gid.index, 1);
  EXPECT_EQ(gid.address, "::ffff:10.77.0.1");
  EXPECT_EQ(gid.type, "RoCE v2");
  EXPECT_EQ(gid.interface, "rh0");
  EXPECT_EQ(gid_text(gid), "gid 1 ::ffff:10.77.0.1 RoCE v2 on rh0");
}

TEST(RdmaAddresses, ThatTellMostAreTheMainOnes) {
  const RdmaGid local{0, "fe80::1", "IB/RoCE v1", "eth0"};
  const RdmaGid local_routed{1, "fe80::1", "RoCE v2", "eth0"};
  const RdmaGid first{2, "::ffff:10.0.0.1", "IB/RoCE v1", "eth0"};
  const RdmaGid routed{3, "::ffff:10.0.0.1", "RoCE v2", "eth0"};
  const RdmaGid sixth{4, "2001:db8::1", "RoCE v2", "eth0"};
  const auto indices = [](std::vector<RdmaGid> gids, const char* link_layer) {
    std::vector<int> found;
    for (const RdmaGid& gid : main_gids({1, "ACTIVE", link_layer, "", std::move(gids)})) found.push_back(gid.index);
    return found;
  };
  EXPECT_THAT(indices({local, local_routed, first, routed}, "Ethernet"), ElementsAre(3));
  EXPECT_THAT(indices({local, local_routed}, "Ethernet"), ElementsAre(1));
  EXPECT_THAT(indices({local, first}, "Ethernet"), ElementsAre(2));
  EXPECT_THAT(indices({local}, "Ethernet"), ElementsAre(0));
  EXPECT_THAT(indices({routed, sixth}, "Ethernet"), ElementsAre(3));
  EXPECT_THAT(indices({local_routed, sixth}, "Ethernet"), ElementsAre(4));
  EXPECT_THAT(indices({local}, "InfiniBand"), ElementsAre(0));
  EXPECT_THAT(indices({}, "Ethernet"), IsEmpty());
}

TEST_F(Devices, AreAsFarFromEachOtherAsTheirBridges) {
  const PciPlace& gpu0 = topology_.gpus[0].place;
  const PciPlace& gpu1 = topology_.gpus[1].place;
  const PciPlace& card = interface("eth0").place;
  EXPECT_EQ(pci_distance(gpu0, topology_.rdma[0].place), PciDistance::SameBridge);
  EXPECT_EQ(pci_distance(gpu1, topology_.rdma[1].place), PciDistance::SameRoot);
  EXPECT_EQ(pci_distance(gpu0, card), PciDistance::SameNode);
  EXPECT_EQ(pci_distance(gpu1, card), PciDistance::OtherNode);
  EXPECT_EQ(pci_distance(gpu0, interface("lo").place), PciDistance::Unknown);
  const PciPlace deep{"0000:20:00.0", {"pci0000:16", "0000:16:01.0", "0000:19:00.0"}, 0, ""};
  EXPECT_EQ(pci_distance(gpu0, deep), PciDistance::SeveralBridges);
}

TEST_F(Devices, AMachineSaysWhoItIs) {
  EXPECT_EQ(topology_.host, "h1");
  EXPECT_EQ(topology_.kernel, "6.1.0-18-amd64");
  EXPECT_EQ(topology_.processor, "Intel(R) Xeon(R) Platinum 8480+");
  EXPECT_EQ(topology_.hypervisor, "");
  EXPECT_EQ(read_topology(small_.root()).hypervisor, "QEMU Standard PC (Q35)");
}

TEST_F(Devices, ControlGroupsLimitCoresAndMemory) {
  EXPECT_EQ(topology_.usable_cores, 16);
  EXPECT_EQ(topology_.available_bytes, 64 * kGiB);
  const Topology limited = read_topology(small_.root());
  EXPECT_EQ(limited.usable_cores, 1);
  EXPECT_EQ(limited.available_bytes, kGiB);
}

TEST_F(Devices, AMachineIsALine) {
  EXPECT_EQ(machine_text(topology_), "2 packages, 2 NUMA nodes, 8 cores, 16 hardware threads, 128 GiB");
  EXPECT_EQ(process_text(topology_), "may run on 0-15 (16 hardware threads of 8 cores), 64 GiB of memory can be had");
  EXPECT_EQ(process_text(read_topology(small_.root())),
            "may run on 0-1 (2 hardware threads of 2 cores), 1 at once by its control group's quota, 1 GiB of memory "
            "can be had");
}

TEST(Sizes, AreShort) {
  EXPECT_EQ(size_text(0), "0 bytes");
  EXPECT_EQ(size_text(48 << 10), "48 KiB");
  EXPECT_EQ(size_text(3 << 19), "1.50 MiB");
  EXPECT_EQ(size_text((std::uint64_t{25} << 30) + (1 << 29)), "25.5 GiB");
}

TEST(ThisMachine, HasALoopbackInterfaceWithItsAddress) {
  const Topology topology = read_topology();
  EXPECT_THAT(topology.interfaces,
              Contains(testing::AllOf(Field(&NetworkInterface::kind, "loopback"),
                                      Field(&NetworkInterface::addresses, Contains("127.0.0.1")))));
  EXPECT_FALSE(topology.host.empty());
  EXPECT_FALSE(topology.kernel.empty());
  EXPECT_GT(topology.nodes.at(0).bytes, 0u);
}

// Returns 0 if a process in a network namespace of its own sees only that namespace's interfaces, though /sys may show
// those of another one. Returns 77 where the kernel refuses the namespace.
int interfaces_of_a_new_namespace() {
  constexpr int kRefused = 77;
  if (::unshare(CLONE_NEWNET) != 0) return kRefused;
  const Topology topology = read_topology();
  const bool only_loopback = std::all_of(topology.interfaces.begin(), topology.interfaces.end(), [](const auto& each) {
    return each.kind == "loopback" || (each.kind == "virtual" && each.state == "down" && each.addresses.empty());
  });
  return only_loopback ? 0 : 1;
}

TEST(ThisMachine, ShowsTheInterfacesOfItsNamespaceOnly) {
  const int code = test::in_child(interfaces_of_a_new_namespace);
  if (code == 77) GTEST_SKIP() << "makes a network namespace: run it as root";
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace wreath
