// gpu_check: everything of this project that needs a GPU, in parts of at most three minutes, with one JSON and a
// readable summary. `./run gpu-check` builds what it runs, or takes a folder of `./run offline-bundle`.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "perf/base/flags.hpp"
#include "perf/base/machine.hpp"
#include "perf/compare/processes.hpp"
#include "perf/gpu_check/find.hpp"
#include "perf/gpu_check/parts.hpp"
#include "perf/gpu_check/report.hpp"
#include "src/base/text_file.hpp"
#include "src/command_line/numbers.hpp"
#include "src/command_line/program.hpp"
#include "wreath/device.hpp"
#include "wreath/topology.hpp"

namespace wreath::perf {
namespace {

constexpr int kNotHere = 77;
constexpr std::size_t kShownLines = 20;

// Of what runs. CUDA's: a queue of the hardware for each stream of many ranks, so that no kernel waits behind one that
// waits for it, and kernels that are loaded before any runs.
const std::vector<std::string> kVariables{"WREATH_TUNING=none", "CUDA_DEVICE_MAX_CONNECTIONS=32",
                                          "CUDA_MODULE_LOADING=EAGER"};

struct Options {
  std::vector<std::string> parts;
  std::string programs;
  std::string json = "gpu-check.json";
  std::string logs;
  std::string sanitizer;
  std::string nccl;
  int limit_s = 180;
  bool list = false;
};

// The programs' output while the parts run, in a folder that goes with this unless it was named.
class Logs {
 public:
  explicit Logs(const std::string& named) : path_(named) {
    if (!named.empty()) return;
    std::string name = (std::filesystem::temp_directory_path() / "gpu-check-XXXXXX").string();
    if (::mkdtemp(name.data()) != nullptr) made_ = path_ = name;
  }
  Logs(const Logs&) = delete;
  Logs& operator=(const Logs&) = delete;
  ~Logs() {
    std::error_code ignored;
    if (!made_.empty()) std::filesystem::remove_all(made_, ignored);
  }
  std::string of(std::string_view part, const char* kind) const { return fmt::format("{}/{}.{}", path_, part, kind); }

 private:
  std::string path_;
  std::string made_;
};

// Readable once the program was asked to stop.
int stop_descriptor() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int each : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, each);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  return ::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string last_lines(const std::string& text) {
  std::size_t at = text.size();
  for (std::size_t lines = 0; at > 0 && lines <= kShownLines; --at) lines += text[at - 1] == '\n' ? 1U : 0U;
  return text.substr(at);
}

// What stands for a word of Part::arguments.
std::vector<std::string> words_for(const std::string& word, const Options& options) {
  if (word.empty()) return {};
  if (word == "{budget}") return {"--budget", std::to_string(std::max(1, options.limit_s * 5 / 6))};
  if (word != "{nccl}") return {word};
  return options.nccl.empty() ? std::vector<std::string>() : std::vector<std::string>{"--nccl", options.nccl};
}

// What the library warned of, each text once, whichever rank it was.
std::vector<std::string> warnings_in(const std::string& log) {
  constexpr std::size_t kMost = 8;
  std::vector<std::string> warnings;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line) && warnings.size() < kMost;) {
    if (!line.starts_with("wreath: warning: ")) continue;
    const std::size_t text = line.find(": ", line.find(", pid "));  // behind who says it
    const std::string warning = "warning: " + (text == std::string::npos ? line : line.substr(text + 2));
    if (std::find(warnings.begin(), warnings.end(), warning) == warnings.end()) warnings.push_back(warning);
  }
  return warnings;
}

std::vector<std::string> command_of(const Part& part, const Options& options, const Logs& logs) {
  std::vector<std::string> command;
  if (!part.sanitizer.empty()) {
    command = {options.sanitizer, "--tool", std::string(part.sanitizer), "--error-exitcode", "1"};
  }
  command.push_back(options.programs + "/" + std::string(part.program));
  for (const std::string& word : command_line::split(std::string(part.arguments), ' ')) {
    const auto words = words_for(word, options);
    command.insert(command.end(), words.begin(), words.end());
  }
  if (part.json) command.insert(command.end(), {"--json", logs.of(part.name, "json")});
  return command;
}

void judge(PartOutcome& outcome, const Result<End>& end, int limit_s) {
  if (!end) {
    outcome.result = PartResult::Failed;
    outcome.remark = end.error().message;
    return;
  }
  switch (end->how) {
    case End::How::Exited:
      outcome.result = end->value == 0          ? PartResult::Passed
                       : end->value == kNotHere ? PartResult::Skipped
                                                : PartResult::Failed;
      if (end->value != 0) outcome.remark = fmt::format("exit code {}", end->value);
      return;
    case End::How::Signalled: outcome.remark = fmt::format("ended by signal {}", end->value); break;
    case End::How::TimedOut: outcome.remark = fmt::format("not done within {} s", limit_s); break;
    case End::How::Interrupted:
      outcome.result = PartResult::NotRun;
      outcome.remark = "interrupted";
      return;
  }
  outcome.result = PartResult::Failed;
}

