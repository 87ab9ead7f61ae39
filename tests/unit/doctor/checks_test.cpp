// Tests what `wreath doctor` finds on machines made for the test, healthy and sick, and on systems that refuse.
#include <gmock/gmock.h>

#include <algorithm>
#include <cerrno>

#include "src/base/config.hpp"
#include "tests/support/fake_devices.hpp"
#include "tools/doctor/findings.hpp"

namespace wreath {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

void limits(const test::FakeMachine& machine, const std::string& files, const std::string& size) {
  machine.file("/proc/self/limits",
               "Limit                     Soft Limit           Hard Limit           Units     \n"
               "Max file size             " +
                   size +
                   "            unlimited            bytes     \n"
                   "Max processes             96365                96365                processes \n"
                   "Max open files            " +
                   files +
                   "                files     \n"
                   "Max locked memory         8388608              8388608              bytes     ");
}

void make_healthy(const test::FakeMachine& machine) {
  machine.processors({1, 1, 4, 1});
  test::name_machine(machine, "h2", "6.1.0-18-amd64", "AMD EPYC 9654");
  machine.file("/proc/meminfo", "MemTotal: 67108864 kB\nMemAvailable: 60000000 kB\nSwapFree: 0 kB");
  limits(machine, "1048576              1048576", "unlimited");
  machine.file("/proc/self/mounts", "tmpfs /dev/shm tmpfs rw,nosuid,size=33554432k 0 0");
  machine.file("/proc/sys/vm/overcommit_memory", "0");
  machine.file("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never");
  machine.file("/proc/sys/kernel/yama/ptrace_scope", "0");
  machine.file("/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc");
  machine.file("/proc/sys/net/ipv4/tcp_congestion_control", "cubic");
  machine.file("/proc/sys/net/ipv4/tcp_allowed_congestion_control", "reno cubic");
  machine.file("/proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t33554432");
  machine.file("/proc/sys/net/ipv4/tcp_wmem", "4096\t16384\t33554432");
  machine.file("/proc/sys/net/core/somaxconn", "4096");
  const test::FakePci card{"pci0000:00", "0000:02:00.0", "0x020000", "0x8086", "0x1592", 0};
  test::add_pci(machine, card, "ice");
  test::add_interface(machine, {"eth0", card.folder(), "1", "up", "100000", "9000"});
  test::add_interface(machine, {"lo", "", "772", "unknown", "", "65536"});
}

void make_sick(const test::FakeMachine& machine) {
  test::make_gpu_server(machine);
  machine.allow("0-3");
  machine.file("/proc/self/cgroup", "0::/job");
  machine.file("/sys/fs/cgroup/job/cpu.max", "200000 100000");
  machine.file("/sys/fs/cgroup/job/memory.max", "33554432");
  machine.file("/sys/fs/cgroup/job/memory.current", "29360128");
  machine.file("/proc/sys/kernel/osrelease", "4.18.0-553.el8");
  limits(machine, "20                   20", "1048576");
  machine.file("/proc/self/mounts", "overlay / overlay rw 0 0\nshm /dev/shm tmpfs rw,nosuid,size=65536k 0 0");
  machine.file("/proc/sys/vm/overcommit_memory", "2");
  machine.file("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]");
  machine.file("/proc/sys/kernel/yama/ptrace_scope", "1");
  machine.file("/proc/sys/kernel/numa_balancing", "1");
  machine.file("/sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet");
  machine.file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave");
  machine.file("/proc/sys/net/ipv4/tcp_congestion_control", "bbr");
  machine.file("/proc/sys/net/ipv4/tcp_allowed_congestion_control", "bbr");
  machine.file("/proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t212992");
  machine.file("/proc/sys/net/ipv4/tcp_wmem", "4096\t16384\t33554432");
  machine.file("/proc/sys/net/core/somaxconn", "128");
  test::add_pci(machine, {"pci0000:00", "0000:01:00.0", "0x030200", "0x10de", "0x2330", 0}, "");
}

std::vector<CheckResult> findings_of(const test::FakeMachine& machine) {
  std::vector<CheckResult> findings = examine({machine.root(), read_topology(machine.root()), {}});
  std::erase_if(findings, [](const CheckResult& finding) { return finding.group == "this build"; });
  return findings;
}

const CheckResult& of(const std::vector<CheckResult>& findings, const std::string& subject) {
  static const CheckResult kNone{};
  const auto found = std::find_if(findings.begin(), findings.end(),
                                  [&](const CheckResult& finding) { return finding.subject == subject; });
  EXPECT_NE(found, findings.end()) << subject;
  return found == findings.end() ? kNone : *found;
}

constexpr const char* kHealthy = R"(limits
  ok       open files          1048576
  ok       locked memory       8 MiB, no device here needs more
  ok       file size           unlimited
  ok       processes           96365

memory
  ok       memory              57.2 GiB can be had; 4 ranks take at most BUDGET
  ok       /dev/shm            tmpfs of 32 GiB
  ok       overcommit          by the kernel's judgement
  ok       huge pages          transparent ones: madvise

processors
  ok       affinity            all 4 hardware threads
  ok       cpu quota           none below the affinity

kernel
  ok       version             Linux 6.1.0-18-amd64
  ok       hypervisor          none is seen
  ok       clock               tsc
  ok       single copy         kernel.yama.ptrace_scope is 0

network
  ok       eth0                ethernet up, 100 Gbit/s, mtu 9000
  ok       congestion control  cubic; reno between ranks of one host
  ok       tcp_rmem            at most 32 MiB a connection
  ok       tcp_wmem            at most 32 MiB a connection
  ok       somaxconn           4096 connections may wait

devices
  ok       GPUs                none
  ok       RDMA                none

no problem, 0 notes
)";

