// Runs the passes of a check, over Bench.
#include "perf/check/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "perf/common/bench.hpp"
#include "perf/common/run.hpp"

namespace wreath::perf {
namespace {

enum class Places { Both, InPlaceAlone };

// The findings of one rank so far.
struct Tally {
  std::uint64_t rows = 0;
  std::uint64_t wrong = 0;
  void add(const Timing& timing) {
    ++rows;
    wrong += timing.wrong + timing.out_of_bounds;
  }
};

Status check_case(Bench& bench, const CollectiveRow& row, const Case& work, Places places, Tally& tally) {
  if (places == Places::Both) {
    const auto timing = bench.out_of_place(work);
    if (!timing) return timing.error();
    tally.add(*timing);
  }
  if (row.has(kNothingToReuse)) return {};
  const auto timing = bench.in_place(work);
  if (!timing) return timing.error();
  tally.add(*timing);
  return {};
}

Options options_of(SizeRange sizes, int iterations, int warmup) {
  Options options;
  options.sizes = sizes;
  options.iterations = iterations;
  options.warmup = warmup;
  return options;
}

// Checks the cases with buffers that begin `offset` bytes after a line.
Status check_cases(Member& member, const CollectiveRow& row, const Options& options, const std::vector<Case>& cases,
                   std::size_t offset, const std::function<void()>& step, Tally& tally) {
  std::size_t largest = 0;
  for (const Case& each : cases) largest = std::max(largest, each.bytes);
  auto buffers = Buffers::make(largest, offset, {});
  if (!buffers) return buffers.error();
  Bench bench(member, row, options, *buffers);
  for (const Case& each : cases) {
    step();
    WREATH_TRY(check_case(bench, row, each, Places::Both, tally));
  }
  return {};
}

// Joins the tallies of all ranks. `start` is the time at which the pass began.
Result<CheckResult> finish(Member& member, const Tally& mine, std::chrono::steady_clock::time_point start) {
  const double numbers[] = {static_cast<double>(mine.wrong)};
  const auto all = gather(member, numbers);
  if (!all) return all.error();
  CheckResult result;
  result.rows = mine.rows;
  for (const double wrong : *all) result.wrong += static_cast<std::uint64_t>(wrong);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace

Result<CheckResult> check_all(Member& member, const CollectiveRow& row, const Progress& progress) {
  const auto start = std::chrono::steady_clock::now();
  Options options = options_of({8, 300'001, 0, 9}, 2, 1);
  options.dtypes.assign(all_dtypes().begin(), all_dtypes().end());
  if (row.combines()) options.ops.assign(all_ops().begin(), all_ops().end());
  std::vector<Case> cases = cases_of(row, options, member.ranks());
  for (std::size_t i = 0; i < cases.size(); ++i) cases[i].kind.root = static_cast<Rank>(i) % member.ranks();
  const std::size_t misaligned = 1 + 3 * static_cast<std::size_t>(member.rank());  // different on every rank
  Tally tally;
  std::size_t done = 0;
  const auto step = [&] { progress(fmt::format("{}: {} of {}", row.title(), ++done, 2 * cases.size())); };
  for (const std::size_t offset : {std::size_t{0}, misaligned}) {
    WREATH_TRY(check_cases(member, row, options, cases, offset, step, tally));
  }
  return finish(member, tally, start);
}

Result<CheckResult> check_large(Member& member, const CollectiveRow& row, const Progress& progress) {
  const auto start = std::chrono::steady_clock::now();
  const Options options = options_of({std::size_t{64} << 20, std::size_t{64} << 20, 0, 2}, 2, 1);
  Tally tally;
  const auto step = [&] { progress(fmt::format("{}: 64 MiB", row.title())); };
  WREATH_TRY(check_cases(member, row, options, cases_of(row, options, member.ranks()), 0, step, tally));
  return finish(member, tally, start);
}

Result<CheckResult> check_huge(Member& member, const CollectiveRow& row, const Progress& progress) {
  const auto start = std::chrono::steady_clock::now();
  progress(fmt::format("{}: 4.5 GiB", row.title()));
  const Options options = options_of({}, 1, 0);
  Buffers buffers;  // a check in place needs one buffer
  auto output = GuardedBuffer::make(kHugeBytes, 0, {});
  if (!output) return output.error();
  buffers.output = *std::move(output);
  Bench bench(member, row, options, buffers);
  Tally tally;
  WREATH_TRY(check_case(bench, row, make_case(row, member.ranks(), kHugeBytes, {DataType::Uint8}), Places::InPlaceAlone,
                        tally));
  return finish(member, tally, start);
}

}  // namespace wreath::perf
