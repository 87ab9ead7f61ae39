// Checks this build, the key of this user, and the variables of this process.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "src/base/config.hpp"
#include "src/base/ports.hpp"
#include "src/bootstrap/interfaces.hpp"
#include "src/bootstrap/key.hpp"
#include "src/bootstrap/launched.hpp"
#include "tools/doctor/findings.hpp"
#include "wreath/environment.hpp"
#include "wreath/memory_budget.hpp"
#include "wreath/transport.hpp"
#include "wreath/tuning.hpp"

namespace wreath {
namespace {

struct Feature {
  std::string_view name;
  std::string_view state;
};
// The states that the configuration of the build printed.
constexpr Feature kFeatures[] = {
    {"cuda", WREATH_CUDA_STATE}, {"verbs.h", WREATH_VERBS_STATE}, {"fabric.h", WREATH_OFI_STATE}};

template <typename T>
std::string complaint(const Result<T>& value) {
  return value ? std::string() : value.error().message;
}
template <typename T>
Status status_of(const Result<T>& value) {
  return value ? Status() : Status(value.error());
}
std::string integer_complaint(Setting setting) { return complaint(setting_integer(setting)); }
std::string bytes_complaint(Setting setting) { return complaint(setting_bytes(setting)); }
std::string boolean_complaint(Setting setting) { return complaint(setting_boolean(setting)); }
std::string ports_complaint(Setting setting) {
  const std::string text = setting_text(setting);
  return text == "0" ? std::string() : complaint(parse_ports(text, row(setting).name));
}
// Returns the complaint about a folder that files are written into; empty: there is none.
std::string folder_complaint(Setting setting) {
  const std::string path = setting_text(setting);
  if (::access(path.c_str(), W_OK | X_OK) == 0) return {};
  return fmt::format("{}={}: {}", row(setting).name, path, std::strerror(errno));
}
std::string tuning_complaint(Setting setting) {
  const std::string path = setting_text(setting);
  if (path == "none") return {};
  const auto tuning = read_tuning(path);
  return tuning ? complaint(check_origin(*tuning, path)) : tuning.error().message;
}
std::string stream_complaint(Setting setting) {
  return setting_text(setting) == "auto" ? std::string() : bytes_complaint(setting);
}

std::string sockets_complaint(Setting setting) {
  return setting_text(setting) == "auto" ? std::string() : integer_complaint(setting);
}

struct SettingForm {
  Setting setting;
  std::string (*complaint)(Setting);
};

// The settings that are numbers, sizes or switches, and texts with a meaning of their own, each with its check.
constexpr SettingForm kForms[] = {
    {Setting::Lanes, &integer_complaint},
    {Setting::TileBytes, &bytes_complaint},
    {Setting::BufferBytes, &bytes_complaint},
    {Setting::Reproducible, &boolean_complaint},
    {Setting::StallTimeoutMs, &integer_complaint},
    {Setting::ArrivalTimeoutMs, &integer_complaint},
    {Setting::LateWarningMs, &integer_complaint},
    {Setting::BootstrapTimeoutMs, &integer_complaint},
    {Setting::Insecure, &boolean_complaint},
    {Setting::OwnRank, &integer_complaint},
    {Setting::OwnRanks, &integer_complaint},
    {Setting::OwnLocalRank, &integer_complaint},
    {Setting::HostCores, &integer_complaint},
    {Setting::ElasticFolder, &folder_complaint},
    {Setting::MinRanks, &integer_complaint},
    {Setting::MaxRanks, &integer_complaint},
    {Setting::SpareRanks, &integer_complaint},
    {Setting::JoinNumber, &integer_complaint},
    {Setting::Port, &ports_complaint},
    {Setting::TcpSockets, &sockets_complaint},
    {Setting::Rails, &integer_complaint},
    {Setting::IbGidIndex, &integer_complaint},
    {Setting::IbTimeout, &integer_complaint},
    {Setting::IbRetryCount, &integer_complaint},
    {Setting::IbServiceLevel, &integer_complaint},
    {Setting::IbTrafficClass, &integer_complaint},
    {Setting::IbPkeyIndex, &integer_complaint},
    {Setting::IbQueuePairs, &integer_complaint},
    {Setting::IbRelaxedOrdering, &boolean_complaint},
    {Setting::LandingWaitMs, &integer_complaint},
    {Setting::PortRange, &ports_complaint},
    {Setting::RecorderDir, &folder_complaint},
    {Setting::Trace, &folder_complaint},
    {Setting::Tuning, &tuning_complaint},
    {Setting::SpinUs, &integer_complaint},
    {Setting::StreamBytes, &stream_complaint},
};

// Reports a message such as "NAME=value must be ..." with its fix, each in its column.
void refuse(std::string_view variable, const std::string& message, Findings& findings) {
  findings.problem(variable, message, fmt::format("unset {}, or set what is allowed", variable));
}

bool check_forms(Findings& findings) {
  bool good = true;
  for (const SettingForm& form : kForms) {
    if (!is_set(form.setting)) continue;
    const std::string message = form.complaint(form.setting);
    if (message.empty()) continue;
    refuse(row(form.setting).name, message, findings);
    good = false;
  }
  return good;
}

// Checks settings that only their reader can judge: transports, algorithms, powers of two, faults.
bool check_options(Findings& findings) {
  const auto budget = memory_budget(2);
  if (budget) return true;
  std::string names;
  for (const SettingRow& each : kSettings) {
    if (each.name.starts_with("WREATH_") && is_set(each.setting)) names += fmt::format(" {}", each.name);
  }
  findings.problem("options", budget.error().message, "look at what is set:" + names);
  return false;
}

// Checks the variables of launchers: one may be missing or malformed.
bool check_launcher(Findings& findings) {
  constexpr const char* kSubject = "launcher";
  const auto job = environment_job();
  const Status place = job && job->ranks > 1 ? status_of(rendezvous()) : Status();
  if (!job || !place) {
    findings.problem(kSubject, job ? place.error().message : job.error().message,
                     "set it, or unset the others; `wreath run` sets them all");
    return false;
  }
  for (const Disagreement& each : disagreements(*job)) {
    findings.note(kSubject, each.sentence, "unset what is not meant, or start ranks with `wreath run`");
  }
  findings.ok(kSubject, job->launched ? fmt::format("rank {} of {} by {}", job->rank, job->ranks, job->source)
                                      : "none started this process");
  return true;
}

bool check_interface_choice(Findings& findings) {
  if (!is_set(Setting::SocketInterface)) return true;
  const auto chosen = chosen_addresses(interfaces(), AF_INET);
  if (chosen) return true;
  findings.problem("WREATH_SOCKET_IFNAME", chosen.error().message, "unset WREATH_SOCKET_IFNAME, or name one of them");
  return false;
}

std::string sanitizer_text() { return WREATH_SANITIZERS[0] == 0 ? "" : ", sanitizers " WREATH_SANITIZERS; }

// Lists the transports. One that cannot be used here is no problem, since another one serves.
void check_transports(Findings& findings) {
  std::vector<std::string> lacking;
  for (const TransportRow& row : transports()) {
    if (const Status usable = row.usable(); !usable) {
      lacking.push_back(fmt::format("{} cannot be used here: {}", row.name, usable.error().message));
    }
  }
  const std::string names = fmt::format("{}", fmt::join(transport_names(), " "));
  findings.ok("transports", lacking.empty() ? names : fmt::format("{} ({})", names, fmt::join(lacking, "; ")));
}

}  // namespace

void check_build(const Surroundings&, Findings& findings) {
  const std::string type = WREATH_BUILD_TYPE;
  const std::string text = fmt::format("{}, {} {}{}", WREATH_VERSION, type, WREATH_COMPILER, sanitizer_text());
  const bool slow = type == "Debug" || !sanitizer_text().empty();
  if (slow) {
    findings.note("wreath", text + ": its times say nothing",
                  "for times: cmake --preset release && ninja -C build/release");
  } else {
    findings.ok("wreath", text);
  }
  check_transports(findings);
  for (const Feature& feature : kFeatures) findings.ok(feature.name, std::string(feature.state));
}

void check_key(const Surroundings& surroundings, Findings& findings) {
  if (!surroundings.probes) return;
  const auto found = find_key();
  if (!found) {
    return findings.problem("key", found.error().message,
                            "chmod 600 the file as its owner, or make another: wreath key --force");
  }
  if (found->key) return findings.ok("key", "from " + found->source);
  const auto insecure = setting_boolean(Setting::Insecure);
  if (insecure && *insecure) {
    return findings.note("key", "none, and WREATH_INSECURE=1: whoever reaches rank 0's port can join and read",
                         "wreath key; then copy ~/.config/wreath/key to every host, and unset WREATH_INSECURE");
  }
  findings.ok("key", "none: enough for ranks of one host; for several, `wreath key` makes one");
}

void check_settings(const Surroundings& surroundings, Findings& findings) {
  if (!surroundings.probes) return;
  bool good = true;
  for (const std::string& sentence : unknown_settings()) {
    const std::string variable = sentence.substr(0, sentence.find(' '));
    const std::size_t suggestion = sentence.find("did you mean ");
    findings.problem(variable, sentence,
                     suggestion == std::string::npos
                         ? "unset " + variable
                         : fmt::format("unset {}; export {}=...", variable,
                                       sentence.substr(suggestion + 13, sentence.size() - suggestion - 14)));
    good = false;
  }
  const bool forms = check_forms(findings);
  good = check_interface_choice(findings) && forms && good;
  if (forms) good = check_options(findings) && check_launcher(findings) && good;
  if (good) findings.ok("variables", "all that are set are known and well formed");
}

}  // namespace wreath