// Replaces the budgets in a text by a mark, since the library says what they are.
std::string without_budgets(std::string text) {
  for (const std::string before : {"take at most ", "of a host needs "}) {
    for (std::size_t at = 0; (at = text.find(before, at)) != std::string::npos;) {
      at += before.size();
      text.replace(at, text.find('\n', at) - at, "BUDGET");
    }
  }
  return text;
}

constexpr const char* kSick = R"(limits
  problem  open files          20; a rank among 2 of a host needs BUDGET
                               fix: as root: echo '* - nofile 65536' > /etc/security/limits.d/wreath.conf, then log in again
  note     locked memory       8 MiB; RDMA devices register the memory they read
                               fix: as root: echo '* - memlock unlimited' > /etc/security/limits.d/wreath.conf, then log in again
  problem  file size           1 MiB; shared memory is a file to the kernel
                               fix: ulimit -f unlimited
  ok       processes           96365

memory
  problem  memory              4 MiB can be had; 2 ranks take at most BUDGET
                               fix: start fewer ranks, export WREATH_BUFFER_BYTES=8M, or raise the memory limit of the control group
  note     /dev/shm            tmpfs of 64 MiB; Wreath does not fill it, Open MPI, NCCL and Gloo do
                               fix: docker run --shm-size=8g ..., or as root: mount -o remount,size=8G /dev/shm
  note     overcommit          strict: memory that is only reserved counts, and runs out early
                               fix: as root: sysctl -w vm.overcommit_memory=0
  note     huge pages          transparent ones are off: large buffers cost more address translation
                               fix: as root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled

processors
  note     affinity            4 of 16 hardware threads: 0-3
                               fix: where that is not meant: taskset -c 0-15 COMMAND, or the launcher's binding
  note     cpu quota           2 at once of 4: ranks beyond them wait for each other
                               fix: start at most 2 ranks here, or raise cpu.max of the control group
  note     NUMA balancing      on: the kernel unmaps memory to see who uses it
                               fix: as root: sysctl -w kernel.numa_balancing=0
  note     clock speed         governor powersave: cores that wait become slow
                               fix: as root: cpupower frequency-set -g performance

kernel
  problem  version             Linux 4.18.0-553.el8; `wreath run` and the perf tools need 5.3 (pidfd_open)
                               fix: install a kernel of 5.3 or later
  ok       hypervisor          none is seen
  note     clock               hpet: each look at it costs about a microsecond
                               fix: boot with clocksource=tsc tsc=reliable, where the machine's counter is sound
  note     single copy         kernel.yama.ptrace_scope is 1; ranks of a host then copy large messages twice
                               fix: as root: sysctl -w kernel.yama.ptrace_scope=0

