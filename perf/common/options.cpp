// The command line, as tables of flags.
#include "perf/common/options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <charconv>
#include <functional>
#include <limits>

#include "perf/base/flags.hpp"
#include "perf/base/kernels.hpp"
#include "perf/common/limit.hpp"
#include "perf/common/peer.hpp"
#include "src/base/config.hpp"
#include "src/command_line/numbers.hpp"
#include "src/command_line/program.hpp"
#include "wreath/algorithm.hpp"
#include "wreath/types.hpp"

namespace wreath::perf {
namespace {

using command_line::add_number;
using command_line::first_name;

constexpr std::string_view kExamples = R"(examples:
  {0} --ranks 4 -b 8 -e 64M -f 2            four processes of this host, 8 bytes to 64 MiB, doubling
  {0} -t 4 -b 1M -e 16M -i 1M -d all        four threads, every dtype, plus 1 MiB each
  {0} --ranks 2 --transport tcp             the same over TCP
  {0} -t 8 --memory device -G 10            eight threads that share the GPUs, in graphs
  {0} --ranks 4 -b 8 -e 1G -f 4 --html a.html --json a.json    a page with plots, and the numbers
  {0} --ranks 4 --time 20 --repeats 9 --json kept.json         a result to keep, with intervals
  {0} --ranks 4 --time 20 --baseline kept.json                 exit 1 where it is slower now
  wreath run -n 4 --hosts a,b {0} -b 1M -e 1M                  ranks of a launcher: wreath run, torchrun, srun

Sizes take K, M, G, T (binary). Bandwidths are in 1e9 bytes per second. `busbw` = algbw x {1}.
#wrong is about all elements of the calls before the timed ones (-c) and of the last timed call of each half, and one
byte of each other (in streams none), spoiled before it; in place, where calls combine, about all after 16 calls at most.
Another wrong element of a timed call is not seen; -c N checks N calls whole, outside the clock.
exit: 0 ok, 1 wrong data or slower than --baseline, 2 usage, 3 peer lost, 4 timeout, 5 mismatch, 6 start-up failed, 77 not available)";

// A flag that accepts one value here, and the reason.
struct FixedFlag {
  std::string_view flags;
  std::string_view accepted;  // empty: none
  std::string_view reason;
};
constexpr std::array kFixedFlags{
    FixedFlag{"-m,--agg_iters", "1", "there are no group calls to aggregate"},
    FixedFlag{"-p,--parallel_init", "0", "ranks always start concurrently"},
    FixedFlag{"-z,--blocking", "0", "calls on host memory block already, those in streams are timed by events"},
    FixedFlag{"-y,--stream_null", "0", "each rank has a stream of its own"},
    FixedFlag{"-C,--report_cputime", "0",
              "on the host the time shown is the CPU's already; in streams it is the device's"},
    FixedFlag{"-R,--local_register", "0", "use --memory shared for memory that peers map"},
    FixedFlag{"-x,--cta_policy", "", "NCCL's policies are not this library's; --lanes says how many blocks a call has"},
    FixedFlag{"-D,--device_implementation", "0", "there is no device API"},
    FixedFlag{"-V,--device_cta_count", "", "it belongs to -D, which is 0; --lanes says how many blocks a call has"},
    FixedFlag{"-M,--memory_report", "0", "memory use is not reported yet"},
};

constexpr FixedFlag kNoRoot{"-r,--root", "0", "this collective has no root"};
constexpr FixedFlag kNoOperator{"-o,--op", "sum", "this collective combines nothing"};
constexpr FixedFlag kNoDtype{"-d,--datatype", "float", "a barrier moves no data"};
constexpr std::array kNoSizes{
    FixedFlag{"-b,--minbytes", "0", "a barrier moves no data"},
    FixedFlag{"-e,--maxbytes", "0", "a barrier moves no data"},
    FixedFlag{"-i,--stepbytes", "0", "a barrier moves no data"},
    FixedFlag{"-f,--stepfactor", "1", "a barrier moves no data"},
};

[[noreturn]] void refuse(std::string_view flag, std::string_view value, std::string_view reason) {
  throw command_line::UsageError(fmt::format("{} {}: {}", flag, value, reason));
}

double parse_positive(std::string_view flag, const std::string& text, std::string_view unit, double most) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || !(number > 0) || number > most) {
    refuse(flag, text, fmt::format("not a number of {} above 0", unit));
  }
  return number;
}

