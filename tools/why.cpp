// The subcommand `wreath why DIR|FILE|PID...`: finds the rank that is behind, its call, and the differences between
// calls.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "src/base/printable.hpp"
#include "src/json/value.hpp"
#include "tools/commands.hpp"
#include "wreath/recording.hpp"

namespace wreath {
namespace {

struct Options {
  std::vector<std::string> sources;
  bool json = false;
};

struct Skipped {
  std::string reason;  // names the source
};

struct Gathered {
  std::vector<Recording> recordings;
  std::vector<Skipped> skipped;
};

std::optional<std::int32_t> parse_pid(const std::string& text) {
  std::int32_t pid = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), pid);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && pid > 0 ? std::optional(pid) : std::nullopt;
}

void add_file(const std::string& path, Gathered& gathered) {
  Result<Recording> recording = read_recording(path);
  if (recording) {
    gathered.recordings.push_back(std::move(*recording));
  } else {
    gathered.skipped.push_back({recording.error().message});
  }
}

void add_process(std::int32_t pid, Gathered& gathered) {
  Result<std::vector<Recording>> recordings = read_process(pid);
  if (!recordings) {
    gathered.skipped.push_back({recordings.error().message});
    return;
  }
  for (Recording& recording : *recordings) gathered.recordings.push_back(std::move(recording));
}

void add_folder(const std::string& folder, Gathered& gathered) {
  std::vector<std::string> paths;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  while (!error && entry != std::filesystem::directory_iterator()) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with("wreath-") && name.ends_with(".json")) paths.push_back(entry->path().string());
    entry.increment(error);
  }
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) add_file(path, gathered);
  if (error) gathered.skipped.push_back({fmt::format("{}: {}", folder, error.message())});
  if (!error && paths.empty()) gathered.skipped.push_back({fmt::format("{}: there is no wreath-*.json in it", folder)});
}

Gathered gather(const std::vector<std::string>& sources) {
  Gathered gathered;
  for (const std::string& source : sources) {
    std::error_code ignored;
    if (const std::optional<std::int32_t> pid = parse_pid(source)) {
      add_process(*pid, gathered);
    } else if (std::filesystem::is_directory(source, ignored)) {
      add_folder(source, gathered);
    } else {
      add_file(source, gathered);
    }
  }
  return gathered;
}

std::string duration_text(std::int64_t ns) {
  if (ns < 0) return "-";
  const double seconds = static_cast<double>(ns) / 1e9;
  if (seconds >= 1) return fmt::format("{:.1f} s", seconds);
  return seconds >= 1e-3 ? fmt::format("{:.1f} ms", seconds * 1e3) : fmt::format("{:.1f} us", seconds * 1e6);
}

// Returns the call or exchange that was entered last, or nullptr.
const CallRecord* last_of(const Recording& recording) {
  const CallRecord* call = recording.last();
  if (recording.exchanges.empty()) return call;
  const CallRecord* exchange = &recording.exchanges.back();
  return call != nullptr && call->entered_ns > exchange->entered_ns ? call : exchange;
}

// Returns how long the rank has been in the last call, or out of it.
std::int64_t state_age_ns(const Recording& recording, const CallRecord& call) {
  return recording.taken_ns - (call.done_ns != 0 ? call.done_ns : call.entered_ns);
}

void print_table(const Gathered& gathered, std::uint64_t communicator) {
  fmt::print("communicator {:016x}\n", communicator);
  fmt::print("{:>6}  {:<16} {:>8}  {:<40} {:<8} {:>10}  {}\n", "rank", "host", "pid", "last call", "state", "since",
             "algorithm");
  std::vector<const Recording*> rows;
  for (const Recording& recording : gathered.recordings) {
    if (recording.communicator == communicator) rows.push_back(&recording);
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Recording* a, const Recording* b) { return a->rank < b->rank; });
  for (const Recording* recording : rows) {
    const CallRecord* call = last_of(*recording);
    fmt::print("{:>6}  {:<16} {:>8}  {:<40} {:<8} {:>10}  {}\n", recording->rank, printable(recording->host),
               recording->pid, call == nullptr ? "none" : describe(*call), call == nullptr ? "" : name(call->state),
               call == nullptr ? "" : duration_text(state_age_ns(*recording, *call)),
               call == nullptr ? "" : printable(call->algorithm.view()));
  }
}

