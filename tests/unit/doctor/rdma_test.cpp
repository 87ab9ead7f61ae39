// Tests what `wreath doctor` finds about RDMA devices, on machines made for the test.
#include <gmock/gmock.h>

#include <algorithm>
#include <cerrno>

#include "tests/support/fake_devices.hpp"
#include "tools/doctor/findings.hpp"

namespace wreath::rdma {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class DoctorOfRdma : public testing::Test {
 protected:
  DoctorOfRdma() {
    machine_.processors({1, 1, 2, 1});
    test::name_machine(machine_, "h3", "6.1.0-18-amd64", "AMD EPYC 9654");
  }

  void add_adapter(const std::string& name, const std::string& driver, const std::string& link_layer) {
    test::add_pci(machine_, hca_, driver);
    test::add_rdma(machine_, name, hca_.folder(), "4: ACTIVE");
    machine_.file(hca_.folder() + "/infiniband/" + name + "/ports/1/link_layer", link_layer);
  }

  // Writes a PCI configuration of 256 bytes. It has a capability of power management, then PCI Express with that low
  // byte of its device control.
  void write_configuration(char device_control) {
    std::string bytes(256, '\0');
    bytes[0x34] = 0x40;
    bytes[0x40] = 0x01;
    bytes[0x41] = 0x60;
    bytes[0x60] = 0x10;
    bytes[0x68] = device_control;
    machine_.file(hca_.folder() + "/config", bytes);
  }

  std::vector<CheckResult> findings() {
    Findings found;
    check_rdma({machine_.root(), read_topology(machine_.root()), probes_}, found);
    return found.all();
  }

  // Returns the finding with that subject; one with an empty subject where there is none.
  CheckResult of(const std::string& subject) {
    for (const CheckResult& finding : findings()) {
      if (finding.subject == subject) return finding;
    }
    return {};
  }

  const test::FakeMachine machine_;
  const test::FakePci hca_{"pci0000:16", "0000:18:00.0", "0x020000", "0x15b3", "0x1021", 0};
  std::optional<Probes> probes_;
};

constexpr const char* kSoftRoce = R"(
  ok       rxe0 port 1       ACTIVE, Ethernet 10 Gb/sec (4X SDR)
  ok       rxe0 port 1 GIDs  gid 1 ::ffff:10.77.0.1 RoCE v2 on rh0
  ok       rxe0 port 1 MTU   4096 bytes of data a packet; rh0 has mtu 9000
  ok       rxe0 access       /dev/infiniband/uverbs0

no problem, 0 notes
)";

TEST_F(DoctorOfRdma, FindsNothingWrongWithAHealthyDevice) {
  test::add_soft_roce(machine_, "rxe0", "rh0");
  machine_.file("/sys/class/infiniband_verbs/uverbs0/ibdev", "rxe0");
  machine_.file("/dev/infiniband/uverbs0", "");
  EXPECT_EQ("\n" + report_text(findings(), {}), kSoftRoce);
}

TEST_F(DoctorOfRdma, MissesAnAddressThatPeersCanReach) {
  test::add_soft_roce(machine_, "rxe0", "rh0");
  test::add_gid(machine_, "rxe0", {1, "0000:0000:0000:0000:0000:0000:0000:0000", "", ""});
  EXPECT_EQ(of("rxe0 port 1 GIDs").verdict, Verdict::Note);
  EXPECT_THAT(of("rxe0 port 1 GIDs").text, HasSubstr("a link-local address does not leave"));
  EXPECT_EQ(of("rxe0 port 1 GIDs").fix, "as root: ip addr add ADDRESS/PREFIX dev rh0");
  test::add_gid(machine_, "rxe0", {0, "no address", "", ""});
  EXPECT_THAT(of("rxe0 port 1 GIDs").text, StartsWith("none"));
  test::add_gid(machine_, "rxe0", {0, "0000:0000:0000:0000:0000:ffff:0a4d:0001", "IB/RoCE v1", "rh0"});
  EXPECT_THAT(of("rxe0 port 1 GIDs").text, HasSubstr("RoCE v1 does not leave"));
}

TEST_F(DoctorOfRdma, ShowsAFewAddressesOfMany) {
  test::add_soft_roce(machine_, "rxe0", "rh0");
  for (int index = 3; index < 9; ++index) {
    const std::string address = fmt::format("0000:0000:0000:0000:0000:ffff:0a4d:000{}", index);
    test::add_gid(machine_, "rxe0", {index, address, "RoCE v2", "rh0"});
  }
  EXPECT_THAT(of("rxe0 port 1 GIDs").text, testing::EndsWith("gid 5 ::ffff:10.77.0.5 RoCE v2 on rh0 and 3 more"));
}

