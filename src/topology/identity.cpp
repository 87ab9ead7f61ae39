// Reads the machine's names, and what its control groups leave to this process.
#include <algorithm>

#include "src/base/available_memory.hpp"
#include "src/base/cpu.hpp"
#include "src/topology/kernel_files.hpp"
#include "src/topology/parts.hpp"

namespace wreath {
namespace {

std::string hypervisor_of(const std::string& root) {
  if (const std::string type = line_of(root + "/sys/hypervisor/type"); !type.empty()) return type;
  const std::string flags = field_of(root + "/proc/cpuinfo", "flags") + " ";
  if (flags.find(" hypervisor ") == std::string::npos) return {};
  const std::string product = line_of(root + "/sys/class/dmi/id/product_name");
  const std::string vendor = line_of(root + "/sys/class/dmi/id/sys_vendor");
  if (product.empty() && vendor.empty()) return "yes";
  return vendor.empty() || product.empty() ? vendor + product : vendor + " " + product;
}

}  // namespace

void read_identity(const std::string& root, Topology& topology) {
  topology.host = line_of(root + "/proc/sys/kernel/hostname");
  topology.kernel = line_of(root + "/proc/sys/kernel/osrelease");
  topology.processor = field_of(root + "/proc/cpuinfo", "model name");
  topology.hypervisor = hypervisor_of(root);
  const auto online = [&](int number) {
    return std::any_of(topology.processors.begin(), topology.processors.end(),
                       [&](const Processor& processor) { return processor.number == number; });
  };
  const auto allowed = std::count_if(topology.allowed.begin(), topology.allowed.end(), online);
  topology.usable_cores = usable_cores(root.c_str(), static_cast<int>(allowed));
  topology.available_bytes = available_memory(root);
}

}  // namespace wreath
