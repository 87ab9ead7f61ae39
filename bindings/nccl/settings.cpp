// Applies the table of NCCL_* variables.
#include "bindings/nccl/settings.hpp"

#include <algorithm>
#include <cctype>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "bindings/nccl/errors.hpp"
#include "src/base/config.hpp"
#include "src/base/log.hpp"
#include "src/base/text_file.hpp"
#include "wreath/topology.hpp"

namespace wreath::nccl {
namespace {

// This text tells this file from NVIDIA's, too, which holds such a text (tools/doctor looks for it).
constexpr std::string_view kWhoThisIs = "NCCL version 2.28.9 by Wreath " WREATH_VERSION;

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

void apply_debug() {
  const std::string level = setting_text(Setting::NcclDebug);
  if (level.empty() || is_set(Setting::Debug)) return;
  std::string upper = level;
  std::transform(upper.begin(), upper.end(), upper.begin(), [](unsigned char c) { return std::toupper(c); });
  if (upper == "INFO" || upper == "TRACE") substitute(Setting::Debug, upper);
  if (upper == "ABORT") substitute(Setting::Debug, "INFO");
  if (upper != "WARN") log_line(LogLevel::Info, kWhoThisIs);
}

struct Renamed {
  Setting nccl;
  Setting own;
};
constexpr Renamed kRenamed[] = {{Setting::NcclDebugFile, Setting::DebugFile},
                                {Setting::NcclSocketInterface, Setting::SocketInterface},
                                {Setting::NcclIbHca, Setting::Hca}};

struct Meaningless {
  Setting nccl;
  std::string_view reason;
};
constexpr Meaningless kMeaningless[] = {
    {Setting::NcclDebugSubsystems, "this library's messages have no subsystems: NCCL_DEBUG=INFO prints them all"},
    {Setting::NcclProtocol, "messages have one format, chosen by their size: there are no protocols to choose among"}};

// Returns the algorithm that the text asks for and this library has; nullopt where there is none. `refused` says that
// the text asks for what this library lacks.
std::optional<std::string> wanted_algorithm(std::string_view text, bool& refused) {
  const std::string name = lower(std::string(text));
  const bool plain = name.find_first_of(",;:") == std::string::npos;
  // An algorithm that is not there is easy to leave out.
  if (name.starts_with("^")) {
    refused =
        name.find("ring") != std::string::npos || name.find("tree") == 1 || name.find(",tree") != std::string::npos;
    return std::nullopt;
  }
  refused = !plain || (name != "ring" && name != "tree");
  if (refused) return std::nullopt;
  return name == "tree" ? "double_tree" : name;
}

ncclResult_t apply_algorithm() {
  const std::string text = setting_text(Setting::NcclAlgorithm);
  if (text.empty() || is_set(Setting::AlgorithmName)) return ncclSuccess;
  bool refused = false;
  const auto wanted = wanted_algorithm(text, refused);
  if (wanted) substitute(Setting::AlgorithmName, *wanted);
  if (!refused) return ncclSuccess;
  return refuse(ncclInvalidUsage, "NCCL_ALGO=" + text +
                                      ": Wreath can be held to Ring or to Tree, alone, and told to leave out what it "
                                      "does not have; WREATH_ALGORITHM takes the names of its own algorithms");
}

ncclResult_t dump_topology() {
  const std::string path = setting_text(Setting::NcclTopologyDump);
  if (path.empty()) return ncclSuccess;
  const Topology topology = read_topology();
  const Status written =
      write_output(path, "machine: " + machine_text(topology) + "\nprocess: " + process_text(topology) + "\n");
  return written ? ncclSuccess : refuse(ncclSystemError, "NCCL_TOPO_DUMP_FILE: " + written.error().message);
}

ncclResult_t apply_all() {
  for (const Renamed& one : kRenamed) {
    if (is_set(one.nccl) && !is_set(one.own)) substitute(one.own, setting_text(one.nccl));
  }
  apply_debug();
  for (const Meaningless& one : kMeaningless) {
    if (is_set(one.nccl))
      log_warning("{}={} has no effect: {}", row(one.nccl).name, setting_text(one.nccl), one.reason);
  }
  const ncclResult_t algorithm = apply_algorithm();
  return algorithm == ncclSuccess ? dump_topology() : algorithm;
}

}  // namespace

ncclResult_t apply_settings() {
  static std::once_flag once;
  static ncclResult_t result = ncclSuccess;
  static std::string text;
  std::call_once(once, [] {
    result = apply_all();
    if (result != ncclSuccess) text = last_error();
  });
  return result == ncclSuccess ? ncclSuccess : refuse(result, text);
}

ncclResult_t read_debug_again() {
  apply_debug();
  reload_log_level();
  return ncclSuccess;
}

}  // namespace wreath::nccl
