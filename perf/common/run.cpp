// Runs a tool from the command line to the exit code: finds the ranks, starts their threads, and writes the files.
#include "perf/common/run.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>

#include "perf/common/baseline.hpp"
#include "perf/common/host_memory.hpp"
#include "perf/common/launch.hpp"
#include "perf/common/peer.hpp"
#include "perf/common/tool.hpp"
#include "src/base/config.hpp"
#include "src/base/text_file.hpp"
#include "src/command_line/program.hpp"
#include "src/command_line/threads.hpp"
#include "wreath/environment.hpp"

namespace wreath::perf {
namespace {

int stop(const Stop& what) {
  if (what.exit_code == 0) fmt::print("{}", what.text);
  if (what.exit_code != 0) command_line::complain_of_usage(what.text);
  return what.exit_code;
}

// Returns whether a launcher started this process. A job with half of its variables counts, too: the creation of the
// communicator then names the missing ones.
bool under_launcher() {
  const auto job = environment_job();
  return !job || job->launched;
}

// Returns whether this process holds rank 0, before any connection. This process alone checks and writes files.
bool is_first_process(const Options& options) {
  // The process that started this one has checked the files.
  if (options.start_descriptor >= 0) return false;
  const auto job = environment_job();
  return !job || job->rank == 0;
}

// Refuses a start by MPI's launcher: each process would measure a job of its own beside the others.
Status check_met(const Options& options) {
  const auto job = environment_job();
  if (options.start_descriptor >= 0 || !job || job->strangers.empty()) return {};
  return Error{ErrorCode::InvalidArgument,
               job->strangers + ": start this tool by `wreath run`, or once with --ranks N or -t N"};
}

// Creates rank `first + i` of all ranks for each thread i. All of them meet through the id.
Result<std::vector<Communicator>> create_threads(const Place& place, const Options& options) {
  const int threads = options.threads;
  std::vector<Result<Communicator>> made;
  for (int i = 0; i < threads; ++i) made.emplace_back(Error{ErrorCode::StartupFailed, "not started"});
  WREATH_TRY(command_line::run_threads(threads, [&](int i) -> Status {
    const int rank = place.process * threads + i;
    CommunicatorOptions own = options.communicator;
    own.device = device_names(options.memory, rank);
    made[static_cast<std::size_t>(i)] = Communicator::create(place.id, rank, place.processes * threads, own);
    return {};
  }));
  std::vector<Communicator> communicators;
  for (auto& each : made) {
    if (!each) return each.error();
    communicators.push_back(*std::move(each));
  }
  return communicators;
}

// Returns the number of ranks that there will be; 0: unknown.
int expected_ranks(const Options& options) {
  if (options.ranks > 0) return options.ranks * options.threads;
  const auto job = environment_job();
  if (!job) return 0;
  return job->launched ? job->ranks : options.threads;
}

// The ranks of this process, one for each thread, and the limits where rank 0 is among them. The limits are measured
// before the ranks meet, so that no rank spins meanwhile.
struct Team {
  std::vector<Communicator> communicators;
  Limits limits;
};

Result<Team> connect(const CollectiveRow& row, const Options& options) {
  Team team;
  const auto adopt = [&](Result<std::vector<Communicator>> made) -> Result<Team> {
    if (!made) return made.error();
    team.communicators = *std::move(made);
    return std::move(team);
  };
  if (options.start_descriptor >= 0) {
    const auto place = read_place(options.start_descriptor);
    if (!place) return place.error();
    if (place->process == 0) team.limits = measure_limits(row, options, place->processes * options.threads);
    return adopt(create_threads(*place, options));
  }
  if (!under_launcher()) {
    team.limits = measure_limits(row, options, options.threads);
    CommunicatorOptions own = options.communicator;
    own.device = device_names(options.memory, -1);
    return adopt(Communicator::create_local(options.threads, own));
  }
  if (options.threads > 1) {
    return Error{ErrorCode::InvalidArgument,
                 fmt::format("-t {}: a launcher started this process; let it start more processes, or use --ranks "
                             "without a launcher",
                             options.threads)};
  }
  if (is_first_process(options)) team.limits = measure_limits(row, options, std::max(1, expected_ranks(options)));
  CommunicatorOptions own = options.communicator;
  if (const auto job = environment_job(); job) own.device = device_names(options.memory, job->rank);
  auto one = Communicator::create_from_environment(own);
  if (!one) return one.error();
  team.communicators.push_back(*std::move(one));
  return team;
}

// Writes the text of `text` where a file was requested. Returns the exit code.
int write_file(const char* flag, const std::string& path, const std::function<std::string()>& text) {
  if (path.empty()) return 0;
  const Status written = write_output(path, text());
  if (written) return 0;
  fmt::print(stderr, "wreath: error: {}: {}\n", flag, written.error().message);
  return exit_code(written.error().code);
}

// The kept results for a run. They are read again at the end, since the run takes its time.
struct KeptFiles {
  std::optional<Kept> beside;
  std::optional<Kept> baseline;
};

Result<KeptFiles> read_kept_files(const Options& options) {
  KeptFiles files;
  const auto read = [](const char* flag, const std::string& path, std::optional<Kept>& target) -> Status {
    if (path.empty()) return {};
    auto kept = read_kept(flag, path);
    if (!kept) return kept.error();
    target = *std::move(kept);
    return {};
  };
  WREATH_TRY(read("--beside", options.beside_file, files.beside));
  WREATH_TRY(read("--baseline", options.baseline_file, files.baseline));
  return files;
}

std::string json_of(const Report& report) {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
  return to_json(report, environment);
}

int write_files(const Report& report, const Kept* beside) {
  const Options& o = report.options;
  const int json = write_file("--json", o.json_file, [&] { return json_of(report); });
  const int csv = write_file("--csv", o.csv_file, [&] { return to_csv(report); });
  const int html = write_file("--html", o.html_file, [&] { return to_html(report, beside); });
  return std::max({json, csv, html});
}

using command_line::fail;

// Returns whether --json is also written behind rows, once a second at most, so that a run that is ended early leaves
// them. A file that is there already is kept until the run is over.
bool keeps_rows(const Options& options) {
  std::error_code none;
  const auto kind = std::filesystem::status(options.json_file, none).type();
  return !options.json_file.empty() && kind == std::filesystem::file_type::not_found;
}

// Judges the run, and then writes its files, since a baseline may be the file to write. Returns the exit code.
int finish(const Report& report) {
  const auto files = read_kept_files(report.options);
  if (!files) {
    static_cast<void>(write_files(report, nullptr));
    return fail(files.error());
  }
  const Kept* const baseline = files->baseline ? &*files->baseline : nullptr;
  const int written = write_files(report, files->beside ? &*files->beside : baseline);
  if (baseline == nullptr) return written;
  const Status able = check_baseline(*baseline, setup_of(report));
  if (!able) return fail(able.error());
  const Judgement judgement = judge_rows(report, *baseline);
  fmt::print("{}", judgement.table);
  std::fflush(stdout);
  if (judgement.compared == 0) {
    return fail(
        {ErrorCode::InvalidArgument,
         fmt::format("--baseline {}: it has none of this run's sizes, dtypes, operators and roots", baseline->path)});
  }
  if (judgement.slower.empty()) return written;
  fmt::print(stderr, "wreath: error: {}: slower than --baseline {} at {}\n", report.collective->program, baseline->path,
             fmt::join(judgement.slower, ", "));
  return 1;
}

// The exit code of this process's ranks. It is the code of the first error, but an error that does not follow from
// another rank's error has precedence.
class Outcome {
 public:
  void report(const Error& error) {
    const std::scoped_lock lock(mutex_);
    command_line::complain(error.message);
    if (code_ == 0 || echo_) code_ = exit_code(error.code);
    echo_ = error.code == ErrorCode::Aborted;
  }
  void report(int code) {
    const std::scoped_lock lock(mutex_);
    if (code_ == 0) code_ = code;
  }
  int code() const { return code_; }

