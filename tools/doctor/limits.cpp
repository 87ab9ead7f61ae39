// Checks the limits of this process, its memory and its cores.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>

#include "src/topology/kernel_files.hpp"
#include "tools/doctor/findings.hpp"
#include "wreath/memory_budget.hpp"
#include "wreath/units.hpp"

namespace wreath {
namespace {

constexpr std::uint64_t kUnlimited = ~std::uint64_t{0};
constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
constexpr int kLargeJob = 256;  // ranks of one host

struct Limit {
  std::uint64_t soft = kUnlimited;
  std::uint64_t hard = kUnlimited;
};

std::uint64_t limit_value(const std::string& word) {
  std::uint64_t value = kUnlimited;
  std::from_chars(word.data(), word.data() + word.size(), value);
  return value;
}

// Returns the limit of that name, such as "Max open files"; nullopt where it cannot be read.
std::optional<Limit> limit_of(const Surroundings& surroundings, std::string_view limit_name) {
  std::istringstream words(field_of(surroundings.root + "/proc/self/limits", limit_name));
  std::string soft;
  std::string hard;
  if (!(words >> soft >> hard)) return std::nullopt;
  return Limit{limit_value(soft), limit_value(hard)};
}

// Returns the command that raises a limit. It needs no root where the hard limit allows the value.
std::string raise(char flag, const char* item, const std::string& wanted, bool allowed) {
  if (allowed) return fmt::format("ulimit -{} {}", flag, wanted);
  return fmt::format("as root: echo '* - {} {}' > /etc/security/limits.d/wreath.conf, then log in again", item, wanted);
}

// Returns the descriptors that a rank needs, with a few for the program itself.
std::uint64_t descriptors_of(int ranks) {
  constexpr int kProgram = 16;
  const auto budget = memory_budget(ranks);
  return static_cast<std::uint64_t>(kProgram + (budget ? budget->descriptors : 0));
}

void check_open_files(const Surroundings& surroundings, Findings& findings) {
  const auto limit = limit_of(surroundings, "Max open files");
  if (!limit) return;
  constexpr std::uint64_t kWanted = 65'536;
  const int ranks = std::max(surroundings.topology.usable_cores, 2);
  const auto needed = descriptors_of(ranks);
  const auto large = descriptors_of(kLargeJob);
  const std::string fix = raise('n', "nofile", std::to_string(kWanted), limit->hard >= kWanted);
  if (limit->soft < needed) {
    findings.problem("open files", fmt::format("{}; a rank among {} of a host needs {}", limit->soft, ranks, needed),
                     fix);
  } else if (limit->soft < large) {
    findings.note("open files", fmt::format("{}; a rank among {} of a host needs {}", limit->soft, kLargeJob, large),
                  fix);
  } else {
    findings.ok("open files", limit->soft == kUnlimited ? "unlimited" : fmt::format("{}", limit->soft));
  }
}

// Returns whether no limit of locked memory holds for this process, as for root outside of containers.
bool locks_without_limit(const Surroundings& surroundings) {
  constexpr std::uint64_t kMayLock = 1 << 14;  // CAP_IPC_LOCK
  const std::string capabilities = field_of(surroundings.root + "/proc/self/status", "CapEff");
  std::uint64_t set = 0;
  std::from_chars(capabilities.data(), capabilities.data() + capabilities.size(), set, 16);
  return (set & kMayLock) != 0;
}

void check_locked_memory(const Surroundings& surroundings, Findings& findings) {
  const auto limit = limit_of(surroundings, "Max locked memory");
  if (!limit) return;
  const std::string text = limit->soft == kUnlimited ? "unlimited" : size_text(limit->soft);
  const bool registers = !surroundings.topology.rdma.empty();
  if (registers && limit->soft < kGiB && locks_without_limit(surroundings)) {
    findings.ok("locked memory", text + ", which does not hold for this process (CAP_IPC_LOCK)");
  } else if (registers && limit->soft < kGiB) {
    findings.note("locked memory", text + "; RDMA devices register the memory they read",
                  raise('l', "memlock", "unlimited", limit->hard == kUnlimited));
  } else {
    findings.ok("locked memory", text + (registers ? "" : ", no device here needs more"));
  }
}

// Checks the file size limit, which applies to files in memory, too.
void check_file_size(const Surroundings& surroundings, Findings& findings) {
  const auto limit = limit_of(surroundings, "Max file size");
  if (!limit) return;
  if (limit->soft == kUnlimited) return findings.ok("file size", "unlimited");
  const std::string fix = raise('f', "fsize", "unlimited", limit->hard == kUnlimited);
  if (limit->soft < 64 * kMiB) {
    findings.problem("file size", size_text(limit->soft) + "; shared memory is a file to the kernel", fix);
  } else {
    findings.note("file size", size_text(limit->soft) + "; `wreath::allocate` cannot give more at once", fix);
  }
}

void check_processes(const Surroundings& surroundings, Findings& findings) {
  const auto limit = limit_of(surroundings, "Max processes");
  if (!limit) return;
  constexpr std::uint64_t kFew = 1024;
  const std::string text = limit->soft == kUnlimited ? "unlimited" : fmt::format("{}", limit->soft);
  if (limit->soft >= kFew) return findings.ok("processes", text);
  findings.note("processes", text + " of this user, threads included; a rank has 2 and more",
                raise('u', "nproc", "16384", limit->hard >= 16'384));
}

// Returns the type and options of the file system that is mounted at `folder`, such as "tmpfs rw,size=65536k"; empty
// where none is mounted.
std::string mount_of(const Surroundings& surroundings, const std::string& folder) {
  std::ifstream file(surroundings.root + "/proc/self/mounts");
  std::string found;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string device;
    std::string at;
    std::string type;
    std::string options;
    if (words >> device >> at >> type >> options && at == folder) found = type + " " + options;
  }
  return found;
}

void check_shared_folder(const Surroundings& surroundings, Findings& findings) {
  const std::string mount = mount_of(surroundings, "/dev/shm");
  constexpr const char* kBigger = "docker run --shm-size=8g ..., or as root: mount -o remount,size=8G /dev/shm";
  if (mount.empty()) {
    return findings.note("/dev/shm", "is not mounted; Wreath can do without, Open MPI, NCCL and Gloo cannot",
                         "as root: mount -t tmpfs tmpfs /dev/shm");
  }
  if (!mount.starts_with("tmpfs ")) {
    return findings.note("/dev/shm", fmt::format("is on {}, not in memory", mount.substr(0, mount.find(' '))),
                         "as root: mount -t tmpfs tmpfs /dev/shm");
  }
  const std::size_t at = mount.find("size=");
  std::string size = at == std::string::npos ? "" : mount.substr(at + 5);
  size = size.substr(0, size.find(','));
  const auto bytes = parse_bytes(size);
  if (!bytes) return findings.ok("/dev/shm", "tmpfs");
  if (*bytes >= kGiB) return findings.ok("/dev/shm", fmt::format("tmpfs of {}", size_text(*bytes)));
  findings.note("/dev/shm",
                fmt::format("tmpfs of {}; Wreath does not fill it, Open MPI, NCCL and Gloo do", size_text(*bytes)),
                kBigger);
}

void check_available(const Surroundings& surroundings, Findings& findings) {
  const Topology& topology = surroundings.topology;
  if (topology.available_bytes == kUnlimited) return;
  const int ranks = std::max(topology.usable_cores, 2);
  const auto budget = memory_budget(ranks);
  if (!budget) return;
  const std::uint64_t needed = budget->bytes() * static_cast<std::uint64_t>(ranks);
  const std::string text = fmt::format("{} can be had; {} ranks take at most {}", size_text(topology.available_bytes),
                                       ranks, size_text(needed));
  if (topology.available_bytes >= needed) return findings.ok("memory", text);
  findings.problem("memory", text,
                   "start fewer ranks, export WREATH_BUFFER_BYTES=8M, or raise the memory limit of the control group");
}

void check_overcommit(const Surroundings& surroundings, Findings& findings) {
  const auto mode = number_of(surroundings.root + "/proc/sys/vm/overcommit_memory");
  if (!mode) return;
  if (*mode != 2) return findings.ok("overcommit", *mode == 1 ? "always" : "by the kernel's judgement");
  findings.note("overcommit", "strict: memory that is only reserved counts, and runs out early",
                "as root: sysctl -w vm.overcommit_memory=0");
}

void check_huge_pages(const Surroundings& surroundings, Findings& findings) {
  const std::string modes = line_of(surroundings.root + "/sys/kernel/mm/transparent_hugepage/enabled");
  const std::size_t open = modes.find('[');
  const std::size_t close = modes.find(']');
  if (open == std::string::npos || close == std::string::npos) return;
  const std::string mode = modes.substr(open + 1, close - open - 1);
  if (mode != "never") return findings.ok("huge pages", "transparent ones: " + mode);
  findings.note("huge pages", "transparent ones are off: large buffers cost more address translation",
                "as root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled");
}

}  // namespace

void check_limits(const Surroundings& surroundings, Findings& findings) {
  check_open_files(surroundings, findings);
  check_locked_memory(surroundings, findings);
  check_file_size(surroundings, findings);
  check_processes(surroundings, findings);
}

void check_memory(const Surroundings& surroundings, Findings& findings) {
  check_available(surroundings, findings);
  check_shared_folder(surroundings, findings);
  check_overcommit(surroundings, findings);
  check_huge_pages(surroundings, findings);
}

void check_processors(const Surroundings& surroundings, Findings& findings) {
  const Topology& topology = surroundings.topology;
  const auto allowed = static_cast<int>(topology.allowed.size());
  const auto online = static_cast<int>(topology.processors.size());
  if (allowed < online) {
    findings.note(
        "affinity", fmt::format("{} of {} hardware threads: {}", allowed, online, format_list(topology.allowed)),
        fmt::format("where that is not meant: taskset -c 0-{} COMMAND, or the launcher's binding", online - 1));
  } else {
    findings.ok("affinity", fmt::format("all {} hardware threads", online));
  }
  if (topology.usable_cores < allowed) {
    findings.note(
        "cpu quota",
        fmt::format("{} at once of {}: ranks beyond them wait for each other", topology.usable_cores, allowed),
        fmt::format("start at most {} ranks here, or raise cpu.max of the control group", topology.usable_cores));
  } else {
    findings.ok("cpu quota", "none below the affinity");
  }
  if (number_of(surroundings.root + "/proc/sys/kernel/numa_balancing").value_or(0) != 0 && topology.nodes.size() > 1) {
    findings.note("NUMA balancing", "on: the kernel unmaps memory to see who uses it",
                  "as root: sysctl -w kernel.numa_balancing=0");
  }
  const std::string governor = line_of(surroundings.root + "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  if (governor == "powersave") {
    findings.note("clock speed", "governor powersave: cores that wait become slow",
                  "as root: cpupower frequency-set -g performance");
  }
}

}  // namespace wreath
