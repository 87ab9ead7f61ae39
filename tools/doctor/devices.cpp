// Checks GPUs, and the libraries that reach devices.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "src/base/config.hpp"
#include "tools/doctor/findings.hpp"

namespace wreath {
namespace {

bool exists(const std::string& path) {
  std::error_code none;
  return std::filesystem::exists(path, none);
}

bool has_driver(const Surroundings& surroundings, std::string_view driver) {
  const auto& gpus = surroundings.topology.gpus;
  return std::any_of(gpus.begin(), gpus.end(), [&](const Gpu& gpu) { return gpu.driver == driver; });
}

// The device that needs a library, and the way to install the library.
struct LibraryNeed {
  std::string_view name;
  std::string_view use;
  // Returns whether a device of this machine needs the library.
  bool (*wanted)(const Surroundings&);
  std::string_view fix;
};

bool has_nvidia(const Surroundings& surroundings) { return has_driver(surroundings, "nvidia"); }
bool has_rdma(const Surroundings& surroundings) { return !surroundings.topology.rdma.empty(); }
bool has_efa(const Surroundings& surroundings) {
  return std::ranges::any_of(surroundings.topology.rdma, [](const RdmaDevice& each) { return each.driver == "efa"; });
}
// The launcher of this process serves PMIx.
bool has_pmix(const Surroundings&) { return is_set(Setting::PmixNamespace); }
bool never(const Surroundings&) { return false; }

constexpr LibraryNeed kNeeds[] = {
    {"libcuda.so.1", "the CUDA driver", &has_nvidia, "install the NVIDIA driver, or docker run --gpus all ..."},
    {"libnvidia-ml.so.1", "NVML", &has_nvidia, "install the NVIDIA driver, or docker run --gpus all ..."},
    {"libibverbs.so.1", "RDMA verbs", &has_rdma, "apt-get install libibverbs1 ibverbs-providers"},
    {"libfabric.so.1", "libfabric", &has_efa, "AWS's EFA installer, or apt-get install libfabric1"},
    {"libhwloc.so.15", "hwloc", &never, ""},
    {"libpmix.so.2", "PMIx", &has_pmix, "apt-get install libpmix2; srun --mpi=pmi2 needs no library"},
};

void check_library(const Surroundings& surroundings, const LibraryProbe& probe, Findings& findings) {
  const auto need = std::find_if(std::begin(kNeeds), std::end(kNeeds),
                                 [&](const LibraryNeed& each) { return each.name == probe.name; });
  if (need == std::end(kNeeds)) return;
  if (!probe.file.empty()) {
    const std::string version = probe.version.empty() ? "" : " " + probe.version;
    return findings.ok(need->use, fmt::format("{}{}", probe.file, version.empty() ? "" : "," + version));
  }
  if (!need->wanted(surroundings))
    return findings.ok(need->use, fmt::format("no {}; nothing here needs it", probe.name));
  findings.note(need->use, fmt::format("no {}, though something here needs it", probe.name), std::string(need->fix));
}

}  // namespace

void check_gpus(const Surroundings& surroundings, Findings& findings) {
  const auto& gpus = surroundings.topology.gpus;
  if (gpus.empty()) return findings.ok("GPUs", "none");
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const std::string subject = fmt::format("GPU {}", i);
    const std::string text = fmt::format("{} at {}", gpus[i].name, gpus[i].place.address);
    if (gpus[i].driver.empty()) {
      findings.note(subject, text + " has no driver", "install the vendor's driver, then: modprobe nvidia (or amdgpu)");
    } else {
      findings.ok(subject, fmt::format("{}, driver {}", text, gpus[i].driver));
    }
  }
  if (has_nvidia(surroundings) && !exists(surroundings.root + "/dev/nvidiactl")) {
    findings.note("/dev/nvidiactl", "is missing: this container does not see the GPUs", "docker run --gpus all ...");
  }
}

void check_libraries(const Surroundings& surroundings, Findings& findings) {
  if (!surroundings.probes) return;
  for (const LibraryProbe& probe : surroundings.probes->libraries) check_library(surroundings, probe, findings);
  std::vector<std::string> providers;
  for (const FabricProbe& probe : surroundings.probes->fabrics) {
    providers.push_back(fmt::format("{} ({})", probe.provider, fmt::join(probe.domains, ", ")));
  }
  if (!providers.empty()) findings.ok("libfabric providers", fmt::format("{}", fmt::join(providers, ", ")));
}

}  // namespace wreath
