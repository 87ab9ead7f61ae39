// `wreath plan`: shows schedules as executors read them, and proves them.
#include "wreath/plan.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/commands.hpp"
#include "wreath/units.hpp"

namespace wreath {
namespace {

constexpr int kMaximumRanks = 4096;
constexpr int kFailed = 1;
constexpr std::uint32_t kElementBytes = 4;  // plans are shown and proved for float32

struct RankRange {
  int first = 1;
  int last = 64;
};

struct PlanArguments {
  std::string collective;
  std::string size;
  std::string ranks;
  std::string algorithm;
  std::string tile = "256K";
  int rank = -1;
  int lanes = 1;
  bool all = false;
  bool json = false;
};

std::optional<int> parse_number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

Result<RankRange> parse_ranks(const std::string& text) {
  const std::size_t dots = text.find("..");
  const std::optional<int> first = parse_number(std::string_view(text).substr(0, dots));
  const std::optional<int> last =
      dots == std::string::npos ? first : parse_number(std::string_view(text).substr(dots + 2));
  if (first && last && *first >= 1 && *first <= *last && *last <= kMaximumRanks) return RankRange{*first, *last};
  return Error{ErrorCode::InvalidArgument,
               fmt::format("--ranks {}: not N or A..B with 1 <= A <= B <= {}", text, kMaximumRanks)};
}

// The rows the arguments name.
Result<std::vector<const Algorithm*>> select(const PlanArguments& arguments) {
  std::vector<const Algorithm*> rows;
  std::string known;
  for (const Algorithm& row : algorithms()) {
    if (!arguments.collective.empty() && name(row.collective) != arguments.collective) continue;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
    if (arguments.algorithm.empty() || row.name == arguments.algorithm) rows.push_back(&row);
  }
  if (!rows.empty()) return rows;
  if (known.empty()) {
    return Error{ErrorCode::InvalidArgument,
                 fmt::format("no collective is called {}; there is all_reduce", arguments.collective)};
  }
  return Error{ErrorCode::InvalidArgument, fmt::format("--algorithm {}: the choice is {}", arguments.algorithm, known)};
}

int report(const Error& error) {
  fmt::print(stderr, "wreath: error: {}\n", error.message);
  return exit_code(error.code);
}

// A line that is written over, on terminals only.
class Progress {
 public:
  ~Progress() { clear(); }
  void show(const std::string& text) {
    if (!on_) return;
    fmt::print(stderr, "\r\033[K{}", text);
    std::fflush(stderr);
  }
  void clear() { show(""); }

