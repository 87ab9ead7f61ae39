// The subcommand `wreath plan`: shows schedules as executors read them, proves them, times them, and tabulates their
// costs.
#include "tools/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "src/command_line/numbers.hpp"
#include "src/command_line/program.hpp"
#include "src/json/value.hpp"
#include "tools/commands.hpp"
#include "wreath/units.hpp"

namespace wreath {
namespace {

// The most ranks of a plan. A plan may be of a job that is larger than this library supports.
constexpr int kMostPlannedRanks = 65'536;

std::optional<int> parse_number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

// Returns a text such as "ring, two_shot" with each name once.
std::string names_of(const std::vector<std::string_view>& names) {
  std::set<std::string_view> seen;
  std::string text;
  for (const std::string_view name : names) {
    if (seen.insert(name).second) text += fmt::format("{}{}", text.empty() ? "" : ", ", name);
  }
  return text;
}

// Parses a text such as "8" or "2..17".
Result<RankRange> parse_ranks(const std::string& text) {
  const std::size_t dots = text.find("..");
  const std::optional<int> first = parse_number(std::string_view(text).substr(0, dots));
  const std::optional<int> last =
      dots == std::string::npos ? first : parse_number(std::string_view(text).substr(dots + 2));
  if (first && last && *first >= 1 && *first <= *last && *last <= kMostPlannedRanks) return RankRange{*first, *last};
  return Error{ErrorCode::InvalidArgument,
               fmt::format("--ranks {}: not N or A..B with 1 <= A <= B <= {}", text, kMostPlannedRanks)};
}

}  // namespace

Result<RankRange> ranks_of(const PlanArguments& arguments, const std::string& fallback) {
  const Result<RankRange> ranks = parse_ranks(arguments.ranks.empty() ? fallback : arguments.ranks);
  if (!ranks || arguments.root < ranks->last) return ranks;
  return Error{ErrorCode::InvalidArgument,
               fmt::format("--root {}: of {} ranks none is it", arguments.root, range_text(*ranks))};
}

std::string range_text(RankRange ranks) {
  return ranks.first == ranks.last ? std::to_string(ranks.first) : fmt::format("{}..{}", ranks.first, ranks.last);
}

Result<std::vector<const Algorithm*>> select_rows(const PlanArguments& arguments) {
  std::vector<const Algorithm*> rows;
  std::vector<std::string_view> known, collectives;
  for (const Algorithm& row : algorithms()) {
    collectives.push_back(name(row.collective));
    if (!arguments.collective.empty() && name(row.collective) != arguments.collective) continue;
    known.push_back(row.name);
    if (arguments.algorithm.empty() || row.name == arguments.algorithm) rows.push_back(&row);
  }
  if (!rows.empty() && arguments.root > 0 && !arguments.collective.empty() && !has_root(rows.front()->collective)) {
    return Error{ErrorCode::InvalidArgument,
                 fmt::format("--root {}: {} has no root", arguments.root, arguments.collective)};
  }
  if (!rows.empty()) return rows;
  if (known.empty()) {
    return Error{ErrorCode::InvalidArgument, fmt::format("no collective with plans is called {}; there are {}",
                                                         arguments.collective, names_of(collectives))};
  }
  return Error{ErrorCode::InvalidArgument,
               fmt::format("--algorithm {}: the choice is {}", arguments.algorithm, names_of(known))};
}

Result<PlanShape> parse_shape(const PlanArguments& arguments) {
  const Result<std::uint64_t> bytes = parse_bytes(arguments.size);
  if (!bytes) return bytes.error();
  const Result<std::uint64_t> tile = parse_bytes(arguments.tile);
  if (!tile) return tile.error();
  if (*tile == 0) return Error{ErrorCode::InvalidArgument, fmt::format("--tile {}: at least a byte", arguments.tile)};
  return PlanShape{
      .bytes = *bytes, .element_bytes = kPlanElementBytes, .tile_bytes = *tile, .data_lanes = arguments.lanes};
}

std::vector<Problem> problems_of(const Algorithm& row, int ranks, const PlanArguments& arguments, bool every_root) {
  std::vector<Problem> problems;
  const bool one = arguments.root >= 0 || !every_root || !has_root(row.collective);
  const Rank first = has_root(row.collective) ? std::max(arguments.root, 0) : 0;
  for (Rank root = first; root < (one ? std::min(first + 1, ranks) : ranks); ++root) {
    const Problem problem{.collective = row.collective, .ranks = ranks, .root = root};
    if (row.supports(problem)) problems.push_back(problem);
  }
  return problems;
}

Result<PlanCases> cases_of(const PlanArguments& arguments, const std::string& ranks) {
  const Result<RankRange> range = ranks_of(arguments, ranks);
  if (!range) return range.error();
  const Result<std::vector<const Algorithm*>> rows = select_rows(arguments);
  if (!rows) return rows.error();
  const Result<PlanShape> shape = parse_shape(arguments);
  if (!shape) return shape.error();
  PlanCases cases{*range, *shape, {}};
  for (const Algorithm* row : *rows) {
    for (int n = range->first; n <= range->last; ++n) {
      for (const Problem& problem : problems_of(*row, n, arguments, false)) cases.problems.emplace_back(row, problem);
    }
  }
  return cases;
}

namespace {

// Prints one rank's steps, or adds them to `plans`.
Status show_one(const Algorithm& row, const Problem& problem, Rank rank, const PlanShape& shape, Json* plans) {
  const Result<std::string> text = show_plan(row, problem, rank, shape);
  if (!text) return text.error();
  if (plans != nullptr) {
    plans->push_back({{"algorithm", row.name}, {"ranks", problem.ranks}, {"rank", rank}, {"steps", *text}});
  } else {
    fmt::print("{}\n", *text);
  }
  return {};
}

Status show_row(const Algorithm& row, const Problem& problem, Rank only, const PlanShape& shape, Json* plans) {
  if (plans == nullptr) {
    const std::string root = has_root(row.collective) ? fmt::format(", root {}", problem.root) : "";
    fmt::print("{} {}, {} ({} elements of {} bytes) on {} ranks{}\n\n", name(row.collective), row.name,
               format_bytes(shape.bytes), shape.bytes / shape.element_bytes, shape.element_bytes, problem.ranks, root);
  }
  if (only >= 0) return show_one(row, problem, only, shape, plans);
  for (Rank rank = 0; rank < problem.ranks; ++rank) WREATH_TRY(show_one(row, problem, rank, shape, plans));
  return {};
}

int run_show(const PlanArguments& arguments) {
  const Result<PlanCases> cases = cases_of(arguments, "4");
  if (!cases) return command_line::fail(cases.error());

  Json plans = Json::array();
  for (const auto& [row, problem] : cases->problems) {
    const Status status = show_row(*row, problem, arguments.rank, cases->shape, arguments.json ? &plans : nullptr);
    if (!status) return command_line::fail(status.error());
  }
  if (arguments.json) fmt::print("{}\n", Json{{"plans", plans}}.dump({.indent = 2, .sorted = true}));
  return 0;
}

void add_common(const command_line::Command& command, PlanArguments& arguments) {
  command.add_option("--algorithm", arguments.algorithm, "only rows of this name: ring, two_shot, bruck, ...")
      .type_name("NAME");
  command_line::add_number(command, "--lanes", arguments.lanes, {1},
                           "data lanes: copies of the schedule that share every part")
      .capture_default_str();
  command_line::add_number(command, "--root", arguments.root, {0}, "the root of a broadcast, reduce, gather or scatter")
      .type_name("RANK");
  command.add_option("--tile", arguments.tile, "bytes of a tile").capture_default_str().type_name("SIZE");
  command.add_flag("--json", arguments.json, "print JSON");
}

constexpr const char* kSizeHelp =
    "bytes of float32 of the vector, or of all blocks together (of one rank's input, for all_to_all); "
    "K M G T are binary";

void add_problem(const command_line::Command& command, PlanArguments& arguments, const char* ranks) {
  command.add_option("COLLECTIVE", arguments.collective, "all_reduce, broadcast, ...").required();
  command.add_option("SIZE", arguments.size, kSizeHelp).required();
  command.add_option("--ranks", arguments.ranks, ranks).type_name("N");
}

void add_show(const command_line::Command& plan, PlanArguments& arguments) {
  const command_line::Command show = plan.add_subcommand("show", "print the steps of each rank, lane by lane");
  add_problem(show, arguments, "N or A..B (default 4)");
  command_line::add_number(show, "--rank", arguments.rank, {0}, "only this rank").type_name("RANK");
  add_common(show, arguments);
  show.footer(
      "A line is a step, done once per tile. A message is written RANK.LANE where its sender's lane\n"
      "is another than the one at hand; scratch[SLOT: PART] and partial[SLOT: PART] are the lane's own.\n\n"
      "Examples:\n"
      "  wreath plan show all_reduce 1M                         every algorithm on 4 ranks\n"
      "  wreath plan show all_reduce 64K --algorithm ring --ranks 8 --rank 0\n"
      "  wreath plan show gather 16M --algorithm binomial --root 2 --lanes 2 --tile 128K");
}

void add_verify(const command_line::Command& plan, PlanArguments& arguments) {
  const command_line::Command verify =
      plan.add_subcommand("verify", "prove schedules right for all data and all timings");
  verify.add_option("COLLECTIVE", arguments.collective, "only its rows");
  verify.add_option("SIZE", arguments.size, std::string("prove this size instead of the sweep: ") + kSizeHelp);
  verify.add_option("--ranks", arguments.ranks, "N or A..B (default 1..64)").type_name("N");
  verify.add_flag("--all", arguments.all, "the sweep over counts, lanes, slots and resident lanes (the default)");
  add_common(verify, arguments);
  verify.footer(
      "Proved on the steps that executors read: the results, the order of the sums, message sizes and\n"
      "forms, memory hazards and freedom from deadlock, for every root. Exit code: 0 all proved,\n"
      "1 a proof failed, 2 usage.\n\n"
      "Examples:\n"
      "  wreath plan verify --all --ranks 1..64                 everything, in a minute or two\n"
      "  wreath plan verify all_gather --algorithm bruck --ranks 17\n"
      "  wreath plan verify all_reduce 1M --ranks 2..8 --lanes 2");
}

void add_simulate(const command_line::Command& plan, PlanArguments& arguments) {
  const command_line::Command simulate = plan.add_subcommand("simulate", "time schedules on a machine of equal links");
  add_problem(simulate, arguments, "N or A..B (default 8)");
  command_line::add_number(simulate, "--latency", arguments.model.latency_us, {0}, "us of a message")
      .type_name("NUMBER")
      .capture_default_str();
  command_line::add_number(simulate, "--bandwidth", arguments.model.bandwidth_gb_s, {1e-6}, "GB/s that a rank sends")
      .type_name("NUMBER")
      .capture_default_str();
  add_common(simulate, arguments);
  simulate.footer(
      "steps: messages on the longest chain that wait for each other; bytes and messages: of the rank\n"
      "that sends most. Times compare algorithms on an ideal machine; they are no forecast.\n\n"
      "Examples:\n"
      "  wreath plan simulate all_reduce 1M --ranks 2..16\n"
      "  wreath plan simulate broadcast 64M --latency 20 --bandwidth 3 --json");
}

// Returns a text such as "shm: ranks map each other's memory; tcp: a wire".
std::string transports_text() {
  std::string text;
  for (const std::string& name : transports_between_processes()) {
    const bool wire = find_transport(name)->is_wire();
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", name,
                        wire ? "a wire" : "ranks map each other's memory");
  }
  return text;
}

void add_explain(const command_line::Command& plan, PlanArguments& arguments) {
  const command_line::Command explain =
      plan.add_subcommand("explain", "say which plan a call gets, and why not another");
  add_problem(explain, arguments, "N (default 2)");
  explain.add_option("--transport", arguments.transport, transports_text())
      .one_of(transports_between_processes())
      .capture_default_str();
  explain.add_option("--tuning", arguments.tuning, "a file of `wreath tune`, or none (default: this machine's)")
      .envname("WREATH_TUNING")
      .type_name("FILE");
  explain
      .add_option("--memory", arguments.memory,
                  "of the buffers: the host's, or GPUs', of ranks "
                  "that all have one")
      .capture_default_str()
      .one_of({"host", "device"});
  explain.add_flag("--any-order", arguments.any_order, "sums in any order, as with WREATH_REPRODUCIBLE=0");
  explain.add_flag("--json", arguments.json, "print JSON");
  explain.footer(
      "predicted: the schedule, simulated with constants of a kind of link, which were measured on another machine.\n"
      "Ranks over shm share the cores of this machine; each of those over tcp is taken to have one.\n"
      "Nothing is predicted of wires that are no streams.\n"
      "measured: by `wreath tune` on this machine. limit: what its memory, cores and loopback allow.\n"
      "A row is chosen by measurement where there is one, else by the library's rules (docs/decisions/0003).\n\n"
      "Examples:\n"
      "  wreath plan explain all_reduce 64MiB\n"
      "  wreath plan explain reduce_scatter 1M --ranks 8 --transport tcp --tuning none");
}

void add_table(const command_line::Command& plan, PlanArguments& arguments) {
  const command_line::Command table = plan.add_subcommand("table", "print what every algorithm costs");
  table.add_flag("--markdown", arguments.markdown, "as a page of Markdown");
}

int run_table(const PlanArguments& arguments) {
  fmt::print("{}", cost_table(arguments.markdown ? TableStyle::Markdown : TableStyle::Text));
  return 0;
}

}  // namespace

std::function<int()> add_plan(const command_line::Command& command) {
  auto arguments = std::make_shared<PlanArguments>();
  command.require_subcommand();
  add_show(command, *arguments);
  add_verify(command, *arguments);
  add_simulate(command, *arguments);
  add_explain(command, *arguments);
  add_table(command, *arguments);
  command.footer(
      "Examples:\n  wreath plan show all_reduce 1M --ranks 4\n  wreath plan verify --all --ranks 1..64\n"
      "  wreath plan simulate all_to_all 64K\n  wreath plan explain all_reduce 64M\n  wreath plan table");
  return [command, arguments] {
    if (command.got_subcommand("show")) return run_show(*arguments);
    if (command.got_subcommand("simulate")) return run_plan_simulate(*arguments);
    if (command.got_subcommand("explain")) return run_plan_explain(*arguments);
    if (command.got_subcommand("table")) return run_table(*arguments);
    return run_plan_verify(*arguments);
  };
}

}  // namespace wreath