// Adds a flag whose text goes to `accept`, which refuses a text that it does not understand.
void add(const command_line::Command& app, const std::string& flags, const std::string& help, const std::string& type,
         const std::function<void(const std::string&)>& accept) {
  app.add_text(flags, accept, help).type_name(type);
}

void add_size(const command_line::Command& app, const std::string& flags, const std::string& help,
              std::size_t& target) {
  add(app, flags, help, "SIZE", [&target, flags](const std::string& text) {
    const auto size = parse_size(text);
    if (!size) refuse(first_name(flags), text, "not a size; a size is a number and K, M, G or T, such as 64K");
    target = *size;
  });
}

void add_size_list(const command_line::Command& app, SizeRange& sizes) {
  add(app, "--sizes", "these sizes instead of a range", "SIZE,...", [&sizes](const std::string& text) {
    for (const std::string& each : command_line::split(text, ',')) {
      const auto size = parse_size(each);
      if (!size) refuse("--sizes", text, fmt::format("'{}' is not a size", each));
      sizes.list.push_back(*size);
    }
  });
}

void add_switch(const command_line::Command& app, const std::string& flags, const std::string& help, bool& target) {
  add(app, flags, help, "0|1", [&target, flags](const std::string& text) {
    if (text != "0" && text != "1") refuse(first_name(flags), text, "give 0 or 1");
    target = text == "1";
  });
}

// Adds a choice between two words. `target` becomes true for the second one.
void add_choice(const command_line::Command& app, const std::string& flag, const std::string& help,
                std::array<std::string, 2> words, bool& target) {
  add(app, flag, help, words[0] + "|" + words[1], [&target, flag, words](const std::string& text) {
    if (text != words[0] && text != words[1]) refuse(flag, text, fmt::format("give {} or {}", words[0], words[1]));
    target = text == words[1];
  });
}

// Adds a flag for rows of a table by their names, or for "all".
template <typename T>
void add_rows(const command_line::Command& app, const std::string& flags, const std::string& help,
              std::span<const T> all, std::optional<T> (*parse)(std::string_view) noexcept, std::vector<T>& target) {
  add(app, flags, help, "NAME,...|all", [=, &target](const std::string& text) {
    target.clear();
    if (text == "all") target.assign(all.begin(), all.end());
    for (const std::string& each : text == "all" ? std::vector<std::string>() : command_line::split(text, ',')) {
      const auto row = parse(each);
      if (!row) {
        std::vector<std::string_view> known;
        for (const T one : all) known.push_back(name(one));
        refuse(first_name(flags), each, fmt::format("unknown; known are {}, all", fmt::join(known, ", ")));
      }
      target.push_back(*row);
    }
  });
}

void add_fixed(const command_line::Command& app, const FixedFlag& fixed) {
  const std::string help = fixed.accepted.empty() ? fmt::format("refused: {}", fixed.reason)
                                                  : fmt::format("{} only: {}", fixed.accepted, fixed.reason);
  add(app, std::string(fixed.flags), help, "N", [fixed](const std::string& text) {
    if (text != fixed.accepted) refuse(first_name(fixed.flags), text, fixed.reason);
  });
}

void add_root(const command_line::Command& app, Options& o) {
  add(app, "-r,--root", "root (0); -1 or all: every rank in turn", "RANK|all", [&o](const std::string& text) {
    o.all_roots = text == "all" || text == "-1";
    if (o.all_roots) return;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), o.root);
    if (error != std::errc{} || end != text.data() + text.size() || o.root < 0) {
      refuse("-r", text, "neither a rank nor all");
    }
  });
}

