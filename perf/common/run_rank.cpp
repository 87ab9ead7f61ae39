// Runs one rank over all dtypes, operators and sizes.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <string_view>

#include "perf/base/machine.hpp"
#include "perf/common/common_start.hpp"
#include "perf/common/host_memory.hpp"
#include "perf/common/peer.hpp"
#include "perf/common/run.hpp"

namespace wreath::perf {
namespace {

// Returns "host\tpid\tcore\tcpu", in the order of RankLine.
std::string describe_self(int core) { return fmt::format("{}\t{}\t{}\t{}", host_name(), getpid(), core, cpu_name()); }

std::vector<std::string> fields_of(const std::string& text) {
  std::vector<std::string> fields(1);
  for (const char c : text) {
    if (c == '\t' && fields.size() < 4) {
      fields.emplace_back();
    } else {
      fields.back().push_back(c);
    }
  }
  fields.resize(4);
  return fields;
}

int number_of(const std::string& text) {
  int number = -1;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

std::vector<RankLine> lines_of(const std::vector<std::string>& texts) {
  std::vector<RankLine> lines;
  for (const std::string& text : texts) {
    const auto fields = fields_of(text);
    lines.push_back({static_cast<int>(lines.size()), number_of(fields[1]), fields[0], number_of(fields[2]), fields[3]});
  }
  return lines;
}

// Returns the variables of nccl-tests that are set, such as "NCCL_TESTS_DEVICE, NCCL_TESTS_MIN_BW"; empty: none is set.
std::string variables_of_nccl_tests() {
  std::vector<std::string_view> names;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (text.starts_with("NCCL_TESTS_")) names.push_back(text.substr(0, text.find('=')));
  }
  std::sort(names.begin(), names.end());
  return fmt::format("{}", fmt::join(names, ", "));
}

// Returns whether all ranks use the only GPU of the host.
bool share_one_gpu(const Report& report) {
  const auto elsewhere = [&](const RankLine& line) { return line.host != report.ranks.front().host; };
  return (report.options.memory == MemoryPlace::Device || report.options.memory == MemoryPlace::Pinned) &&
         report.world > 1 && std::none_of(report.ranks.begin(), report.ranks.end(), elsewhere) &&
         cuda_devices().value() == 1;
}

Result<Report> open_report(Member& member, const CollectiveRow& row, const Options& options,
                           const Surroundings& surroundings) {
  const auto core = choose_core(member, options.pin);
  if (!core) return core.error();
  const auto texts = gather_text(member, describe_self(*core));
  if (!texts) return texts.error();
  Report report;
  report.collective = &row;
  report.options = options;
  report.world = member.ranks();
  report.ranks = lines_of(*texts);
  const std::size_t word = std::min(surroundings.transport.find_first_of(" ,"), surroundings.transport.size());
  report.transport = surroundings.transport.substr(0, word);
  report.transport_note = surroundings.transport.substr(word);
  report.limit_name = surroundings.limits.name;
  report.has_slots = !surroundings.limits.slots_us.empty();
  report.flag_ns = surroundings.limits.flag_ns;
  report.commit = WREATH_COMMIT;
  report.clock_ns = clock_cost_ns();
  report.start_time = now_text();
  if (options.rewrite) {
    const auto together = have_one_clock(member);
    if (!together) return together.error();
    report.starts_together = *together;
  }
  if (options.counters) report.counters = member.wire_counts();
  if (options.limits && report.limit_name.empty()) {
    report.warnings.emplace_back("no limit: it needs a core for each rank, and two ranks over tcp");
  }
  if (report.world == 1) report.warnings.emplace_back("one rank: no data moves; --ranks 4 or -t 4 starts more");
  if (share_one_gpu(report)) report.warnings.emplace_back(kOneGpu);
  if (const std::string ignored = variables_of_nccl_tests(); !ignored.empty())
    report.warnings.push_back(fmt::format("{}: set for nccl-tests, not read here", ignored));
  if (options.pin && *core < 0) report.warnings.emplace_back("ranks are not pinned: more ranks than cores");
  return report;
}

// The benches of a rank: this library's, and the peer's where there is one.
struct Benches {
  Bench own;
  std::unique_ptr<Member> peer_member;
  std::optional<Bench> peer = {};
};

// Measures the peer out of place, behind the same case of this library.
Status measure_peer(Member& member, Benches& benches, const Report& report, ReportRow& row) {
  if (!benches.peer) return {};
  const auto mine = benches.peer->out_of_place(row.work);
  if (!mine) return mine.error();
  Options options = report.options;
  options.average = peer_average(options);
  const auto all = combine(member, options, *mine);
  if (!all) return all.error();
  const double own_us = row.out_of_place.time_us;
  row.peer = PeerTime{all->time_us, own_us > 0 ? all->time_us / own_us : 0,
                      benches.peer_member->plan_for(report.collective->collective, row.work.bytes)};
  return {};
}

// Measures one size in both directions, and the peer.
Result<ReportRow> measure(Member& member, Benches& benches, Report& report, const Case& work) {
  ReportRow row{work, {}, {}, member.plan_for(report.collective->collective, work.bytes), {}, {}};
  for (const bool in_place : {false, true}) {
    if (in_place && (report.collective->has(kNothingToReuse) || report.options.only_out_of_place)) break;
    auto mine = in_place ? benches.own.in_place(work) : benches.own.out_of_place(work);
    if (!mine) return mine.error();
    const auto all = combine(member, report.options, *mine);
    if (!all) return all.error();
    const Measurement measured = measurement_of(report, work, *all);
    in_place ? void(row.in_place = measured) : void(row.out_of_place = measured);
    report.out_of_bounds += all->out_of_bounds;
  }
  WREATH_TRY(measure_peer(member, benches, report, row));
  row.timestamp = now_text();
  return row;
}

// Appends a case for each size that the call really has: sizes are rounded down to whole elements or blocks.
void append_sizes(const CollectiveRow& row, const Options& options, int ranks, const Kind& kind,
                  std::vector<Case>& cases) {
  const std::size_t before = cases.size();
  for (const std::size_t bytes : sizes_of(options.sizes, size_of(kind.dtype))) {
    const Case work = make_case(row, ranks, bytes, kind);
    if (cases.size() == before || cases.back().bytes != work.bytes) cases.push_back(work);
    if (row.has(kNoData)) return;
  }
}

// Returns the progress line for case `at` of `cases` in a round of --repeats.
std::string progress_text(const Report& report, const std::vector<Case>& cases, std::size_t at, int round) {
  const Case& work = cases[at];
  std::string text = fmt::format("{} {} of {}: {} {}", report.collective->title(), at + 1, cases.size(),
                                 format_bytes(work.bytes), table_name(work.kind.dtype));
  if (report.options.repeats > 1) text += fmt::format(", repeat {} of {}", round + 1, report.options.repeats);
  return text;
}

// Measures every case once, or all of them in turn, as often as --repeats says. Rank 0 shows each row as soon as it is
// complete. Reports of endless cycles keep no rows.
Status run_cycle(Member& member, Benches& benches, Report& report, const std::vector<Case>& cases, const Limits& limits,
                 const Display& display) {
  const bool shows = member.rank() == 0;
  std::vector<std::vector<ReportRow>> measured(cases.size());
  for (int round = 0; round < report.options.repeats; ++round) {
    for (std::size_t i = 0; i < cases.size(); ++i) {
      if (shows) display.progress(progress_text(report, cases, i, round));
      auto row = measure(member, benches, report, cases[i]);
      if (shows) display.progress("");
      if (!row) return row.error();
      measured[i].push_back(*std::move(row));
      if (round + 1 < report.options.repeats) continue;
      ReportRow complete = repeated(report, measured[i]);
      const auto limit = limits.time_us.find(cases[i].bytes);
      if (limit != limits.time_us.end()) complete.limit_us = limit->second;
      const auto slots = limits.slots_us.find(cases[i].bytes);
      if (slots != limits.slots_us.end()) complete.slots_us = slots->second;
      if (shows) display.print(table_row(report, complete));
      if (report.options.cycles > 0) report.rows.push_back(std::move(complete));
      if (shows && display.keep) display.keep(report);
    }
  }
  return {};
}

// Checks whether the memory of every host suffices, by the memory that each rank sees. It is collective, and all ranks
// get the same result.
Status check_all_hosts(Member& member, const Report& report, const Extent& extent) {
  const double mine = this_host(1).available_bytes;
  const auto available = gather(member, std::span<const double>(&mine, 1));
  if (!available) return available.error();
  for (const RankLine& line : report.ranks) {
    const auto here = [&](const RankLine& other) { return other.host == line.host; };
    const auto ranks = static_cast<int>(std::count_if(report.ranks.begin(), report.ranks.end(), here));
    const HostMemory host{line.host, ranks, (*available)[static_cast<std::size_t>(line.rank)]};
    WREATH_TRY(check_host_memory(need_of(report.options, extent), host));
  }
  return {};
}

}  // namespace

Result<int> choose_core(Member& member, bool pin) {
  const std::vector<int> cores = allowed_cores();
  const std::string mine =
      cores.empty() ? host_name()
                    : fmt::format("{} of cores {} to {} {}", cores.size(), cores.front(), cores.back(), host_name());
  const auto all = gather_text(member, mine);
  if (!all) return all.error();
  const std::string& group = (*all)[static_cast<std::size_t>(member.rank())];
  const auto ranks = static_cast<std::size_t>(std::count(all->begin(), all->end(), group));
  const auto index = static_cast<std::size_t>(std::count(all->begin(), all->begin() + member.rank(), group));
  if (!pin || ranks > cores.size() || !pin_thread(cores[index])) return -1;
  return cores[index];
}

Status check_group(const CollectiveRow& row, const Options& options, int ranks) {
  if (row.has(kPowerOfTwo) && (ranks & (ranks - 1)) != 0) {
    return Error{ErrorCode::Unavailable,
                 fmt::format("{}: {} ranks: a hypercube needs a power of two", row.program, ranks)};
  }
  if (ranks > 0 && row.rooted() && !options.all_roots && options.root >= ranks) {
    return Error{ErrorCode::InvalidArgument, fmt::format("-r {}: there is no such rank among {}", options.root, ranks)};
  }
  return {};
}

std::vector<Case> cases_of(const CollectiveRow& row, const Options& options, int ranks) {
  std::vector<Case> cases;
  const Rank first = options.all_roots ? 0 : options.root;
  const Rank last = options.all_roots ? ranks - 1 : options.root;
  for (const DataType dtype : options.dtypes) {
    for (const ReduceOp op : options.ops) {
      for (Rank root = first; root <= last; ++root) append_sizes(row, options, ranks, {dtype, op, root}, cases);
    }
  }
  return cases;
}

Result<Report> run_rank(Member& member, const CollectiveRow& row, const Options& options,
                        const Surroundings& surroundings, const Display& display) {
  WREATH_TRY(check_group(row, options, member.ranks()));
  auto report = open_report(member, row, options, surroundings);
  if (!report) return report.error();
  const bool shows = member.rank() == 0;
  const std::vector<Case> cases = cases_of(row, options, member.ranks());
  const Extent extent = extent_of(cases);
  WREATH_TRY(check_all_hosts(member, *report, extent));
  if (shows) display.print(table_head(*report));
  const auto device = device_of(options.memory, member.rank());
  if (!device) return device.error();
  auto buffers = Buffers::make(extent.bytes, offset_of(options, extent), {options.memory, *device, options.check > 0});
  if (!buffers) return buffers.error();
  Benches benches{Bench(member, row, options, *buffers), nullptr};
  if (surroundings.peer) {
    auto peer = surroundings.peer(buffers->stream.get());
    if (!peer) return peer.error();
    benches.peer_member = *std::move(peer);
    benches.peer.emplace(*benches.peer_member, row, options, *buffers);
  }
  // An allocation on a device may wait for kernels, and those kernels wait for peers.
  WREATH_TRY(barrier(member));
  for (int cycle = 0; options.cycles == 0 || cycle < options.cycles; ++cycle) {
    WREATH_TRY(run_cycle(member, benches, *report, cases, surroundings.limits, display));
  }
  WREATH_TRY(barrier(member));
  report->end_time = now_text();
  if (shows) display.print(table_foot(*report));
  return report;
}

}  // namespace wreath::perf