PartOutcome run_part(const Part& part, const Options& options, const Logs& logs, int stop) {
  PartOutcome outcome{std::string(part.name), std::string(part.sanitizer)};
  if (!part.sanitizer.empty() && options.sanitizer.empty()) {
    outcome.result = PartResult::Skipped;
    outcome.remark = "there is no compute-sanitizer here (--sanitizer names one)";
    return outcome;
  }
  const std::vector<std::string> command = command_of(part, options, logs);
  outcome.command = fmt::format("{}", fmt::join(command, " "));
  const std::string program = options.programs + "/" + std::string(part.program);
  if (::access(program.c_str(), X_OK) != 0) {
    outcome.remark = fmt::format("there is no program {}", program);
    return outcome;
  }
  const std::string log = logs.of(part.name, "log");
  const auto begin = std::chrono::steady_clock::now();
  const auto end = run_group({{command}, kVariables}, log, std::int64_t{1'000} * options.limit_s, stop);
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  judge(outcome, end, options.limit_s);
  const std::string printed = text_of(log);
  if (outcome.result != PartResult::Passed) outcome.output = last_lines(printed);
  outcome.warnings = warnings_in(printed);
  if (part.json) outcome.measured = text_of(logs.of(part.name, "json"));
  if (outcome.result == PartResult::Skipped) outcome.remark = reason_of(outcome);
  return outcome;
}

GpuMachine this_machine(const Options& options) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  GpuMachine machine{host.data(), now_text(), {}, options.sanitizer};
  for (const Gpu& gpu : read_topology().gpus) {
    if (!gpu.driver.empty()) machine.gpus.push_back(fmt::format("{} ({})", gpu.name, gpu.place.address));
  }
  return machine;
}

int fail(int code, const std::string& message) {
  fmt::print(stderr, "gpu_check: {}\n", message);
  return code;
}

// Why this machine has nothing to check; empty: it has.
std::string missing_gpu() {
  const auto devices = cuda_devices();
  if (!devices) return devices.error().message;
  if (*devices == 0) return "CUDA finds no device";
  const auto first = cuda_device(0);
  return first ? "" : first.error().message;
}

int run(Options options, int stop) {
  if (options.parts.empty()) {
    for (const Part& part : parts()) options.parts.emplace_back(part.name);
  }
  if (const std::string wrong = check_output_file(options.json); !wrong.empty()) return fail(2, "--json " + wrong);
  Status written;
  options.sanitizer = find_sanitizer(options.sanitizer);
  std::error_code refused;
  if (!options.logs.empty()) std::filesystem::create_directories(options.logs, refused);
  if (refused) return fail(2, fmt::format("--logs {}: {}", options.logs, refused.message()));
  const Logs logs(options.logs);
  const GpuMachine machine = this_machine(options);
  fmt::print("{}, {}: {}\n", machine.host, machine.date, fmt::join(machine.gpus, ", "));
  std::vector<PartOutcome> outcomes;
  bool stopped = false;
  for (const std::string& name : options.parts) {
    PartOutcome outcome{name, std::string(find_part(name)->sanitizer)};
    outcome.result = PartResult::NotRun;
    outcome.remark = "interrupted";
    if (!stopped) outcome = run_part(*find_part(name), options, logs, stop);
    stopped = stopped || outcome.result == PartResult::NotRun;
    fmt::print("{}{}", line_of(outcome), outcome.output);
    std::fflush(stdout);
    outcomes.push_back(std::move(outcome));
    written = write_output(options.json, json_of(machine, outcomes));  // after each, as this may be ended, too
  }
  fmt::print("{}{}: all of it\n", summary_of(machine, outcomes), options.json);
  if (!written) return fail(exit_code(written.error().code), "--json: " + written.error().message);
  return stopped ? 130 : exit_code_of(outcomes);
}

std::string own_folder() {
  std::error_code unknown;
  return std::filesystem::read_symlink("/proc/self/exe", unknown).parent_path().string();
}

int main_of(int argc, char** argv) {
  Options options;
  const command_line::Program app("Runs everything that needs a GPU, in parts, and writes one JSON and a summary.");
  app.add_option("--parts", options.parts, "these only, in this order: " + part_names())
      .delimiter(',')
      .type_name("PART,...")
      .check([](const std::string& name) {
        return find_part(name) != nullptr ? std::string() : fmt::format("'{}' is no part: {}", name, part_names());
      });
  app.add_option("--programs", options.programs, "the folder of the programs that it runs; its own").type_name("DIR");
  app.add_option("--json", options.json, "where the report goes").type_name("FILE").capture_default_str();
  app.add_option("--logs", options.logs, "a folder to keep what the programs printed").type_name("DIR");
  app.add_option("--sanitizer", options.sanitizer, "compute-sanitizer, where neither PATH nor CUDA's folders have it")
      .type_name("FILE");
  app.add_option("--nccl", options.nccl, "NCCL's libnccl.so.2, where it is in none of the usual places")
      .type_name("FILE");
  command_line::add_number(app, "--limit", options.limit_s, {1, 3'600}, "seconds that a part may take")
      .capture_default_str();
  app.add_flag("--list", options.list, "print the parts, and what they check, and end");
  app.footer(
      "A target that is not reached is shown and fails nothing.\n"
      "exit: 0 all passed, or were skipped as a tool is not here; 1 a part failed, and which is said; 2 usage;\n"
      "77 there is no GPU here, and why; 130 interrupted: what had run is in the report");
  if (const auto code = app.parse(argc, argv)) return *code;
  if (options.list) {
    for (const Part& part : parts()) fmt::print("{:<15} {}\n", part.name, part.about);
    return 0;
  }
  if (options.programs.empty()) options.programs = own_folder();
  const int stop = stop_descriptor();  // before CUDA's threads, which would take the signals
  if (const std::string missing = missing_gpu(); !missing.empty()) return fail(kNotHere, "no GPU here: " + missing);
  return run(std::move(options), stop);
}

}  // namespace
}  // namespace wreath::perf

int main(int argc, char** argv) {
  return wreath::command_line::run_main([&] { return wreath::perf::main_of(argc, argv); });
}