network
  note     eth0                ethernet up, 100 Gbit/s, mtu 1500
                               fix: where all of the network can, as root: ip link set eth0 mtu 9000
  ok       ib0                 infiniband up, 400 Gbit/s, mtu 2044
  note     ib1                 infiniband down, mtu 2044
                               fix: where it is meant to be used, as root: ip link set ib1 up; then look at its cable
  note     congestion control  bbr, and reno is not allowed: tcp within a host may be paced
                               fix: as root: sysctl -w net.ipv4.tcp_allowed_congestion_control='reno bbr'
  note     tcp_rmem            at most 208 KiB a connection; fast networks want more in flight
                               fix: as root: sysctl -w net.ipv4.tcp_rmem='4096 131072 33554432'
  ok       tcp_wmem            at most 32 MiB a connection
  note     somaxconn           128 connections may wait: large jobs take longer to meet
                               fix: as root: sysctl -w net.core.somaxconn=4096

devices
  note     GPU 0               NVIDIA 2330 at 0000:01:00.0 has no driver
                               fix: install the vendor's driver, then: modprobe nvidia (or amdgpu)
  ok       GPU 1               NVIDIA H100 80GB HBM3 at 0000:17:00.0, driver nvidia
  ok       GPU 2               NVIDIA H100 80GB HBM3 at 0000:97:00.0, driver nvidia
  note     /dev/nvidiactl      is missing: this container does not see the GPUs
                               fix: docker run --gpus all ...
  ok       mlx5_0 port 1       ACTIVE, InfiniBand 400 Gb/sec (4X NDR)
  note     mlx5_1 port 1       DOWN, InfiniBand 400 Gb/sec (4X NDR)
                               fix: look at its cable, and that a subnet manager runs (opensm)
  note     /dev/infiniband     has no uverbs: programs cannot reach the RDMA devices
                               fix: as root: modprobe ib_uverbs, or docker run --device=/dev/infiniband ...

4 problems, 19 notes
)";

TEST(Doctor, FindsNothingWrongWithAHealthyMachine) {
  const test::FakeMachine machine;
  make_healthy(machine);
  const std::vector<CheckResult> findings = findings_of(machine);
  EXPECT_EQ(without_budgets(report_text(findings, {})), kHealthy);
  EXPECT_EQ(report_code(findings), 0);
}

TEST(Doctor, NamesAllThatIsWrongWithASickOneAndItsFix) {
  const test::FakeMachine machine;
  make_sick(machine);
  const std::vector<CheckResult> findings = findings_of(machine);
  EXPECT_EQ(without_budgets(report_text(findings, {})), kSick);
  EXPECT_EQ(report_code(findings), 1);
  for (const CheckResult& finding : findings) EXPECT_EQ(finding.fix.empty(), finding.verdict == Verdict::Ok);
}

TEST(Doctor, SaysNothingOfWhatItCannotRead) {
  const test::FakeMachine nothing;
  for (const CheckResult& finding : findings_of(nothing)) {
    EXPECT_NE(finding.verdict, Verdict::Problem) << finding.subject << ": " << finding.text;
  }
}

TEST(Doctor, LetsAUserRaiseALimitThatMayBeRaised) {
  const test::FakeMachine machine;
  make_healthy(machine);
  limits(machine, "20                   1048576", "unlimited");
  EXPECT_EQ(of(findings_of(machine), "open files").fix, "ulimit -n 65536");
  limits(machine, "200                  unlimited", "unlimited");
  EXPECT_EQ(of(findings_of(machine), "open files").verdict, Verdict::Note);
}

TEST(Doctor, KnowsFoldersOfSharedMemoryThatAreNone) {
  const test::FakeMachine machine;
  make_healthy(machine);
  machine.file("/proc/self/mounts", "/dev/sda1 /dev/shm ext4 rw 0 0");
  EXPECT_THAT(of(findings_of(machine), "/dev/shm").text, StartsWith("is on ext4"));
  machine.file("/proc/self/mounts", "proc /proc proc rw 0 0");
  EXPECT_THAT(of(findings_of(machine), "/dev/shm").text, StartsWith("is not mounted"));
}

TEST(Doctor, MissesANetworkAndALoopback) {
  const test::FakeMachine machine;
  machine.processors({1, 1, 2, 1});
  test::add_interface(machine, {"lo", "", "772", "down", "", "65536"});
  const std::vector<CheckResult> findings = findings_of(machine);
  EXPECT_EQ(of(findings, "lo").verdict, Verdict::Problem);
  EXPECT_EQ(of(findings, "interfaces").verdict, Verdict::Note);
}