 private:
  bool on_ = isatty(STDERR_FILENO) == 1;
};

struct Proof {
  const Algorithm* algorithm;
  RankRange ranks;
  std::uint64_t cases = 0;
  double seconds = 0;
  std::string error;
};

// Proves one row for one number of ranks: the whole sweep, or one size.
using Prove = std::function<Result<std::uint64_t>(const Algorithm&, const Problem&)>;

Result<std::uint64_t> prove_size(const Algorithm& row, const Problem& problem, VerifyOptions options) {
  std::uint64_t cases = 0;
  const auto minimum = static_cast<std::uint32_t>(row.minimum_resident_lanes);
  for (const bool in_place : {false, true}) {
    for (const std::uint32_t slots : {1u, 2u, 8u}) {
      for (const std::uint32_t resident : {minimum, std::max(minimum, 8u), kUnlimited}) {
        options.in_place = in_place;
        options.slots = slots;
        options.resident = resident;
        WREATH_TRY(verify(row, problem, options));
        ++cases;
      }
    }
  }
  return cases;
}

Proof prove(const Algorithm& row, RankRange ranks, const Prove& one) {
  Progress progress;
  Proof proof{.algorithm = &row, .ranks = ranks, .cases = 0, .seconds = 0, .error = {}};
  const auto start = std::chrono::steady_clock::now();
  for (int n = ranks.first; n <= ranks.last && proof.error.empty(); ++n) {
    const Problem problem{.collective = row.collective, .ranks = n};
    if (!row.supports(problem)) continue;
    progress.show(fmt::format("{} {}: {} of {} ranks", name(row.collective), row.name, n, ranks.last));
    const Result<std::uint64_t> cases = one(row, problem);
    if (!cases) proof.error = cases.error().message;
    if (cases) proof.cases += *cases;
  }
  proof.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return proof;
}

std::string_view order_text(const Algorithm& row) { return row.order == Order::Canonical ? "canonical" : "ring"; }

std::string range_text(RankRange ranks) {
  return ranks.first == ranks.last ? std::to_string(ranks.first) : fmt::format("{}..{}", ranks.first, ranks.last);
}

void print_header() {
  fmt::print("{:<12} {:<12} {:<10} {:>8} {:>9}  {:<7} {:>8}\n", "collective", "algorithm", "order", "ranks", "cases",
             "result", "seconds");
  std::fflush(stdout);
}

void print_row(const Proof& proof) {
  fmt::print("{:<12} {:<12} {:<10} {:>8} {:>9}  {:<7} {:>8.2f}\n", name(proof.algorithm->collective),
             proof.algorithm->name, order_text(*proof.algorithm), range_text(proof.ranks), proof.cases,
             proof.error.empty() ? "proved" : "FAILED", proof.seconds);
  if (!proof.error.empty()) fmt::print("  {}\n", proof.error);
  std::fflush(stdout);
}

nlohmann::json to_json(const Proof& proof) {
  return {{"collective", name(proof.algorithm->collective)},
          {"algorithm", proof.algorithm->name},
          {"order", order_text(*proof.algorithm)},
          {"ranks", {proof.ranks.first, proof.ranks.last}},
          {"cases", proof.cases},
          {"proved", proof.error.empty()},
          {"error", proof.error},
          {"seconds", proof.seconds}};
}

// SIZE, --tile and --lanes as numbers.
Result<PlanShape> parse_shape(const PlanArguments& arguments) {
  const Result<std::uint64_t> bytes = parse_bytes(arguments.size);
  if (!bytes) return bytes.error();
  const Result<std::uint64_t> tile = parse_bytes(arguments.tile);
  if (!tile) return tile.error();
  return PlanShape{.bytes = *bytes, .element_bytes = kElementBytes, .tile_bytes = *tile, .data_lanes = arguments.lanes};
}

Result<Prove> choose_proof(const PlanArguments& arguments) {
  if (arguments.size.empty() != arguments.collective.empty()) {
    return Error{ErrorCode::InvalidArgument, "give COLLECTIVE and SIZE, or neither"};
  }
  if (arguments.size.empty()) return Prove(verify_all);
  if (arguments.all) {
    return Error{ErrorCode::InvalidArgument, "--all proves many sizes: leave out COLLECTIVE and SIZE"};
  }
  const Result<PlanShape> shape = parse_shape(arguments);
  if (!shape) return shape.error();
  VerifyOptions options;
  options.element_bytes = kElementBytes;
  options.count = shape->bytes / kElementBytes;
  options.tile_bytes = shape->tile_bytes;
  options.data_lanes = shape->data_lanes;
  return Prove([options](const Algorithm& row, const Problem& problem) { return prove_size(row, problem, options); });
}

int run_verify(const PlanArguments& arguments) {
  const Result<RankRange> ranks = parse_ranks(arguments.ranks.empty() ? "1..64" : arguments.ranks);
  if (!ranks) return report(ranks.error());
  const Result<std::vector<const Algorithm*>> rows = select(arguments);
  if (!rows) return report(rows.error());
  const Result<Prove> one = choose_proof(arguments);
  if (!one) return report(one.error());

  bool proved = true;
  nlohmann::json results = nlohmann::json::array();
  if (!arguments.json) print_header();
  for (const Algorithm* row : *rows) {
    const Proof proof = prove(*row, *ranks, *one);
    proved = proved && proof.error.empty();
    if (!arguments.json) print_row(proof);
    results.push_back(to_json(proof));
  }
  if (arguments.json) fmt::print("{}\n", nlohmann::json{{"results", results}}.dump(2));
  return proved ? 0 : kFailed;
}

// One rank's steps, as text or into `plans`.
Status show_one(const Algorithm& row, const Problem& problem, Rank rank, const PlanShape& shape,
                nlohmann::json* plans) {
  const Result<std::string> text = show_plan(row, problem, rank, shape);
  if (!text) return text.error();
  if (plans != nullptr) {
    plans->push_back({{"algorithm", row.name}, {"ranks", problem.ranks}, {"rank", rank}, {"steps", *text}});
  } else {
    fmt::print("{}\n", *text);
  }
  return {};
}

Status show_row(const Algorithm& row, int ranks, Rank only, const PlanShape& shape, nlohmann::json* plans) {
  const Problem problem{.collective = row.collective, .ranks = ranks};
  if (plans == nullptr) {
    fmt::print("{} {}, {} ({} elements of {} bytes) on {} ranks\n\n", name(row.collective), row.name,
               format_bytes(shape.bytes), shape.bytes / shape.element_bytes, shape.element_bytes, ranks);
  }
  if (only >= 0) return show_one(row, problem, only, shape, plans);
  for (Rank rank = 0; rank < ranks; ++rank) WREATH_TRY(show_one(row, problem, rank, shape, plans));
  return {};
}

int run_show(const PlanArguments& arguments) {
  const Result<RankRange> ranks = parse_ranks(arguments.ranks.empty() ? "4" : arguments.ranks);
  if (!ranks) return report(ranks.error());
  const Result<std::vector<const Algorithm*>> rows = select(arguments);
  if (!rows) return report(rows.error());
  const Result<PlanShape> shape = parse_shape(arguments);
  if (!shape) return report(shape.error());

  nlohmann::json plans = nlohmann::json::array();
  for (const Algorithm* row : *rows) {
    for (int n = ranks->first; n <= ranks->last; ++n) {
      const Status status = show_row(*row, n, arguments.rank, *shape, arguments.json ? &plans : nullptr);
      if (!status) return report(status.error());
    }
  }
  if (arguments.json) fmt::print("{}\n", nlohmann::json{{"plans", plans}}.dump(2));
  return 0;
}

void add_common(CLI::App& command, PlanArguments& arguments) {
  command.add_option("--algorithm", arguments.algorithm, "only this row of the registry: ring, two_shot, one_shot");
  command.add_option("--lanes", arguments.lanes, "data lanes: copies of the schedule that share every part")
      ->capture_default_str();
  command.add_option("--tile", arguments.tile, "bytes of a tile")->capture_default_str();
  command.add_flag("--json", arguments.json, "print JSON");
}

void add_show(CLI::App& plan, PlanArguments& arguments) {
  CLI::App* show = plan.add_subcommand("show", "print the steps of each rank, lane by lane");
  show->add_option("COLLECTIVE", arguments.collective, "all_reduce")->required();
  show->add_option("SIZE", arguments.size, "bytes of one buffer of float32; K M G are binary")->required();
  show->add_option("--ranks", arguments.ranks, "N or A..B (default 4)");
  show->add_option("--rank", arguments.rank, "only this rank")->check(CLI::NonNegativeNumber);
  add_common(*show, arguments);
  show->footer(
      "A line is a step, done once per tile. A message is written RANK.LANE where its sender's lane\n"
      "is another than the one at hand.\n\n"
      "Examples:\n"
      "  wreath plan show all_reduce 1M                         every algorithm on 4 ranks\n"
      "  wreath plan show all_reduce 64K --algorithm ring --ranks 8 --rank 0\n"
      "  wreath plan show all_reduce 16M --algorithm two_shot --lanes 2 --tile 128K");
}

void add_verify(CLI::App& plan, PlanArguments& arguments) {
  CLI::App* verify = plan.add_subcommand("verify", "prove schedules right for all data and all timings");
  verify->add_option("COLLECTIVE", arguments.collective, "with SIZE: prove this size instead of the sweep");
  verify->add_option("SIZE", arguments.size, "bytes of one buffer of float32; K M G are binary");
  verify->add_option("--ranks", arguments.ranks, "N or A..B (default 1..64)");
  verify->add_flag("--all", arguments.all, "the sweep over counts, lanes, slots and resident lanes (the default)");
  add_common(*verify, arguments);
  verify->footer(
      "Proved on the steps that executors read: the results, the order of the sums, message sizes,\n"
      "memory hazards and freedom from deadlock. Exit code: 0 all proved, 1 a proof failed, 2 usage.\n\n"
      "Examples:\n"
      "  wreath plan verify --all --ranks 1..64                 everything, in seconds\n"
      "  wreath plan verify --algorithm ring --ranks 17\n"
      "  wreath plan verify all_reduce 1M --ranks 2..8 --lanes 2");
}

}  // namespace

std::function<int()> add_plan(CLI::App& command) {
  auto arguments = std::make_shared<PlanArguments>();
  command.require_subcommand(1);
  add_show(command, *arguments);
  add_verify(command, *arguments);
  command.footer("Examples:\n  wreath plan show all_reduce 1M --ranks 4\n  wreath plan verify --all --ranks 1..64");
  return
      [&command, arguments] { return command.got_subcommand("show") ? run_show(*arguments) : run_verify(*arguments); };
}

}  // namespace wreath