// Adds the flags of the cases: sizes, dtypes, operators, roots.
void add_case_flags(const command_line::Command& app, const CollectiveRow& row, Options& o) {
  if (row.has(kNoData)) {
    for (const FixedFlag& fixed : kNoSizes) add_fixed(app, fixed);
    add_fixed(app, kNoDtype);
    add_fixed(app, kNoOperator);
    add_fixed(app, kNoRoot);
    return;
  }
  add_size(app, "-b,--minbytes", "smallest size (32M)", o.sizes.minimum);
  add_size(app, "-e,--maxbytes", "largest size (32M)", o.sizes.maximum);
  add_size(app, "-i,--stepbytes", "added from size to size (1M)", o.sizes.step);
  add_number(app, "-f,--stepfactor", o.sizes.factor, {2, std::size_t{1} << 30},
             "multiplies from size to size, instead of -i");
  add_rows(app, "-d,--datatype", "dtype (float)", all_dtypes(), parse_dtype, o.dtypes);
  if (row.combines()) {
    add_rows(app, "-o,--op", "reduction (sum)", all_ops(), parse_op, o.ops);
  } else {
    add_fixed(app, kNoOperator);
  }
  if (row.rooted()) {
    add_root(app, o);
  } else {
    add_fixed(app, kNoRoot);
  }
}

void add_nccl_flags(const command_line::Command& app, const CollectiveRow& row, Options& o, int& average,
                    double& timeout_s) {
  app.begin_group("nccl-tests' flags");
  add_number(app, "-t,--nthreads", o.threads, {1, kMaximumRanks}, "ranks as threads of a process (1)");
  add_number(app, "-g,--ngpus", o.devices, {1, 64},
             "devices, and so ranks, of each of these threads; CUDA's in turn (1)");
  add_case_flags(app, row, o);
  add_number(app, "-n,--iters", o.iterations, {1}, "timed calls of each size (20)");
  add_number(app, "-w,--warmup_iters", o.warmup, {0}, "calls before, for each size (1)");
  add_number(app, "-N,--run_cycles", o.cycles, {0}, "runs of all sizes (1); 0: until interrupted");
  add_number(app, "-c,--check", o.check, {0}, "fully checked calls before the timed ones (1); 0: nothing is checked");
  add_number(app, "-a,--average", average, {0, 3},
             "time of 0 rank 0, 1 the mean, 2 the fastest, 3 the slowest rank (1)");
  add(app, "-T,--timeout", "seconds until a rank that is late or stuck is an error", "SECONDS",
      [&timeout_s](const std::string& text) { timeout_s = parse_positive("-T", text, "seconds", 1e6); });
  add_switch(app, "-S,--report_timestamps", "a time at the end of each line (0)", o.timestamps);
  add_switch(app, "-I,--per_iter_timing", "times each call: minimum, maximum, 99th percentile, variation (0)",
             o.per_iteration);
  add_number(app, "-K,--per_iter_skip", o.per_iteration_skip, {0}, "first calls left out of -I's columns (0)");
  add_number(app, "-u,--unalign", o.unalign, {0, 1 << 20}, "index of the first element: misaligns buffers (0)");
  add_number(app, "-G,--cudagraph", o.graph_launches, {0},
             "captures the timed calls of each half in a graph, and launches it so often, behind once untimed (0)");
  for (const FixedFlag& fixed : kFixedFlags) add_fixed(app, fixed);
}

void add_memory(const command_line::Command& app, Options& o) {
  const std::string help =
      "host: ordinary memory; shared: memory that peers map; device: of a GPU, and pinned: the host's that a GPU "
      "reaches, both in streams; host-device: as device, of the device made of host threads (device where there is a "
      "GPU, but host with -I, --rewrite and --limits; else host)";
  add(app, "--memory", help, "PLACE", [&o](const std::string& text) {
    const auto place = parse_memory_place(text);
    if (!place) refuse("--memory", text, "give host, shared, device, pinned or host-device");
    o.memory = *place;
  });
}

std::string limits_help(const CollectiveRow& row) {
  // A temporary object makes GCC 12 warn, since it takes that object for uninitialized.
  const Options defaults;
  const std::string_view none = why_no_limit(row, defaults);
  return none.empty() ? "measures the machine's limit and prints it beside each size"
                      : fmt::format("refused: {}", none);
}

