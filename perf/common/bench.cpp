// The loops of a measurement.
#include "perf/common/bench.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace wreath::perf {
namespace {

constexpr std::size_t kSpots = 32;

using Clock = std::chrono::steady_clock;

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

}  // namespace

Bench::Bench(Member& member, const CollectiveRow& row, const Options& options, Buffers& buffers)
    : member_(member), row_(row), options_(options), buffers_(buffers) {
  for (const DataType dtype : options.dtypes) {
    patterns_.emplace_back(dtype, member.rank(), member.ranks());
    pattern_dtypes_.push_back(dtype);
  }
}

const SumPatterns& Bench::patterns(DataType dtype) {
  const auto found = std::find(pattern_dtypes_.begin(), pattern_dtypes_.end(), dtype);
  return patterns_[static_cast<std::size_t>(found - pattern_dtypes_.begin())];
}

// Fills the inputs, sets guards, and chooses the bytes that are watched during the timed calls.
void Bench::prepare(const Case& work) {
  data_ = &patterns(work.dtype);
  for (int parity = 0; parity < 2; ++parity) {
    data_->input(parity).fill(buffers_.input[static_cast<std::size_t>(parity)].first(work.bytes));
  }
  buffers_.output.set_guards(work.bytes);
  spots_.clear();
  for (std::size_t i = 0; i < kSpots && work.bytes > 0; ++i) {
    const std::size_t offset = i == 0 ? 0 : i == 1 ? work.bytes - 1 : i * 0x9e3779b97f4a7c15ULL % work.bytes;
    spots_.push_back({offset, {data_->sum(0).byte_at(offset), data_->sum(1).byte_at(offset)}});
  }
}

Status Bench::call(const Case& work, const std::byte* input) const {
  return row_.call(member_, input, buffers_.output.first(0).data(), work.count(), work.dtype, work.op);
}

// Spoils one byte of the output, calls, and looks whether the byte is right.
Status Bench::call_spotted(const Case& work, int call_number, int parity, Timing& timing) const {
  const std::byte* input = buffers_.input[static_cast<std::size_t>(parity)].first(0).data();
  if (spots_.empty() || !checks()) return call(work, input);
  const Spot& spot = spots_[static_cast<std::size_t>(call_number) % spots_.size()];
  std::byte& watched = buffers_.output.first(work.bytes)[spot.offset];
  watched = ~spot.expected[parity];
  WREATH_TRY(call(work, input));
  timing.wrong += watched != spot.expected[parity] ? 1U : 0U;
  return {};
}

// Runs call(i) for i in 0..calls-1 after a barrier and adds the time; `each`: by call, for -I.
template <typename Call>
Status Bench::timed(int calls, bool each, Timing& timing, Call call) const {
  WREATH_TRY(barrier(member_));
  if (!each) {
    const auto start = Clock::now();
    for (int i = 0; i < calls; ++i) WREATH_TRY(call(i));
    timing.time_us += microseconds_since(start);
    return {};
  }
  for (int i = 0; i < calls; ++i) {
    const auto start = Clock::now();
    WREATH_TRY(call(i));
    timing.iterations_us.push_back(microseconds_since(start));
    timing.time_us += timing.iterations_us.back();
  }
  return {};
}

// `calls` timed calls that alternate between the inputs; the output is compared at the end.
Status Bench::time_alternating(const Case& work, int calls, int first_parity, Timing& timing) {
  const std::span<std::byte> output = buffers_.output.first(work.bytes);
  std::memset(output.data(), static_cast<int>(kPoison), output.size());
  const auto one = [&](int i) { return call_spotted(work, i, (i + first_parity) & 1, timing); };
  if (!options_.rewrite) {
    WREATH_TRY(timed(calls, options_.per_iteration, timing, one));
  } else {
    for (int i = 0; i < calls; ++i) {
      const int parity = (i + first_parity) & 1;
      data_->input(parity).fill(buffers_.input[static_cast<std::size_t>(parity)].first(work.bytes));
      WREATH_TRY(timed(1, options_.per_iteration, timing, [&](int) { return one(i); }));
    }
  }
  if (checks()) timing.wrong += data_->sum((calls - 1 + first_parity) & 1).count_wrong(output);
  return {};
}

