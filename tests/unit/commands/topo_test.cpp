// Tests `wreath topo`: it shows machines made for the test as text and JSON, and what links ranks of this machine.
#include <gmock/gmock.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/fake_devices.hpp"
#include "tests/support/host_device.hpp"
#include "tests/support/processes.hpp"
#include "tests/unit/commands/command.hpp"
#include "wreath/result.hpp"

namespace wreath {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using testing_support::Outcome;
using testing_support::run_command;

std::string topo(const test::FakeMachine& machine, const std::string& arguments = "") {
  const Outcome outcome = run_command("topo --root " + machine.root() + " " + arguments);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.text;
  return outcome.text;
}

nlohmann::json json_of(const std::string& text) {
  nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  EXPECT_FALSE(json.is_discarded()) << text;
  return json;
}

constexpr const char* kServer = R"(machine  h1, Intel(R) Xeon(R) Platinum 8480+, Linux 6.1.0-18-amd64
         2 packages, 2 NUMA nodes, 8 cores, 16 hardware threads, 128 GiB
process  may run on 0-15 (16 hardware threads of 8 cores), 64 GiB of memory can be had

package 0
└─ NUMA node 0   64 GiB, 32 GiB free
   ├─ L3 32 MiB  4 cores: 0-3,8-11; each L2 2 MiB, L1i 32 KiB, L1d 48 KiB
   ├─ GPU 0      NVIDIA H100 80GB HBM3, 0000:17:00.0, 32.0 GT/s PCIe x16, to GPU 1 by PCIe to another NUMA node, nearest network mlx5_0 behind the same PCI bridge
   ├─ mlx5_0     RDMA, port 1 ACTIVE, InfiniBand 400 Gb/sec (4X NDR), interface ib0, mlx5_core, 0000:18:00.0
   ├─ eth0       ethernet, up, 100 Gbit/s, mtu 1500, ice, 0000:02:00.0
   └─ ib0        infiniband, up, 400 Gbit/s, mtu 2044, mlx5_core, 0000:18:00.0
package 1
└─ NUMA node 1   64 GiB, 32 GiB free
   ├─ L3 32 MiB  4 cores: 4-7,12-15; each L2 2 MiB, L1i 32 KiB, L1d 48 KiB
   ├─ GPU 1      NVIDIA H100 80GB HBM3, 0000:97:00.0, 32.0 GT/s PCIe x16, to GPU 0 by PCIe to another NUMA node, nearest network mlx5_1 over the same PCI root
   ├─ mlx5_1     RDMA, port 1 DOWN, InfiniBand 400 Gb/sec (4X NDR), interface ib1, mlx5_core, 0000:98:00.0
   └─ ib1        infiniband, down, mtu 2044, mlx5_core, 0000:98:00.0
near no NUMA node
└─ lo            loopback, mtu 65536

not shown, virtual and without an address: veth1a
)";

constexpr const char* kSmall = R"(machine  vm1, AMD EPYC 7B13, Linux 5.4.0, a virtual machine of QEMU Standard PC (Q35)
         1 package, 1 NUMA node, 2 cores, 2 hardware threads, 8 GiB
process  may run on 0-1 (2 hardware threads of 2 cores), 1 at once by its control group's quota, 1 GiB of memory can be had

package 0
`- NUMA node 0  8 GiB, 4 GiB free
   `- cores     2 cores: 0-1