TEST_F(DoctorOfRdma, FindsPacketsThatAreSmall) {
  test::add_soft_roce(machine_, "rxe0", "rh0", "1500");
  EXPECT_EQ(of("rxe0 port 1 MTU").verdict, Verdict::Note);
  EXPECT_EQ(of("rxe0 port 1 MTU").text, "1024 bytes of data a packet; rh0 has mtu 1500");
  EXPECT_EQ(of("rxe0 port 1 MTU").fix, "where all of the network can, as root: ip link set rh0 mtu 9000");
  // The headers take 96 bytes.
  test::add_soft_roce(machine_, "rxe1", "rh1", "4192");
  EXPECT_THAT(of("rxe1 port 1 MTU").text, StartsWith("4096 bytes"));
  test::add_soft_roce(machine_, "rxe2", "rh2", "4191");
  EXPECT_THAT(of("rxe2 port 1 MTU").text, StartsWith("2048 bytes"));
}

TEST_F(DoctorOfRdma, AsksOnlyForWhatAPortThatIsUpNeeds) {
  test::add_soft_roce(machine_, "rxe0", "rh0", "1500");
  machine_.file("/sys/class/infiniband/rxe0/ports/1/state", "1: DOWN");
  EXPECT_EQ(of("rxe0 port 1").verdict, Verdict::Note);
  EXPECT_THAT(of("rxe0 port 1").fix, HasSubstr("ip link set its interface up"));
  EXPECT_EQ(of("rxe0 port 1 GIDs").subject, "");
  EXPECT_EQ(of("rxe0 port 1 MTU").subject, "");
}

TEST_F(DoctorOfRdma, LeavesTheAddressesAndPacketsOfInfiniBandToItsSubnetManager) {
  add_adapter("mlx5_0", "mlx5_core", "InfiniBand");
  EXPECT_EQ(of("mlx5_0 port 1 GIDs").subject, "");
  test::add_gid(machine_, "mlx5_0", {0, "fe80:0000:0000:0000:506b:4b03:00c0:1001", "IB/RoCE v1", ""});
  EXPECT_EQ(of("mlx5_0 port 1 GIDs").verdict, Verdict::Ok);
  EXPECT_EQ(of("mlx5_0 port 1 GIDs").text, "gid 0 fe80::506b:4b03:c0:1001 IB/RoCE v1");
  EXPECT_EQ(of("mlx5_0 port 1 MTU").subject, "");
}

TEST_F(DoctorOfRdma, ReadsTheOrderingOfAnAdaptersWrites) {
  add_adapter("mlx5_0", "mlx5_core", "InfiniBand");
  EXPECT_EQ(of("mlx5_0 ordering").subject, "");
  write_configuration(0x2F);
  EXPECT_EQ(of("mlx5_0 ordering").verdict, Verdict::Note);
  EXPECT_EQ(of("mlx5_0 ordering").fix,
            "as root: setpci -s 0000:18:00.0 CAP_EXP+8.w=10:10, or in the machine's firmware");
  write_configuration(0x3F);
  EXPECT_EQ(of("mlx5_0 ordering").verdict, Verdict::Ok);
  // Users other than root read 64 bytes. A list of capabilities may lead nowhere, or into a circle.
  machine_.file(hca_.folder() + "/config", std::string(0x34, '\0') + std::string(12, '\x40'));
  EXPECT_EQ(of("mlx5_0 ordering").subject, "");
  std::string circle(256, '\0');
  circle[0x34] = 0x40;
  circle[0x41] = 0x40;
  machine_.file(hca_.folder() + "/config", circle);
  EXPECT_EQ(of("mlx5_0 ordering").subject, "");
}

TEST_F(DoctorOfRdma, MissesTheFilesByWhichProgramsReachADevice) {
  test::add_soft_roce(machine_, "rxe0", "rh0");
  EXPECT_EQ(of("/dev/infiniband").verdict, Verdict::Note);
  EXPECT_EQ(of("rxe0 access").subject, "") << "a machine of which /sys has no uverbs";
  machine_.file("/sys/class/infiniband_verbs/uverbs1/ibdev", "rxe0");
  machine_.file("/dev/infiniband/uverbs0", "");
  EXPECT_EQ(of("/dev/infiniband").subject, "");
  EXPECT_EQ(of("rxe0 access").text, "/dev/infiniband/uverbs1 is missing: this container does not see the device");
  machine_.file("/dev/infiniband/uverbs1", "");
  EXPECT_EQ(of("rxe0 access").verdict, Verdict::Ok);
}

TEST_F(DoctorOfRdma, NamesADeviceThatThisUserMayNotOpen) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may open every file: run it as another user";
  test::add_soft_roce(machine_, "rxe0", "rh0");
  machine_.file("/sys/class/infiniband_verbs/uverbs0/ibdev", "rxe0");
  machine_.file("/dev/infiniband/uverbs0", "");
  std::filesystem::permissions(machine_.root() + "/dev/infiniband/uverbs0", std::filesystem::perms::none);
  EXPECT_EQ(of("rxe0 access").verdict, Verdict::Ok) << "a copy of another machine's files";
  probes_.emplace();
  EXPECT_EQ(of("rxe0 access").verdict, Verdict::Note);
  EXPECT_THAT(of("rxe0 access").text, HasSubstr("Permission denied"));
  EXPECT_THAT(of("rxe0 access").fix, StartsWith("as root: chmod a+rw /dev/infiniband/uverbs0"));
}

