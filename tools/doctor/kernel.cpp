// Checks the kernel: its version, its clock, and its permissions for processes.
#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <cstring>

#include "src/topology/kernel_files.hpp"
#include "tools/doctor/findings.hpp"

namespace wreath {
namespace {

void check_version(const Surroundings& surroundings, Findings& findings) {
  int major = 0;
  int minor = 0;
  const std::string& version = surroundings.topology.kernel;
  if (std::sscanf(version.c_str(), "%d.%d", &major, &minor) != 2) return;
  if (major > 5 || (major == 5 && minor >= 3)) return findings.ok("version", "Linux " + version);
  findings.problem("version", fmt::format("Linux {}; `wreath run` and the perf tools need 5.3 (pidfd_open)", version),
                   "install a kernel of 5.3 or later");
}

void check_call(int error, const char* call, const char* need, Findings& findings) {
  if (error == 0) return findings.ok(call, "works");
  findings.problem(
      call, fmt::format("{}; {}", std::strerror(error), need),
      "allow it in the container's seccomp profile, or start the container with --security-opt seccomp=unconfined");
}

// Finds clocks for which reading the time costs a microsecond or more.
void check_clock(const Surroundings& surroundings, Findings& findings) {
  const std::string source =
      line_of(surroundings.root + "/sys/devices/system/clocksource/clocksource0/current_clocksource");
  if (source.empty()) return;
  constexpr std::array<std::string_view, 3> kSlow{"hpet", "acpi_pm", "jiffies"};
  for (const std::string_view slow : kSlow) {
    if (source != slow) continue;
    return findings.note("clock", source + ": each look at it costs about a microsecond",
                         "boot with clocksource=tsc tsc=reliable, where the machine's counter is sound");
  }
  findings.ok("clock", source);
}

}  // namespace

void check_kernel(const Surroundings& surroundings, Findings& findings) {
  check_version(surroundings, findings);
  const std::string& hypervisor = surroundings.topology.hypervisor;
  if (hypervisor.empty()) {
    findings.ok("hypervisor", "none is seen");
  } else {
    findings.ok("hypervisor",
                (hypervisor == "yes" ? "a virtual machine" : hypervisor) + "; times vary with its neighbours");
  }
  check_clock(surroundings, findings);
  if (!surroundings.probes) return;
  check_call(surroundings.probes->memfd_error, "memfd_create", "without it ranks of a host talk over tcp", findings);
  check_call(surroundings.probes->pidfd_error, "pidfd_open", "without it `wreath run` cannot watch its ranks",
             findings);
}

void check_single_copy(const Surroundings& surroundings, Findings& findings) {
  constexpr const char* kSubject = "single copy";
  const auto scope = number_of(surroundings.root + "/proc/sys/kernel/yama/ptrace_scope");
  const int error = surroundings.probes ? surroundings.probes->peer_memory_error : 0;
  const std::string slower = "; ranks of a host then copy large messages twice";
  if (scope.value_or(0) > 0 && (!surroundings.probes || error != 0)) {
    return findings.note(kSubject, fmt::format("kernel.yama.ptrace_scope is {}{}", *scope, slower),
                         "as root: sysctl -w kernel.yama.ptrace_scope=0");
  }
  if (error != 0) {
    return findings.note(kSubject, fmt::format("process_vm_readv: {}{}", std::strerror(error), slower),
                         "start the container with --cap-add=SYS_PTRACE");
  }
  if (surroundings.probes) return findings.ok(kSubject, "processes of this user may read each other's memory");
  if (scope) findings.ok(kSubject, "kernel.yama.ptrace_scope is 0");
}

}  // namespace wreath