void add_output_flags(const command_line::Command& app, const CollectiveRow& row, Options& o) {
  app.begin_group("results");
  const auto file = [&](const std::string& flags, const std::string& help, std::string& target) {
    add(app, flags, help, "FILE", [&target](const std::string& text) { target = text; });
  };
  file("-J,--json,--output_file", "numbers, with nccl-tests' keys", o.json_file);
  file("--csv", "one line per size", o.csv_file);
  file("--html", "a page with plots; no other file needed", o.html_file);
  file("--beside", "another run's --json, drawn into --html", o.beside_file);
  add_number(app, "--repeats", o.repeats, {1, 1000},
             "runs all sizes in turn so often; shows medians and 90% intervals (1)");
  file("--baseline", "another run's --json with intervals: exit 1 where this one is slower; --repeats is 9",
       o.baseline_file);
  add(app, "--tolerance", "how far beyond the baseline's interval is slower (5)", "PERCENT",
      [&o](const std::string& text) { o.tolerance_percent = parse_positive("--tolerance", text, "percent", 1000); });
  app.add_flag("--limits", o.limits, limits_help(row));
  app.add_flag(
      "--counters", o.counters,
      "what wires did in the timed calls, for each MiB of messages: system calls; puts, doorbells, completions, "
      "registrations, bytes copied, bytes that landed in buffers (over shared memory nothing is counted)");
  const std::string peers =
      "measures something else in turns, out of place: handwritten (the yardstick's loops); of all_reduces in streams "
      "also copies (of rank 0's device) and nccl (of the usual places, or FILE)";
  add(app, "--peer", peers, "NAME[=FILE]", [&o](const std::string& text) {
    o.peer = text.substr(0, text.find('='));
    if (o.peer.size() < text.size()) o.peer_file = text.substr(o.peer.size() + 1);
  });
}

std::vector<std::string> algorithms_of(Collective collective) {
  std::vector<std::string> names;
  for (const Algorithm& each : algorithms()) {
    if (each.collective == collective) names.emplace_back(each.name);
  }
  if (names.empty()) names.emplace_back("none: nothing is left to choose");
  return names;
}

void add_our_flags(const command_line::Command& app, const CollectiveRow& row, Options& o) {
  app.begin_group("ranks, transport, algorithm, buffers");
  add_number(app, "--ranks", o.ranks, {1, kMaximumRanks}, "starts this many processes on this host");
  add(app, "--transport", "allowed transports", "a,b", [&o](const std::string& text) {
    for (const std::string& each : command_line::split(text, ',')) {
      if (const std::string wrong = check_transport(each); !wrong.empty()) refuse("--transport", text, wrong);
      o.communicator.transports.push_back(each);
    }
  });
  add(app, "--hca", fmt::format("in place of WREATH_HCA: {}", wreath::row(Setting::Hca).meaning), "NAMES",
      [&o](const std::string& text) { o.adapters = text; });
  add(app, "--algorithm", "by its name in the registry", "NAME", [&o, &row](const std::string& text) {
    if (find_algorithm(row.collective, text) == nullptr) {
      refuse("--algorithm", text, fmt::format("unknown; known are {}", fmt::join(algorithms_of(row.collective), ", ")));
    }
    o.communicator.overrides.algorithm = text;
  });
  add(app, "--executor", "handwritten: the yardstick's loops, for the algorithms that have one", "steps|handwritten",
      [&o](const std::string& text) {
        if (text != "steps" && text != "handwritten") {
          refuse("--executor", text, "give steps or handwritten");
        }
        o.communicator.overrides.executor = text;
      });
  add_number(app, "--lanes", o.communicator.overrides.lanes, {1, 15}, "data lanes");
  add_size(app, "--tile", "bytes of a tile", o.communicator.overrides.tile_bytes);
  add_choice(app, "--reproducible", "same inputs, same bits (on)", {"off", "on"}, o.communicator.reproducible);
  add_memory(app, o);
  if (!row.has(kNoData)) add_size_list(app, o.sizes);
  add(app, "--time", "as many timed calls of each size as take so long, instead of -n", "MILLISECONDS",
      [&o](const std::string& text) { o.time_ms = parse_positive("--time", text, "milliseconds", 1e6); });
  add_choice(app, "--place", "both: out of place and in place; out: the first alone, as with -G (both)",
             {"both", "out"}, o.only_out_of_place);
  add_size(app, "--offset", "misaligns buffers by this many bytes (0)", o.offset);
  app.add_flag("--rewrite", o.rewrite, "writes inputs anew before each timed call, outside the clock");
  app.add_flag(
      "--alternate", o.alternate,
      "other calls take turns with these: of one element less for each rank, and of the next root (--place out)");
  app.add_flag(
      "--no-pin", [&o] { o.pin = false; }, "leaves ranks on whatever core they are");
  add_number(app, "--start-descriptor", o.start_descriptor, {3, 1 << 20}, "").group("");
}

