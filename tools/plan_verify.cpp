// The subcommand `wreath plan verify`: proves rows on all cores at once.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/command_line/program.hpp"
#include "src/command_line/threads.hpp"
#include "src/json/value.hpp"
#include "tools/plan.hpp"

namespace wreath {
namespace {

constexpr int kFailed = 1;

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// A progress line that each text overwrites. It is shown on terminals only.
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
  const Algorithm* row;
  std::uint64_t cases = 0;
  double seconds = 0;         // of one core
  std::size_t open = 0;       // jobs that are not over
  std::size_t failed_at = 0;  // the job of `error`
  std::string error;          // of the first job that failed
};

// Proves one row for one problem: the whole sweep, or one size.
using Prove = std::function<Result<std::uint64_t>(const Algorithm&, const Problem&)>;

struct Job {
  std::size_t proof;
  Problem problem;
};

std::string_view result_text(const Proof& proof) { return proof.error.empty() ? "proved" : "FAILED"; }

void print_header() {
  fmt::print("{:<14} {:<18} {:<9} {:>6} {:>9}  {:<7} {:>8}\n", "collective", "algorithm", "order", "ranks", "cases",
             "result", "seconds");
  std::fflush(stdout);
}

void print_row(const Proof& proof, RankRange ranks) {
  fmt::print("{:<14} {:<18} {:<9} {:>6} {:>9}  {:<7} {:>8.2f}\n", name(proof.row->collective), proof.row->name,
             name(proof.row->order), range_text(ranks), proof.cases, result_text(proof), proof.seconds);
  if (!proof.error.empty()) fmt::print("  {}\n", proof.error);
  std::fflush(stdout);
}

Json to_json(const Proof& proof, RankRange ranks) {
  return {{"collective", name(proof.row->collective)},
          {"algorithm", proof.row->name},
          {"order", name(proof.row->order)},
          {"ranks", {ranks.first, ranks.last}},
          {"cases", proof.cases},
          {"proved", proof.error.empty()},
          {"error", proof.error},
          {"seconds", proof.seconds}};
}

// Shares all proofs out to a thread per core. Rows are printed in order as they end.
class Prover {
 public:
  Prover(const std::vector<const Algorithm*>& rows, RankRange ranks, const PlanArguments& arguments, Prove prove)
      : ranks_(ranks), print_(!arguments.json), prove_(std::move(prove)) {
    for (const Algorithm* row : rows) {
      proofs_.push_back({.row = row, .error = {}});
      for (int n = ranks.first; n <= ranks.last; ++n) {
        for (const Problem& problem : problems_of(*row, n, arguments, true)) {
          jobs_.push_back({proofs_.size() - 1, problem});
          ++proofs_.back().open;
        }
      }
    }
  }

  const std::vector<Proof>& run() {
    if (print_) print_header();
    print_ended();
    const auto threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    const Status ran = command_line::run_threads(threads, [this](int) { return work(), Status(); });
    if (!ran) throw Exception(ran.error());
    return proofs_;
  }

 private:
  void work() {
    while (true) {
      const std::size_t index = next_.fetch_add(1);
      if (index >= jobs_.size()) return;
      const Job& job = jobs_[index];
      {
        const std::lock_guard lock(mutex_);
        progress_.show(fmt::format("{} of {}: {} {} on {} ranks", index, jobs_.size(), name(job.problem.collective),
                                   proofs_[job.proof].row->name, job.problem.ranks));
      }
      const Clock::time_point start = Clock::now();
      const Result<std::uint64_t> cases = prove_(*proofs_[job.proof].row, job.problem);
      end(index, cases, seconds_since(start));
    }
  }

  void end(std::size_t index, const Result<std::uint64_t>& cases, double seconds) {
    const std::lock_guard lock(mutex_);
    Proof& proof = proofs_[jobs_[index].proof];
    if (cases) proof.cases += *cases;
    if (!cases && (proof.error.empty() || index < proof.failed_at)) {
      proof.error = cases.error().message;
      proof.failed_at = index;
    }
    proof.seconds += seconds;
    --proof.open;
    print_ended();
  }

  void print_ended() {
    while (printed_ < proofs_.size() && proofs_[printed_].open == 0) {
      progress_.clear();
      if (print_) print_row(proofs_[printed_], ranks_);
      ++printed_;
    }
  }

  RankRange ranks_;
  bool print_;
  Prove prove_;
  std::vector<Job> jobs_;
  std::atomic<std::size_t> next_ = 0;
  std::mutex mutex_;  // guards the members below
  std::vector<Proof> proofs_;
  std::size_t printed_ = 0;
  Progress progress_;
};

Result<std::uint64_t> prove_size(const Algorithm& row, const Problem& problem, const PlanShape& shape) {
  std::uint64_t cases = 0;
  VerifyOptions options = point_of(problem, shape);
  const auto minimum = static_cast<std::uint32_t>(row.minimum_resident_lanes);
  for (const bool in_place : {false, true}) {
    // The plans of this collective cannot work in place.
    if (in_place && problem.collective == Collective::AllToAll) continue;
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

Result<Prove> choose_proof(const PlanArguments& arguments) {
  if (arguments.size.empty()) return Prove(verify_all);
  if (arguments.all) return Error{ErrorCode::InvalidArgument, "--all proves many sizes: leave out SIZE"};
  const Result<PlanShape> shape = parse_shape(arguments);
  if (!shape) return shape.error();
  return Prove(
      [shape = *shape](const Algorithm& row, const Problem& problem) { return prove_size(row, problem, shape); });
}

}  // namespace

int run_plan_verify(const PlanArguments& arguments) {
  const Result<RankRange> ranks = ranks_of(arguments, "1..64");
  if (!ranks) return command_line::fail(ranks.error());
  const Result<std::vector<const Algorithm*>> rows = select_rows(arguments);
  if (!rows) return command_line::fail(rows.error());
  const Result<Prove> prove = choose_proof(arguments);
  if (!prove) return command_line::fail(prove.error());

  const Clock::time_point start = Clock::now();
  Prover prover(*rows, *ranks, arguments, *prove);
  bool proved = true;
  std::uint64_t cases = 0;
  Json results = Json::array();
  for (const Proof& proof : prover.run()) {
    proved = proved && proof.error.empty();
    cases += proof.cases;
    results.push_back(to_json(proof, *ranks));
  }
  if (proved && cases == 0) {
    return command_line::fail({ErrorCode::InvalidArgument,
                               fmt::format("nothing to prove: none of these rows serves {} ranks", range_text(*ranks)),
                               -1});
  }
  if (arguments.json) fmt::print("{}\n", Json{{"results", results}}.dump({.indent = 2, .sorted = true}));
  if (!arguments.json) {
    fmt::print("{}: {} cases of {} rows in {:.1f} s\n", proved ? "proved" : "FAILED", cases, rows->size(),
               seconds_since(start));
  }
  return proved ? 0 : kFailed;
}

}  // namespace wreath