void print_text(const Gathered& gathered, const std::vector<Diagnosis>& diagnoses) {
  for (const Diagnosis& diagnosis : diagnoses) {
    print_table(gathered, diagnosis.communicator);
    fmt::print("{}:\n", name(diagnosis.finding));
    for (const std::string& sentence : diagnosis.sentences) fmt::print("  {}\n", printable(sentence));
    fmt::print("\n");
  }
}

Json rank_to_json(const Recording& recording) {
  Json row = {{"rank", recording.rank},
              {"ranks", recording.ranks},
              {"host", recording.host},
              {"pid", recording.pid},
              {"communicator", fmt::format("{:016x}", recording.communicator)},
              {"source", recording.source},
              {"error", recording.error}};
  if (const CallRecord* call = last_of(recording)) {
    row["last_call"] = {{"number", call->number},
                        {"text", describe(*call)},
                        {"state", name(call->state)},
                        {"since_ns", state_age_ns(recording, *call)}};
  }
  return row;
}

void print_json(const Gathered& gathered, const std::vector<Diagnosis>& diagnoses) {
  Json report = {{"diagnoses", Json::array()}, {"ranks", Json::array()}, {"skipped", Json::array()}};
  for (const Diagnosis& diagnosis : diagnoses) {
    report["diagnoses"].push_back({{"communicator", fmt::format("{:016x}", diagnosis.communicator)},
                                   {"finding", name(diagnosis.finding)},
                                   {"culprits", diagnosis.culprits},
                                   {"call", diagnosis.number},
                                   {"sentences", diagnosis.sentences}});
  }
  for (const Recording& recording : gathered.recordings) report["ranks"].push_back(rank_to_json(recording));
  for (const Skipped& skipped : gathered.skipped) report["skipped"].push_back(skipped.reason);
  fmt::print("{}\n", report.dump({.indent = 2, .strict = false}));
}

int exit_code_of(Finding finding) {
  switch (finding) {
    case Finding::Healthy: return 0;
    case Finding::Behind: return exit_code(ErrorCode::Timeout);
    case Finding::Mismatch: return exit_code(ErrorCode::Mismatch);
    case Finding::PeerLost: return exit_code(ErrorCode::PeerLost);
    case Finding::Failed:
    case Finding::Incomplete: return 1;
  }
  return 1;
}

int run_why(const Options& options) {
  const Gathered gathered = gather(options.sources);
  for (const Skipped& skipped : gathered.skipped)
    fmt::print(stderr, "wreath: warning: skipped {}\n", printable(skipped.reason));
  if (gathered.recordings.empty()) {
    fmt::print(stderr, "wreath: error: why: nothing to compare was found\n");
    return exit_code(ErrorCode::InvalidArgument);
  }
  const std::vector<Diagnosis> diagnoses = diagnose(gathered.recordings);
  options.json ? print_json(gathered, diagnoses) : print_text(gathered, diagnoses);
  for (const Diagnosis& diagnosis : diagnoses) {
    if (diagnosis.finding != Finding::Healthy) return exit_code_of(diagnosis.finding);
  }
  return 0;
}

}  // namespace

std::function<int()> add_why(const command_line::Command& command) {
  auto options = std::make_shared<Options>();
  command.footer(
      "Reads wreath-RANK.json files, which every rank writes when its communicator fails, or the recorders of living\n"
      "processes, and says who is behind, in which call, and what differs. A rank of a running job is behind when\n"
      "another has waited 100 ms for it.\n"
      "Exit code: 0 healthy, 3 a peer was lost, 4 a rank is behind, 5 ranks disagree, 1 other failures or ranks\n"
      "without a recording, 2 nothing to read.");
  command.add_option("SOURCE", options->sources, "folders with wreath-*.json, such files, or process ids").required();
  command.add_flag("--json", options->json, "print the findings as JSON");
  return [options] { return run_why(*options); };
}

}  // namespace wreath