TEST_F(DoctorOfRdma, SaysWhatADeviceAnswered) {
  test::add_soft_roce(machine_, "rxe0", "rh0");
  probes_.emplace().adapters = {{"rxe0", 0, EOPNOTSUPP}, {"rxe1", ENOSYS, 0}, {"rxe2", 0, 0}};
  EXPECT_EQ(of("rxe0 dma-buf").verdict, Verdict::Ok) << "there is no GPU here";
  EXPECT_EQ(of("rxe1 open").verdict, Verdict::Note);
  EXPECT_THAT(of("rxe1 open").text, HasSubstr("Function not implemented"));
  EXPECT_EQ(of("rxe1 dma-buf").subject, "");
  EXPECT_EQ(of("rxe2 dma-buf").text, "it takes memory of GPUs");
  const test::FakePci gpu{"pci0000:16", "0000:17:00.0", "0x030200", "0x10de", "0x2330", 0};
  test::add_pci(machine_, gpu, "nvidia");
  EXPECT_EQ(of("rxe0 dma-buf").verdict, Verdict::Note);
  EXPECT_THAT(of("rxe0 dma-buf").text, HasSubstr("Operation not supported"));
}

TEST_F(DoctorOfRdma, TellsTheOutageThatConnectionsSurvive) {
  test::add_soft_roce(machine_, "rxe0", "rh0");
  EXPECT_EQ(of("RDMA retries").subject, "") << "a copy of another machine's files";
  probes_.emplace();
  EXPECT_EQ(of("RDMA retries").verdict, Verdict::Ok);
  EXPECT_EQ(of("RDMA retries").text, "6 after 537 ms each: a connection survives 3.8 s without a packet");
  const test::Environment environment{{{"WREATH_IB_TIMEOUT", "12"}, {"WREATH_IB_RETRY_COUNT", "3"}}};
  EXPECT_EQ(of("RDMA retries").verdict, Verdict::Note);
  EXPECT_EQ(of("RDMA retries").text, "3 after 16.8 ms each: a connection survives 0.1 s without a packet");
  EXPECT_EQ(of("RDMA retries").fix, "unset WREATH_IB_TIMEOUT WREATH_IB_RETRY_COUNT, whose defaults are 17 and 6");
  const test::Environment wrong{{{"WREATH_IB_RETRY_COUNT", "7"}}};
  EXPECT_EQ(of("RDMA retries").subject, "") << "the variable has a finding of its own";
}

TEST_F(DoctorOfRdma, KnowsAdaptersThatVerbsDoNotDrive) {
  add_adapter("efa_0", "efa", "Unspecified");
  test::add_gid(machine_, "efa_0", {0, "fe80:0000:0000:0000:0041:3aff:fe1f:0001", "IB/RoCE v1", ""});
  EXPECT_EQ(of("efa_0").verdict, Verdict::Ok) << "a copy of another machine's files";
  probes_.emplace();
  EXPECT_EQ(of("efa_0").verdict, Verdict::Note);
  EXPECT_THAT(of("efa_0").text, HasSubstr("libfabric has no provider efa here"));
  EXPECT_FALSE(of("efa_0").fix.empty());
  probes_->fabrics = {{"tcp;ofi_rxm", {"eth0"}}};
  EXPECT_EQ(of("efa_0").verdict, Verdict::Note) << "another provider does not drive it";
  probes_->fabrics = {{"tcp;ofi_rxm", {"eth0"}}, {"efa", {"efa_0-rdm"}}};
  EXPECT_EQ(of("efa_0").verdict, Verdict::Ok);
  EXPECT_EQ(of("efa_0 port 1 GIDs").subject, "");
}

TEST_F(DoctorOfRdma, HoldsRootToNoLimitOfLockedMemory) {
  test::add_soft_roce(machine_, "rxe0", "rh0");
  machine_.file("/proc/self/limits", "Max locked memory         8388608              8388608              bytes");
  const auto locked = [&] {
    Findings found;
    check_limits({machine_.root(), read_topology(machine_.root()), {}}, found);
    return found.all().at(0);
  };
  EXPECT_EQ(locked().verdict, Verdict::Note);
  machine_.file("/proc/self/status", "CapEff:\t00000000a80425fb");
  EXPECT_EQ(locked().verdict, Verdict::Note) << "a container's root";
  machine_.file("/proc/self/status", "CapEff:\t000001ffffffffff");
  EXPECT_EQ(locked().verdict, Verdict::Ok);
  EXPECT_THAT(locked().text, HasSubstr("CAP_IPC_LOCK"));
}

}  // namespace
}  // namespace wreath::rdma