class Probed : public testing::Test {
 protected:
  Probed() { make_healthy(machine_); }
  std::vector<CheckResult> examined() { return examine({machine_.root(), read_topology(machine_.root()), probes_}); }

  const test::FakeMachine machine_;
  const test::Folder home_;
  const test::Environment environment_{{{"HOME", home_.path()}, {"WREATH_KEY_FILE", ""}, {"WREATH_KEY", ""}}};
  Probes probes_;
};

TEST_F(Probed, SystemsThatRefuseCallsAreNamed) {
  probes_.memfd_error = ENOSYS;
  probes_.pidfd_error = EPERM;
  probes_.peer_memory_error = EPERM;
  const std::vector<CheckResult> findings = examined();
  EXPECT_EQ(of(findings, "memfd_create").verdict, Verdict::Problem);
  EXPECT_THAT(of(findings, "memfd_create").text, HasSubstr("Function not implemented"));
  EXPECT_EQ(of(findings, "pidfd_open").verdict, Verdict::Problem);
  EXPECT_EQ(of(findings, "single copy").fix, "start the container with --cap-add=SYS_PTRACE");
  machine_.file("/proc/sys/kernel/yama/ptrace_scope", "2");
  EXPECT_EQ(of(examined(), "single copy").fix, "as root: sysctl -w kernel.yama.ptrace_scope=0");
}

TEST_F(Probed, ASystemThatAllowsAllIsFine) {
  machine_.file("/proc/sys/kernel/yama/ptrace_scope", "1");
  EXPECT_EQ(of(examined(), "single copy").verdict, Verdict::Ok) << "this user may all the same: root may";
  EXPECT_EQ(of(examined(), "memfd_create").verdict, Verdict::Ok);
}

TEST_F(Probed, LibrariesAreMissedWhereADeviceWantsThem) {
  probes_.libraries = {{"libibverbs.so.1", "", ""}, {"libfabric.so.1", "/usr/lib/libfabric.so.1.18.0", "1.17"}};
  EXPECT_EQ(of(examined(), "RDMA verbs").verdict, Verdict::Ok);
  EXPECT_EQ(of(examined(), "libfabric").text, "/usr/lib/libfabric.so.1.18.0, 1.17");
  for (const CheckResult& finding : examined()) EXPECT_NE(finding.subject, "libfabric providers");
  probes_.fabrics = {{"efa", {"efa_0-rdm", "efa_1-rdm"}}, {"tcp;ofi_rxm", {"eth0"}}};
  EXPECT_EQ(of(examined(), "libfabric providers").text, "efa (efa_0-rdm, efa_1-rdm), tcp;ofi_rxm (eth0)");
  const test::FakePci hca{"pci0000:16", "0000:18:00.0", "0x020700", "0x15b3", "0x1021", 0};
  test::add_pci(machine_, hca, "mlx5_core");
  test::add_rdma(machine_, "mlx5_0", hca.folder(), "4: ACTIVE");
  EXPECT_EQ(of(examined(), "RDMA verbs").verdict, Verdict::Note);
  EXPECT_THAT(of(examined(), "RDMA verbs").fix, StartsWith("apt-get install libibverbs1"));
}

TEST_F(Probed, AMisspeltVariableComesWithTheRealOne) {
  const test::Environment environment{{{"WREATH_TRANSPORTS", "tcp"}}};
  const CheckResult finding = of(examined(), "WREATH_TRANSPORTS");
  EXPECT_EQ(finding.verdict, Verdict::Problem);
  EXPECT_EQ(finding.fix, "unset WREATH_TRANSPORTS; export WREATH_TRANSPORT=...");
}

TEST_F(Probed, MalformedVariablesAreAllNamed) {
  const test::Environment environment{
      {{"WREATH_LANES", "many"}, {"WREATH_BUFFER_BYTES", "1Q"}, {"WREATH_REPRODUCIBLE", "perhaps"}}};
  const std::vector<CheckResult> findings = examined();
  for (const char* variable : {"WREATH_LANES", "WREATH_BUFFER_BYTES", "WREATH_REPRODUCIBLE"}) {
    EXPECT_EQ(of(findings, variable).verdict, Verdict::Problem) << variable;
  }
}

