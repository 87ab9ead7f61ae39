// The subcommand `wreath doctor`: checks whether this machine allows ranks to work, and the resources that they need.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>

#include "src/base/config.hpp"
#include "src/command_line/numbers.hpp"
#include "src/command_line/program.hpp"
#include "tools/commands.hpp"
#include "tools/doctor/findings.hpp"
#include "tools/doctor/memory.hpp"
#include "tools/doctor/nccl/report.hpp"

namespace wreath {
namespace {

struct DoctorArguments {
  bool memory = false;
  bool json = false;
  int ranks = 4;
  std::string root;
  std::string nccl;
};

constexpr int kMostDoctorRanks = 1024;

int complain(const Error& error) { return command_line::fail(exit_code(error.code), "doctor: " + error.message); }

Status check_doctor(const DoctorArguments& arguments) {
  WREATH_TRY(check_root(arguments.root));
  if (arguments.memory && !arguments.root.empty()) {
    return Error{ErrorCode::InvalidArgument, "--memory starts ranks here, and --root is another machine: one of them"};
  }
  if (!arguments.nccl.empty() && (arguments.memory || !arguments.root.empty()))
    return Error{ErrorCode::InvalidArgument,
                 "--nccl looks at a program of this machine: neither --memory nor --root goes with it"};
  return {};
}

int look_for_nccl(const DoctorArguments& arguments) {
  const auto report = examine_nccl(arguments.nccl);
  if (!report) return complain(report.error());
  fmt::print("{}", arguments.json ? nccl_json(*report) : nccl_text(*report));
  return nccl_code(*report);
}

int doctor(const DoctorArguments& arguments) {
  if (const Status good = check_doctor(arguments); !good) return complain(good.error());
  if (!arguments.nccl.empty()) return look_for_nccl(arguments);
  if (arguments.memory) {
    warn_of_strangers();
    const Status reported = report_memory(arguments.ranks, arguments.json);
    return reported ? 0 : complain(reported.error());
  }
  Surroundings surroundings{arguments.root, read_topology(arguments.root), {}};
  if (arguments.root.empty()) surroundings.probes = probe_system();
  const std::vector<CheckResult> findings = examine(surroundings);
  const ReportStyle style{::isatty(STDOUT_FILENO) != 0 && !is_set(Setting::NoColor)};
  fmt::print("{}", arguments.json ? report_json(findings) : report_text(findings, style));
  return report_code(findings);
}

}  // namespace

std::function<int()> add_doctor(const command_line::Command& command) {
  command.description(
      "whether this machine lets ranks work: its limits, memory, processors, kernel, networks, devices and libraries, "
      "and the variables that are set; what is wrong comes with its fix. Exit code: 0 fine (notes only cost time), 1 a "
      "problem, 2 wrong usage");
  const auto arguments = std::make_shared<DoctorArguments>();
  command.add_flag("--memory", arguments->memory, "instead: the memory budget, and what ranks of this host hold");
  command_line::add_number(command, "--ranks", arguments->ranks, {1, kMostDoctorRanks},
                           "for --memory: ranks to start on this host")
      .needs("--memory")
      .capture_default_str();
  command
      .add_option("--nccl", arguments->nccl,
                  "instead: which libnccl.so.2 a program, a shared library, a Python interpreter's packages or a "
                  "running process "
                  "load, and by which rule of the loader; none of their code runs, but the interpreter's own")
      .type_name("PROGRAM|LIBRARY|PYTHON|PID")
      .check(not_empty);
  command.add_flag("--json", arguments->json, "as JSON (docs/formats.md has the keys)");
  command.add_option("--root", arguments->root, "read /sys and /proc below this folder: a copy of another machine's")
      .type_name("FOLDER")
      .check(not_empty);
  return [arguments] { return doctor(*arguments); };
}

}  // namespace wreath