// The repeats of a judged run. Their interval leaves out the fastest and the slowest repeat.
constexpr int kJudgedRepeats = 9;

// Checks the rules between flags about kept results and repeats.
void check_repeats(const command_line::Command& app, Options& o) {
  const bool judged = !o.baseline_file.empty();
  if (judged && app.count("--repeats") == 0) o.repeats = kJudgedRepeats;
  if (judged && o.repeats < kRoundsOfAnInterval) {
    refuse("--repeats", std::to_string(o.repeats),
           fmt::format("--baseline needs {} or more for an interval", kRoundsOfAnInterval));
  }
  if (judged && o.baseline_file == o.json_file) {
    refuse("--baseline", o.baseline_file, "--json would write over it");
  }
  if (judged && o.cycles == 0) refuse("--baseline", o.baseline_file, "-N 0 never ends");
  if (!judged && app.count("--tolerance") > 0) {
    refuse("--tolerance", fmt::format("{:g}", o.tolerance_percent), "needs --baseline");
  }
  if (!o.beside_file.empty() && o.html_file.empty()) refuse("--beside", o.beside_file, "needs --html to be drawn in");
  if (o.repeats > 1 && o.per_iteration) refuse("--repeats", std::to_string(o.repeats), "not together with -I");
}

// Chooses the memory without --memory: the memory of a GPU where there is one and this build has kernels for it. Runs
// that measure only the host's memory are the exception.
void choose_memory(const command_line::Command& app, Options& o) {
  const bool on_host = o.per_iteration || o.rewrite || o.limits;
  if (app.count("--memory") == 0 && !on_host && has_gpu_kernels() && has_gpu()) o.memory = MemoryPlace::Device;
}

// Checks the rules between flags about devices.
void check_streams(Options& o) {
  const std::string place(name(o.memory));
  if (streams(o.memory) && o.per_iteration) {
    refuse("--memory", place, "not together with -I: calls in a stream are timed together");
  }
  if (o.devices > 1 && !streams(o.memory))
    refuse("-g", std::to_string(o.devices),
           "needs --memory device, pinned or host-device; ranks without a GPU: --ranks N, or -t N for threads");
  if (o.graph_launches > 0 && !streams(o.memory)) {
    refuse("-G", std::to_string(o.graph_launches),
           "needs --memory device, pinned or host-device: graphs are of streams");
  }
  if (o.graph_launches > 0 && o.rewrite) refuse("-G", std::to_string(o.graph_launches), "not together with --rewrite");
  if (o.alternate && (!o.only_out_of_place || o.graph_launches > 0)) {
    refuse("--alternate", "", "needs --place out, and no graphs");
  }
  // Calls in place are left out with graphs, since each launch would work on the result of the launch before.
  o.only_out_of_place = o.only_out_of_place || o.graph_launches > 0;
  o.threads *= o.devices;
}

