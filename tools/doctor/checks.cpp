// The table of checks.
#include "tools/doctor/findings.hpp"

namespace wreath {
namespace {

struct Check {
  const char* group;
  void (*look)(const Surroundings& surroundings, Findings& findings);
};

// The checks in the order of the report. A new check needs a function and a row here.
constexpr Check kChecks[] = {
    {"limits", &check_limits},       {"memory", &check_memory},      {"processors", &check_processors},
    {"kernel", &check_kernel},       {"kernel", &check_single_copy}, {"network", &check_interfaces},
    {"network", &check_tcp},         {"devices", &check_gpus},       {"devices", &check_rdma},
    {"libraries", &check_libraries}, {"this build", &check_build},   {"settings", &check_key},
    {"settings", &check_settings},
};

}  // namespace

std::vector<CheckResult> examine(const Surroundings& surroundings) {
  Findings findings;
  for (const Check& check : kChecks) {
    findings.begin(check.group);
    check.look(surroundings, findings);
  }
  return findings.all();
}

}  // namespace wreath