// `calls` timed calls in place, each on the result of the one before.
Status Bench::time_repeated(const Case& work, int calls, Timing& timing) {
  const std::span<std::byte> output = buffers_.output.first(work.bytes);
  data_->in_place_input().fill(output);
  WREATH_TRY(timed(calls, options_.per_iteration, timing, [&](int) { return call(work, output.data()); }));
  if (checks()) timing.wrong += data_->in_place_after(calls).count_wrong(output);
  return {};
}

Status Bench::check_out_of_place(const Case& work, Timing& timing) {
  const std::span<std::byte> output = buffers_.output.first(work.bytes);
  for (int i = 0; i < options_.check; ++i) {
    std::memset(output.data(), static_cast<int>(kPoison), output.size());
    WREATH_TRY(call(work, buffers_.input[static_cast<std::size_t>(i & 1)].first(0).data()));
    timing.wrong += data_->sum(i & 1).count_wrong(output);
  }
  return {};
}

Status Bench::check_in_place(const Case& work, Timing& timing) {
  const std::span<std::byte> output = buffers_.output.first(work.bytes);
  for (int i = 0; i < options_.check; ++i) {
    data_->in_place_input().fill(output);
    WREATH_TRY(call(work, output.data()));
    timing.wrong += data_->in_place_after(1).count_wrong(output);
  }
  return {};
}

Result<Timing> Bench::out_of_place(const Case& work) {
  prepare(work);
  Timing timing;
  WREATH_TRY(check_out_of_place(work, timing));
  for (int i = 0; i < options_.warmup; ++i) {
    WREATH_TRY(call(work, buffers_.input[static_cast<std::size_t>(i & 1)].first(0).data()));
  }
  const int second = checks() ? options_.iterations / 2 : 0;
  const int first = options_.iterations - second;
  WREATH_TRY(time_alternating(work, first, 0, timing));
  // The second half ends on the input that the first did not end on.
  if (second > 0) WREATH_TRY(time_alternating(work, second, (first - second + 1) & 1, timing));
  timing.time_us /= options_.iterations;
  timing.out_of_bounds = buffers_.output.count_broken_guards(work.bytes);
  return timing;
}

Result<Timing> Bench::in_place(const Case& work) {
  prepare(work);
  Timing timing;
  WREATH_TRY(check_in_place(work, timing));
  data_->in_place_input().fill(buffers_.output.first(work.bytes));
  for (int i = 0; i < options_.warmup; ++i) WREATH_TRY(call(work, buffers_.output.first(0).data()));
  const int longest = options_.rewrite ? 1 : data_->exact_in_place_calls();
  for (int left = options_.iterations; left > 0; left -= longest) {
    WREATH_TRY(time_repeated(work, std::min(left, longest), timing));
  }
  timing.time_us /= options_.iterations;
  timing.out_of_bounds = buffers_.output.count_broken_guards(work.bytes);
  return timing;
}

Result<Timing> combine(Member& member, const Options& options, const Timing& mine) {
  std::vector<double> numbers{mine.time_us, static_cast<double>(mine.wrong), static_cast<double>(mine.out_of_bounds)};
  numbers.insert(numbers.end(), mine.iterations_us.begin(), mine.iterations_us.end());
  const auto all = gather(member, numbers);
  if (!all) return all.error();
  Timing result;
  std::vector<double> times;
  result.iterations_us.resize(mine.iterations_us.size());
  for (int rank = 0; rank < member.ranks(); ++rank) {
    const double* of_rank = all->data() + static_cast<std::size_t>(rank) * numbers.size();
    times.push_back(of_rank[0]);
    result.wrong += static_cast<std::uint64_t>(of_rank[1]);
    result.out_of_bounds += static_cast<std::uint64_t>(of_rank[2]);
    for (std::size_t i = 0; i < result.iterations_us.size(); ++i) {
      result.iterations_us[i] = std::max(result.iterations_us[i], of_rank[3 + i]);
    }
  }
  result.time_us = average_of(options.average, times);
  return result;
}

}  // namespace wreath::perf