 private:
  std::mutex mutex_;
  int code_ = 0;
  bool echo_ = false;
};

// Measures as one rank. Rank 0 writes the files.
Status run_member(Member& member, const CollectiveRow& row, const Options& options, const Surroundings& surroundings,
                  Outcome& outcome) {
  Display display = stream_display(stdout, stderr);
  if (keeps_rows(options)) {
    display.keep = [last = std::chrono::steady_clock::time_point{}](const Report& so_far) mutable {
      if (std::chrono::steady_clock::now() - last < std::chrono::seconds(1)) return;
      static_cast<void>(write_output(so_far.options.json_file, json_of(so_far)));
      last = std::chrono::steady_clock::now();
    };
  }
  const auto report = run_rank(member, row, options, surroundings, display);
  if (!report) {
    outcome.report(report.error());
    return report.error();
  }
  if (!report->okay()) outcome.report(1);
  if (member.rank() == 0) outcome.report(finish(*report));
  return {};
}

void run_thread(Communicator& communicator, const Limits& limits, const CollectiveRow& row, const Options& options,
                Outcome& outcome) {
  CommunicatorMember member(communicator);
  std::vector<std::string> links;
  for (Rank peer = 1; member.rank() == 0 && peer < member.ranks(); ++peer)
    links.push_back(communicator.transport_to(peer));
  Surroundings surroundings{transport_words(links), limits};
  if (!options.peer.empty()) {
    surroundings.peer = [&](Stream* stream) { return make_peer(communicator, options, stream); };
  }
  const Status status = run_member(member, row, options, surroundings, outcome);
  if (!status) (void)communicator.abort();
}

int run_ranks(const CollectiveRow& row, const Options& options) {
  auto team = connect(row, options);
  if (!team) return fail(team.error());
  Outcome outcome;
  std::vector<Communicator>& all = team->communicators;
  const Status ran = command_line::run_threads(static_cast<int>(all.size()), [&](int i) -> Status {
    Communicator& own = all[static_cast<std::size_t>(i)];
    const Status thrown =
        command_line::guarded([&] { return run_thread(own, team->limits, row, options, outcome), Status(); });
    if (!thrown) (void)own.abort();
    return thrown;
  });
  return ran ? outcome.code() : fail(ran.error());
}

}  // namespace

std::string transport_words(const std::vector<std::string>& links) {
  std::vector<std::string> kinds;
  std::vector<std::string> firsts;
  for (std::size_t i = 0; i < links.size(); ++i) {
    const std::string kind = links[i].substr(0, links[i].find_first_of(" ,"));
    if (std::find(kinds.begin(), kinds.end(), kind) != kinds.end()) continue;
    kinds.push_back(kind);
    firsts.push_back(fmt::format("{} to rank {}", links[i], i + 1));
  }
  if (kinds.empty()) return "self";
  return kinds.size() == 1 ? links.front() : fmt::format("{} ({})", fmt::join(kinds, "+"), fmt::join(firsts, "; "));
}

Display stream_display(std::FILE* out, std::FILE* errors) {
  const char* const no_color = std::getenv("NO_COLOR");
  const bool terminal = isatty(fileno(errors)) != 0 && (no_color == nullptr || *no_color == '\0');
  return {[out](const std::string& text) {
            std::fputs(text.c_str(), out);
            std::fflush(out);
          },
          [terminal, errors](const std::string& text) {
            if (!terminal) return;
            fmt::print(errors, "\r\033[K{}", text);
            std::fflush(errors);
          }};
}

Status check_kept_files(const CollectiveRow& row, const Options& options, int ranks) {
  const auto files = read_kept_files(options);
  if (!files) return files.error();
  const Setup now = setup_of(row, options, ranks);
  if (files->beside && !files->beside->setup.program.empty() && files->beside->setup.program != now.program) {
    return Error{ErrorCode::InvalidArgument, fmt::format("--beside {}: it is of {}, not of {}", options.beside_file,
                                                         files->beside->setup.program, now.program)};
  }
  return files->baseline ? check_baseline(*files->baseline, now) : Status{};
}

int run_peer(Member& member, std::string_view transport, const std::vector<std::string>& command) {
  const auto known = [&](const CollectiveRow& row) { return row.program == command.front(); };
  if (std::none_of(collectives().begin(), collectives().end(), known)) {
    return stop({2, fmt::format("{}: give a perf tool's name first, and its flags after it", command.front())});
  }
  const CollectiveRow& row = row_of(command.front());
  std::vector<std::string> on_host = command;
  if (std::find(command.begin(), command.end(), "--memory") == command.end()) {
    on_host.insert(on_host.end(), {"--memory", "host"});
  }
  const auto parsed = parse_options(row, on_host);
  if (const Stop* what = std::get_if<Stop>(&parsed)) return stop(*what);
  const Options& options = std::get<Options>(parsed);
  if (streams(options.memory)) return stop({2, "--memory: only host and shared in a comparison"});
  Outcome outcome;
  (void)run_member(member, row, options, {std::string(transport), {}}, outcome);
  return outcome.code();
}

namespace {

// Checks the memory before any buffer is made, even a buffer of --limits. A launcher may have started ranks on other
// hosts: one rank is then counted here, and all of them when they have met.
Status check_memory_here(const CollectiveRow& row, const Options& options) {
  const int ranks = std::max(1, expected_ranks(options));
  const Extent extent = extent_of(cases_of(row, options, ranks));
  return check_host_memory(need_of(options, extent), this_host(under_launcher() ? 1 : ranks));
}

int run_command(const CollectiveRow& row, const std::vector<std::string>& command) {
  const auto parsed = parse_options(row, command);
  if (const Stop* what = std::get_if<Stop>(&parsed)) return stop(*what);
  const Options& options = std::get<Options>(parsed);
  if (options.ranks > 0 && options.start_descriptor < 0 && under_launcher()) {
    return stop({2, fmt::format("--ranks {}: a launcher started this process; drop --ranks, or unset the launcher's "
                                "variables",
                                options.ranks)});
  }
  if (!options.adapters.empty()) ::setenv(wreath::row(Setting::Hca).name.data(), options.adapters.c_str(), 1);
  if (const Status met = check_met(options); !met) return stop({exit_code(met.error().code), met.error().message});
  const auto able = check_group(row, options, expected_ranks(options));
  if (!able && options.start_descriptor < 0) {
    return stop({exit_code(able.error().code), able.error().message});
  }
  if (const auto device = device_of(options.memory, 0); !device) return fail(device.error());
  if (const Status found = find_peer(options); !found) return fail(found.error());
  if (is_first_process(options)) {
    const auto files = check_output_files(options);
    if (const Stop* what = std::get_if<Stop>(&files)) return stop(*what);
    const Status kept = check_kept_files(row, options, expected_ranks(options));
    if (!kept) return fail(kept.error());
    if (const Status room = check_memory_here(row, options); !room) return fail(room.error());
  }
  if (options.ranks > 0 && options.start_descriptor < 0) return launch(options.ranks, options.threads, command);
  return run_ranks(row, options);
}

}  // namespace

int run_tool(std::string_view program, int argc, char** argv) {
  set_cuda_environment();
  return command_line::run_main(
      [&] { return run_command(row_of(program), std::vector<std::string>(argv, argv + argc)); });
}

}  // namespace wreath::perf