// Checks the rules between flags.
void check_together(const command_line::Command& app, const CollectiveRow& row, Options& o) {
  const auto given = [&](const char* flag) { return app.count(flag) > 0; };
  const auto shown = [&](const char* flag, std::size_t size) {
    return format_bytes(size) + (given(flag) ? "" : " (the default)");
  };
  if (o.sizes.minimum > o.sizes.maximum) {
    refuse("-b", shown("-b", o.sizes.minimum), fmt::format("larger than -e {}", shown("-e", o.sizes.maximum)));
  }
  if (o.sizes.step == 0 && o.sizes.factor == 1 && o.sizes.minimum < o.sizes.maximum) {
    refuse("-i", "0", "the size would never grow");
  }
  for (const char* range : {"-b", "-e", "-i", "-f"}) {
    if (!o.sizes.list.empty() && given(range))
      refuse("--sizes", format_bytes(o.sizes.list.front()), fmt::format("not together with {}", range));
  }
  if (!o.sizes.list.empty()) {
    const auto [least, most] = std::minmax_element(o.sizes.list.begin(), o.sizes.list.end());
    o.sizes.minimum = *least;
    o.sizes.maximum = *most;
  }
  if (o.time_ms > 0 && given("-n")) refuse("--time", fmt::format("{}", o.time_ms), "not together with -n");
  if (o.time_ms > 0 && o.per_iteration) refuse("--time", fmt::format("{}", o.time_ms), "not together with -I");
  if (given("-i") && given("-f")) refuse("-i", format_bytes(o.sizes.step), "not together with -f");
  if (given("-K") && !o.per_iteration) refuse("-K", std::to_string(o.per_iteration_skip), "needs -I 1");
  if (o.per_iteration && o.per_iteration_skip >= o.iterations) {
    refuse("-K", std::to_string(o.per_iteration_skip), fmt::format("leaves none of -n {} calls", o.iterations));
  }
  check_repeats(app, o);
  choose_memory(app, o);
  check_streams(o);
  if (const std::string none = why_no_peer(row, o); !none.empty()) refuse("--peer", o.peer, none);
  if (const std::string_view none = why_no_limit(row, o); o.limits && !none.empty()) {
    throw command_line::UsageError(fmt::format("--limits: {}", none));
  }
}

}  // namespace

std::variant<Options, Stop> parse_options(const CollectiveRow& row, const std::vector<std::string>& command) {
  Options options;
  int average = static_cast<int>(options.average);
  double timeout_s = 0;
  const command_line::Program app(
      fmt::format("Measures {}: time and bandwidth by size, as nccl-tests does.", row.title()),
      std::string(row.program));
  app.column_width(34);
  app.footer(fmt::format(fmt::runtime(kExamples), row.program, row.bus_words));
  add_nccl_flags(app, row, options, average, timeout_s);
  add_our_flags(app, row, options);
  add_output_flags(app, row, options);
  auto ending = app.read(std::vector<std::string>(command.begin() + (command.empty() ? 0 : 1), command.end()));
  try {
    if (!ending) check_together(app, row, options);
  } catch (const command_line::UsageError& error) {
    ending = {2, error.what()};
  }
  if (ending && ending->code == 0) return Stop{0, ending->text};
  if (ending) {
    return Stop{ending->code, fmt::format("{}\n`{} --help` explains the flags", ending->text, row.program)};
  }
  options.average = static_cast<Average>(average);
  if (timeout_s > 0) {
    const auto ms = static_cast<std::int64_t>(timeout_s * 1000);
    options.communicator.timeouts.arrival_ms = ms;
    options.communicator.timeouts.stall_ms = ms;
  }
  options.command = command;
  return options;
}

std::variant<std::monostate, Stop> check_output_files(const Options& options) {
  const std::array<std::pair<const char*, const std::string*>, 3> files{
      {{"--json", &options.json_file}, {"--csv", &options.csv_file}, {"--html", &options.html_file}}};
  for (const auto& [flag, path] : files) {
    if (path->empty()) continue;
    const std::string wrong = check_output_file(*path);
    if (!wrong.empty()) return Stop{2, fmt::format("{} {}", flag, wrong)};
  }
  return std::monostate{};
}

}  // namespace wreath::perf