near no NUMA node
`- eth0         ethernet, up, mtu 1500, virtio-pci, 0000:00:03.0
)";

class TopoCommand : public testing::Test {
 protected:
  TopoCommand() {
    test::make_gpu_server(server_);
    test::make_small_virtual(small_);
  }
  test::FakeMachine server_;
  test::FakeMachine small_;
};

TEST_F(TopoCommand, DrawsAServerAsATree) {
  const test::Environment environment{{{"LC_ALL", "C.UTF-8"}}};
  EXPECT_EQ(topo(server_), kServer);
}

TEST_F(TopoCommand, DrawsWithPlainCharactersWhereTheTerminalHasNoOthers) {
  const test::Environment environment{{{"LC_ALL", "C"}}};
  EXPECT_EQ(topo(small_), kSmall);
}

// The machine is like one that got 4 GiB of memory after its start.
TEST_F(TopoCommand, ShowsNoLessMemoryThanTheMachineHas) {
  const test::Environment environment{{{"LC_ALL", "C"}}};
  const std::string nodes = "/sys/devices/system/node/";
  small_.file(nodes + "online", "0");
  small_.file(nodes + "node0/meminfo", "Node 0 MemTotal: 4194304 kB\nNode 0 MemFree: 1048576 kB");
  small_.file(nodes + "node0/cpulist", "0-1");
  EXPECT_EQ(topo(small_), kSmall);
  EXPECT_THAT(topo(server_), Not(HasSubstr("not known")));
  server_.file(nodes + "node1/meminfo", "Node 1 MemTotal: 33554432 kB\nNode 1 MemFree: 33554432 kB");
  EXPECT_THAT(topo(server_),
              HasSubstr("where 32 GiB of the machine's 128 GiB of memory are: its NUMA nodes show 96 GiB"));
}

TEST_F(TopoCommand, SaysWhatAProcessMayNotUse) {
  server_.allow("0,8,4");
  const std::string text = topo(server_);
  EXPECT_THAT(text, HasSubstr("process  may run on 0,4,8 (3 hardware threads of 2 cores)"));
  EXPECT_THAT(text, HasSubstr("4 cores: 0-3,8-11, allowed: 0,8;"));
  server_.allow("4");
  EXPECT_THAT(topo(server_), HasSubstr("4 cores: 0-3,8-11, none allowed to this process;"));
}

TEST_F(TopoCommand, SaysWhatItCannotRead) {
  const test::FakeMachine nothing;
  EXPECT_THAT(topo(nothing),
              HasSubstr("not known: " + nothing.root() + "/sys/devices/system/cpu/online cannot be read"));
}

TEST_F(TopoCommand, GivesTheSameAsJson) {
  const nlohmann::json json = json_of(topo(server_, "--json"));
  EXPECT_EQ(json.at("host"), "h1");
  EXPECT_EQ(json.at("processors").size(), 16u);
  EXPECT_EQ(json.at("nodes").at(1).at("bytes"), std::uint64_t{64} << 30);
  EXPECT_EQ(json.at("gpus").at(0).at("pci").at("bridges"), nlohmann::json({"pci0000:16", "0000:16:01.0"}));
  EXPECT_EQ(json.at("rdma").at(1).at("ports").at(0).at("state"), "DOWN");
  EXPECT_EQ(json.at("interfaces").at(0).at("name"), "eth0");
  EXPECT_FALSE(json.contains("ranks"));
}

TEST_F(TopoCommand, ShowsTheAddressesOfRdmaPorts) {
  test::add_soft_roce(small_, "rxe0", "rh0");
  const test::Environment environment{{{"LC_ALL", "C"}}};
  EXPECT_THAT(topo(small_), HasSubstr("rxe0         RDMA, port 1 ACTIVE, Ethernet 10 Gb/sec (4X SDR), "
                                      "gid 1 ::ffff:10.77.0.1 RoCE v2 on rh0, interface rh0\n"));
  const nlohmann::json gid = json_of(topo(small_, "--json")).at("rdma").at(0).at("ports").at(0).at("gids").at(1);
  EXPECT_EQ(gid.at("address"), "::ffff:10.77.0.1");
  EXPECT_EQ(gid.at("type"), "RoCE v2");
  for (int index = 3; index < 6; ++index) {
    const std::string address = fmt::format("0000:0000:0000:0000:0000:ffff:0a4d:000{}", index);
    test::add_gid(small_, "rxe0", {index, address, "RoCE v2", "rh0"});
  }
  EXPECT_THAT(topo(small_), HasSubstr("gid 3 ::ffff:10.77.0.3 RoCE v2 on rh0, and 2 more, interface rh0"));
}

TEST_F(TopoCommand, DrawsAPicture) {
  const test::Folder folder;
  topo(server_, "--svg " + folder / "picture.svg");
  std::ifstream file(folder / "picture.svg");
  const std::string svg((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_THAT(svg, StartsWith("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  for (const char* text : {"package 0", "NUMA node 1", "NVIDIA H100", "mlx5_0", "eth0", "</svg>"}) {
    EXPECT_THAT(svg, HasSubstr(text));
  }
  EXPECT_THAT(svg, Not(HasSubstr("http:\"//")));
  EXPECT_THAT(svg, Not(HasSubstr("var("))) << "not every viewer of pictures knows variables";
  EXPECT_THAT(svg, HasSubstr("prefers-color-scheme: dark"));
}

TEST_F(TopoCommand, SaysWhatLinksRanks) {
  const Outcome outcome = run_command("topo --ranks 3");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.text;
  EXPECT_THAT(outcome.text, testing::ContainsRegex("all 6  shm.*inproc: the other is in another process"));
  const nlohmann::json ranks = json_of(run_command("topo --ranks 3 --json").text).at("ranks");
  ASSERT_EQ(ranks.size(), 3u);
  EXPECT_EQ(ranks.at(2).at("rank"), 2);
  EXPECT_FALSE(ranks.at(2).at("processors").empty());
  EXPECT_EQ(ranks.at(2).at("links").size(), 2u);
  EXPECT_THAT(ranks.at(2).at("links").at(1).at("transport").get<std::string>(), StartsWith("shm"));
}

// With 14 descriptors the meeting point cannot accept all ranks, with 20 rank 0 lacks links, and with 24 the ranks
// cannot agree on transports.
TEST_F(TopoCommand, WithoutDescriptorsNamesTheLimitInSeconds) {
  if (testing_support::kSanitized)
    GTEST_SKIP() << "UBSan needs descriptors to look at memory: run it in the preset dev";
  for (const char* limit : {"14", "20", "24"}) {
    const auto begin = std::chrono::steady_clock::now();
    const Outcome outcome = run_command("topo --ranks 8", std::string("ulimit -n ") + limit + "; ");
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30)) << limit;
    EXPECT_EQ(outcome.exit_code, exit_code(ErrorCode::StartupFailed)) << outcome.text;
    EXPECT_THAT(outcome.text, HasSubstr(std::string("RLIMIT_NOFILE is ") + limit + "; raise it with ulimit -n"));
  }
}

TEST_F(TopoCommand, SaysWhichInterfaceCarriesAWire) {
  const test::Environment environment{{{"WREATH_TRANSPORT", "tcp"}}};
  const Outcome outcome = run_command("topo --ranks 2");
  EXPECT_THAT(outcome.text, testing::ContainsRegex("all 2  tcp over lo  it is the first that is allowed"));
}

TEST_F(TopoCommand, IsWhatACommunicatorLogs) {
  const test::Environment environment{{{"WREATH_DEBUG", "INFO"}}};
  const Outcome outcome = run_command("topo --ranks 2");
  EXPECT_THAT(outcome.text, testing::ContainsRegex("info: rank 0 .*: topology: [0-9]+ package.*may run on"));
  EXPECT_THAT(outcome.text, testing::ContainsRegex("info: rank 1 .*: to rank 0: shm.*inproc: rank 0 is in another"));
  EXPECT_THAT(outcome.text,
              testing::ContainsRegex("info: rank 0 .*: waits spin [0-9]+ us.*, then sleep: 2 ranks on this"));
  EXPECT_THAT(outcome.text, testing::ContainsRegex("info: rank 0 .*: all_gather by .*: by rule; first for"));
}

// Somebody else starts two processes as ranks of a job, and the second prints nothing.
TEST_F(TopoCommand, AsRanksOfAJobIsShownOnce) {
  const test::Folder folder;
  const test::Environment environment({{"WREATH_RANKS", "2"}, {"WREATH_JOB", folder.path()}});
  const std::string other = "WREATH_RANK=1 " WREATH_BINARY_DIR "/wreath topo --job & WREATH_RANK=0 ";
  const Outcome outcome = run_command("topo --job & wait", other);
  EXPECT_THAT(outcome.text, StartsWith("machine"));
  EXPECT_EQ(outcome.text.find("machine  "), outcome.text.rfind("machine  ")) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("all 2  shm"));
}

TEST_F(TopoCommand, RefusesWhatItCannotShow) {
  for (const char* arguments : {"topo --ranks 0x", "topo --ranks -1", "topo --ranks 1000", "topo --ranks 2 --job",
                                "topo --root / --ranks 2", "topo --what"}) {
    EXPECT_EQ(run_command(arguments).exit_code, 2) << arguments;
  }
  EXPECT_EQ(run_command("topo --svg /nonexistent/x.svg").exit_code, 6);
  for (const char* command : {"topo", "doctor"}) {
    const Outcome outcome = run_command(command + std::string(" --root /nonexistent"));
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_THAT(outcome.text, HasSubstr("--root /nonexistent: it is not a folder"));
    EXPECT_EQ(run_command(command + std::string(" >/dev/full")).exit_code, 6) << command;
  }
}

TEST_F(TopoCommand, ShowsNamesThatAreNoText) {
  const test::FakeMachine machine;
  test::make_small_virtual(machine);
  machine.file("/proc/sys/kernel/hostname", "<h>\xFF\x1B[2J");
  machine.file("/sys/class/net/e\xFF<x>/operstate", "up");
  machine.file("/sys/class/infiniband/m\xFF/ports/1/state", "4: \xFF");
  const Outcome outcome = run_command("topo --json --root " + machine.root());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.text;
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("<h>??[2J"), HasSubstr("e?<x>"), HasSubstr("m?")));
  EXPECT_EQ(run_command("doctor --json --root " + machine.root()).exit_code, 0);
  const std::string drawing = machine.root() + "/x.svg";
  EXPECT_EQ(run_command("topo --root " + machine.root() + " --svg " + drawing).exit_code, 0);
  std::ostringstream text;
  text << std::ifstream(drawing).rdbuf();
  EXPECT_EQ(text.str().find_first_of("\xFF\x1B"), std::string::npos);
}

// The output is about the driver that stands for CUDA's, as it would be about a real one.
TEST(TopoHere, SaysWhatOfCudaThereIs) {
  if (!test::has_host_device()) GTEST_SKIP() << test::kNeedsDevices;
  const std::string library = "LD_LIBRARY_PATH=" WREATH_FAKE_CUDA " ";
  EXPECT_THAT(run_command("topo", library).text, HasSubstr("CUDA: 2 devices\n"));
  EXPECT_THAT(run_command("topo", library + "FAKE_CUDA_NO_DEVICE=1 ").text,
              HasSubstr("CUDA: libcuda.so.1: cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected\n"));
}

}  // namespace
}  // namespace wreath