// A developer who adds a variable with a range must also add how the doctor judges it.
TEST_F(Probed, NoVariableWithARangeIsPassedOver) {
  for (const SettingRow& row : kSettings) {
    if (!row.name.starts_with("WREATH_") || row.maximum == 0) continue;
    const test::Environment environment{{{std::string(row.name), "x!"}}};
    const std::vector<CheckResult> findings = examined();
    EXPECT_TRUE(std::any_of(findings.begin(), findings.end(), [](const CheckResult& finding) {
      return finding.verdict == Verdict::Problem;
    })) << row.name;
  }
}

TEST_F(Probed, FilesAndFoldersThatAreSetMustBeThere) {
  const test::Environment environment{
      {{"WREATH_TUNING", home_ / "none.json"}, {"WREATH_RECORDER_DIR", home_ / "none"}}};
  const std::vector<CheckResult> findings = examined();
  EXPECT_EQ(of(findings, "WREATH_TUNING").verdict, Verdict::Problem);
  EXPECT_THAT(of(findings, "WREATH_RECORDER_DIR").text, HasSubstr("No such file or directory"));
}

TEST_F(Probed, LaunchersVariablesAreLookedAt) {
  EXPECT_EQ(of(examined(), "launcher").text, "none started this process");
  {
    const test::Environment environment{{{"WREATH_RANK", "1"}, {"WREATH_RANKS", "4"}}};
    EXPECT_THAT(of(examined(), "launcher").text, StartsWith("rank 1 of 4 by "));
  }
  const test::Environment environment{{{"RANK", "1"}, {"MASTER_ADDR", "h0"}}};
  EXPECT_EQ(of(examined(), "launcher").verdict, Verdict::Problem);
  EXPECT_THAT(of(examined(), "launcher").text, HasSubstr("WORLD_SIZE"));
}

TEST_F(Probed, WhatOnlyTheLibraryCanJudgeIsJudgedByIt) {
  {
    const test::Environment environment{{{"WREATH_TRANSPORT", "smoke,shm"}}};
    EXPECT_THAT(of(examined(), "options").text, HasSubstr("smoke"));
  }
  const test::Environment environment{{{"WREATH_SOCKET_IFNAME", "=nothing0"}}};
  EXPECT_THAT(of(examined(), "WREATH_SOCKET_IFNAME").text, HasSubstr("nothing0"));
}

TEST_F(Probed, WellFormedVariablesAreFine) {
  const test::Environment environment{{{"WREATH_LANES", "8"}, {"WREATH_SINGLE_COPY_BYTES", "auto"}}};
  EXPECT_EQ(of(examined(), "variables").verdict, Verdict::Ok);
}

TEST_F(Probed, AKeyThatOthersCanReadIsAProblem) {
  const std::string path = home_ / "key";
  std::ofstream(path) << std::string(64, 'a') << '\n';
  std::filesystem::permissions(path, std::filesystem::perms::owner_read | std::filesystem::perms::others_read);
  const test::Environment environment{{{"WREATH_KEY_FILE", path}}};
  EXPECT_EQ(of(examined(), "key").verdict, Verdict::Problem);
  EXPECT_THAT(of(examined(), "key").fix, HasSubstr("chmod 600"));
  std::filesystem::permissions(path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  EXPECT_EQ(of(examined(), "key").text, "from WREATH_KEY_FILE");
}

TEST_F(Probed, NoKeyIsEnoughForOneHostButNotToBeInsecure) {
  EXPECT_EQ(of(examined(), "key").verdict, Verdict::Ok);
  const test::Environment environment{{{"WREATH_INSECURE", "1"}}};
  EXPECT_EQ(of(examined(), "key").verdict, Verdict::Note);
}

TEST(Probes, OfThisSystemCanBeMade) {
  const Probes probes = probe_system();
  EXPECT_EQ(probes.memfd_error, 0);
  EXPECT_EQ(probes.libraries.size(), 6u);
}

TEST(Report, ColoursTheVerdictsOnlyWhereAsked) {
  const std::vector<CheckResult> findings{{Verdict::Problem, "limits", "open files", "20", "ulimit -n 65536"}};
  EXPECT_EQ(report_text(findings, {}).find('\x1b'), std::string::npos);
  EXPECT_THAT(report_text(findings, {true}), HasSubstr("\x1b[1;31mproblem\x1b[0m  open files  20\n"));
}

}  // namespace
}  // namespace wreath
