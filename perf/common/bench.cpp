// The loops of a measurement.
#include "perf/common/bench.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <limits>

namespace wreath::perf {
namespace {

Status add_wrong(const Result<std::uint64_t>& counted, Timing& timing) {
  if (!counted) return counted.error();
  timing.wrong += *counted;
  return {};
}

constexpr std::size_t kSpots = 32;
// Each half has a call of both kinds.
constexpr int kFewestInTurns = 4;

using Clock = CommonStart::Clock;

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

}  // namespace

Bench::Bench(Member& member, const CollectiveRow& row, const Options& options, Buffers& buffers)
    : member_(member), start_(member), row_(row), options_(options), buffers_(buffers) {
  if (buffers.stream != nullptr) streamed_.emplace(member, *buffers.stream);
}

// ---- buffers ----

std::span<std::byte> Bench::input(int stream) const {
  return buffers_.input[static_cast<std::size_t>(stream)].first(bytes(shape_.input));
}

// Returns the one buffer of calls in place.
std::span<std::byte> Bench::shared_buffer() const {
  return buffers_.output.first(bytes(std::max(in_place_.input + shape_.input, in_place_.output + shape_.output)));
}

// Waits until the stream has done its work, so that the host may touch buffers.
Status Bench::settle() const { return buffers_.stream == nullptr ? Status() : buffers_.stream->synchronize(); }

Status Bench::poison_output() const {
  WREATH_TRY(settle());
  return buffers_.fill(output(), repeated(kPoison));
}

Status Bench::fill_input(int stream) const {
  WREATH_TRY(settle());
  return buffers_.fill(input(stream), data_->input(stream, seat_.rank));
}

Status Bench::fill_in_place() const {
  WREATH_TRY(settle());
  WREATH_TRY(buffers_.fill(shared_buffer(), repeated(kPoison)));
  const auto own = shared_buffer().subspan(bytes(in_place_.input), bytes(shape_.input));
  return buffers_.fill(own, data_->input(PatternSet::kInPlace, seat_.rank));
}

const Pattern& Bench::pattern_of(const Segment& segment, int stream, int calls) {
  if (segment.source != kCombined) return data_->input(stream, segment.source);
  if (stream != PatternSet::kInPlace) return data_->combined(stream);
  return data_->combined_in_place(calls, replaced_in_place(row_, seat_));
}

// Counts the wrong elements of a result that begins `offset` bytes after the output's start.
Result<std::uint64_t> Bench::count_wrong_output(std::size_t offset, int stream, int calls) {
  WREATH_TRY(settle());
  std::uint64_t wrong = 0;
  for (const Segment& each : segments_) {
    const std::byte* const part = output().data() + offset + bytes(each.first);
    const auto found =
        buffers_.count_wrong({part, bytes(each.count)}, pattern_of(each, stream, calls), each.source_first);
    if (!found) return found.error();
    wrong += *found;
  }
  return wrong;
}

Result<Timing> Bench::finished(Timing timing, std::size_t guarded) const {
  timing.time_us /= timing.iterations;
  const auto broken = buffers_.count_broken_guards(buffers_.output, guarded);
  if (!broken) return broken.error();
  timing.out_of_bounds = *broken;
  return timing;
}

// ---- calls ----

// Sets up the case: its data, and the places of its parts.
void Bench::prepare(const Case& work) {
  const std::optional<ReduceOp> op = row_.combines() ? std::optional(work.kind.op) : std::nullopt;
  if (!data_ || !data_->is_of(work.kind.dtype, op)) data_.emplace(work.kind.dtype, op, member_.ranks());
  work_ = work;
  seat_ = {member_.rank(), member_.ranks(), work.kind.root};
  shape_ = row_.shape(seat_, work.elements);
  in_place_ = row_.in_place(seat_, shape_);
  segments_ = row_.expected(seat_, work.elements);
}

// Chooses the bytes that are watched during the timed calls. These are bytes of the output, but in place only those
// that belong to no input.
void Bench::choose_spots(bool in_place) {
  spots_.clear();
  if (!checks() || (in_place && row_.combines()) || streamed_)
    // Calls in a stream are not checked one by one.
    return;
  const std::size_t each = kSpots / std::max<std::size_t>(segments_.size(), 1) + 1;
  std::byte* const result = buffers_.output.first(0).data() + (in_place ? bytes(in_place_.output) : 0);
  for (const Segment& segment : segments_) {
    const std::size_t size = bytes(segment.count);
    if (size == 0 || (in_place && segment.source == seat_.rank)) continue;
    for (std::size_t i = 0; i < each; ++i) {
      const std::size_t offset = i == 0 ? 0 : i == 1 ? size - 1 : i * 0x9e3779b97f4a7c15ULL % size;
      const auto expected = [&](int stream) {
        return pattern_of(segment, in_place ? PatternSet::kInPlace : stream)
            .byte_at(bytes(segment.source_first) + offset);
      };
      spots_.push_back({result + bytes(segment.first) + offset, {expected(0), expected(1)}});
    }
  }
}

Status Bench::call(const std::byte* from, std::byte* to) {
  return row_.call(row_, caller(), {seat_, work_.elements, work_.kind, from, to});
}

// Spoils one byte of the output, makes a call, and checks whether the byte is right.
Status Bench::call_spotted(int call_number, int stream, Timing& timing) {
  const bool in_place = stream == PatternSet::kInPlace;
  std::byte* const base = buffers_.output.first(0).data();
  const std::byte* from = in_place ? base + bytes(in_place_.input) : input(stream).data();
  std::byte* to = in_place ? base + bytes(in_place_.output) : base;
  if (spots_.empty()) return call(from, to);
  const Spot& spot = spots_[static_cast<std::size_t>(call_number) % spots_.size()];
  const std::byte expected = spot.expected[stream & 1];
  *spot.watched = ~expected;
  WREATH_TRY(call(from, to));
  timing.wrong += *spot.watched != expected ? 1U : 0U;
  return {};
}

// Makes a call that differs from those of the case, where it has elements to spare, or a root.
Status Bench::call_other(int stream) {
  const auto ranks = static_cast<std::size_t>(seat_.ranks);
  Invocation other{seat_, work_.elements > ranks ? work_.elements - ranks : work_.elements, work_.kind,
                   buffers_.input[static_cast<std::size_t>(stream)].first(0).data(), buffers_.output.first(0).data()};
  if (row_.rooted()) other.seat.root = other.kind.root = (seat_.root + 1) % seat_.ranks;
  return row_.call(row_, caller(), other);
}

// Returns the bytes of the output that calls out of place may write.
std::size_t Bench::guarded_bytes() const {
  Seat other = seat_;
  other.root = (seat_.root + 1) % seat_.ranks;
  const std::size_t more = options_.alternate && row_.rooted() ? row_.shape(other, work_.elements).output : 0;
  return bytes(std::max(shape_.output, more));
}

// Runs call(i) for i in 0..calls-1 once all ranks have come, and adds the time. `each` also keeps the time of each
// call, for -I.
template <typename Call>
Status Bench::timed(int calls, bool each, Timing& timing, Call call) {
  WREATH_TRY(settle());
  if (options_.counters) add_counters(timing.counters, member_.wire_counts(), -1);
  const Status done = timed_together(calls, each, timing, call);
  if (options_.counters) add_counters(timing.counters, member_.wire_counts());
  return done;
}

// Does the same, but counts nothing on the wires.
template <typename Call>
Status Bench::timed_together(int calls, bool each, Timing& timing, Call call) {
  const auto all = [&]() -> Status {
    for (int i = 0; i < calls; ++i) WREATH_TRY(call(i));
    return {};
  };
  if (buffers_.stream != nullptr) {
    WREATH_TRY(barrier(member_));
    const int launches = std::max(1, options_.graph_launches);
    const auto taken = options_.graph_launches > 0
                           ? time_graph(*buffers_.stream, launches, all, [&] { return barrier(member_); })
                           : time_on(*buffers_.stream, all);
    if (!taken) return taken.error();
    timing.time_us += static_cast<double>(*taken) / 1e3 / launches;
    return {};
  }
  const auto begun = begin_together();
  if (!begun) return begun.error();
  Clock::time_point start = *begun;
  if (!each) {
    WREATH_TRY(all());
    timing.time_us += microseconds_since(start);
    return {};
  }
  for (int i = 0; i < calls; ++i) {
    if (i > 0) start = Clock::now();
    WREATH_TRY(call(i));
    timing.iterations_us.push_back(microseconds_since(start));
    timing.time_us += timing.iterations_us.back();
  }
  return {};
}

// Returns when timed calls begin. A call that is timed alone begins at one instant on all ranks.
Result<Clock::time_point> Bench::begin_together() {
  if (options_.rewrite) return start_.wait();
  WREATH_TRY(barrier(member_));
  return Clock::now();
}

// Returns the time of so many calls on the slowest rank. It is the least of three trials, because another program may
// have delayed one.
template <typename Call>
Result<double> Bench::trial_us(int calls, Call call) {
  double least_us = std::numeric_limits<double>::infinity();
  for (int trial = 0; trial < 3; ++trial) {
    Timing mine;
    WREATH_TRY(timed(calls, false, mine, call));
    const auto all = gather(member_, std::span<const double>(&mine.time_us, 1));
    if (!all) return all.error();
    least_us = std::min(least_us, *std::max_element(all->begin(), all->end()));
  }
  return least_us;
}

// Returns the number of calls to time: -n, or as many as take --time on the slowest rank. It is collective.
template <typename Call>
Result<int> Bench::iterations(Call call) {
  if (options_.time_ms == 0) return options_.iterations;
  const double wanted_us = options_.time_ms * 1000;
  constexpr int kMost = 1 << 22;
  for (int calls = 1;; calls *= 4) {
    const auto slowest_us = trial_us(calls, call);
    if (!slowest_us) return slowest_us.error();
    if (*slowest_us < wanted_us / 16 && calls < kMost / 4) continue;
    return std::clamp(static_cast<int>(calls * wanted_us / *slowest_us), 2, kMost);
  }
}

// Times `calls` calls that alternate between the inputs, and compares the output at the end.
Status Bench::time_alternating(int calls, int first_stream, Timing& timing) {
  WREATH_TRY(poison_output());
  const auto one = [&](int i) -> Status {
    const int stream = stream_of(i, first_stream);
    return is_other(i, calls) ? call_other(1 - stream) : call_spotted(i, stream, timing);
  };
  if (!options_.rewrite) {
    WREATH_TRY(timed(calls, options_.per_iteration, timing, one));
  } else {
    for (int i = 0; i < calls; ++i) {
      const int stream = stream_of(i, first_stream);
      WREATH_TRY(fill_input(is_other(i, calls) ? 1 - stream : stream));
      WREATH_TRY(timed(1, options_.per_iteration, timing, [&](int) { return one(i); }));
    }
  }
  if (!checks()) return {};
  WREATH_TRY(add_wrong(count_wrong_output(0, stream_of(calls - 1, first_stream)), timing));
  return {};
}

// Times `calls` calls in place, each on the result of the call before.
Status Bench::time_repeated(int calls, Timing& timing) {
  WREATH_TRY(fill_in_place());
  WREATH_TRY(timed(calls, options_.per_iteration, timing,
                   [&](int i) { return call_spotted(i, PatternSet::kInPlace, timing); }));
  if (!checks()) return {};
  WREATH_TRY(add_wrong(count_wrong_output(bytes(in_place_.output), PatternSet::kInPlace, calls), timing));
  return {};
}

Status Bench::check_out_of_place(Timing& timing) {
  for (int i = 0; i < options_.check; ++i) {
    const int stream = i & 1;
    WREATH_TRY(poison_output());
    WREATH_TRY(call(input(stream).data(), output().data()));
    WREATH_TRY(add_wrong(count_wrong_output(0, stream), timing));
    WREATH_TRY(add_wrong(buffers_.count_wrong(input(stream), data_->input(stream, seat_.rank)), timing));
  }
  return {};
}

Status Bench::check_in_place(Timing& timing) {
  for (int i = 0; i < options_.check; ++i) {
    WREATH_TRY(fill_in_place());
    std::byte* const base = shared_buffer().data();
    WREATH_TRY(call(base + bytes(in_place_.input), base + bytes(in_place_.output)));
    WREATH_TRY(add_wrong(count_wrong_output(bytes(in_place_.output), PatternSet::kInPlace), timing));
  }
  return {};
}

Result<Timing> Bench::out_of_place(const Case& work) {
  prepare(work);
  for (const int stream : {0, 1}) WREATH_TRY(fill_input(stream));
  WREATH_TRY(buffers_.set_guards(buffers_.output, guarded_bytes()));
  choose_spots(false);
  Timing timing;
  WREATH_TRY(check_out_of_place(timing));
  const auto one = [&](int i) {
    const bool other = options_.alternate && (i & 1) != 0;
    return other ? call_other(0) : call(input(i & 1).data(), output().data());
  };
  const int warmup = options_.alternate ? 2 * options_.warmup : options_.warmup;
  for (int i = 0; i < warmup; ++i) WREATH_TRY(one(i));
  const auto chosen = iterations(one);
  if (!chosen) return chosen.error();
  timing.iterations = options_.alternate ? std::max(*chosen, kFewestInTurns) : *chosen;
  const int second = checks() ? timing.iterations / 2 : 0;
  const int first = timing.iterations - second;
  WREATH_TRY(time_alternating(first, 0, timing));
  // The second half ends on the input on which the first half did not end.
  const int next = 1 - stream_of(first - 1, 0);
  if (second > 0) WREATH_TRY(time_alternating(second, next ^ stream_of(second - 1, 0), timing));
  return finished(timing, guarded_bytes());
}

Result<Timing> Bench::in_place(const Case& work) {
  prepare(work);
  WREATH_TRY(buffers_.set_guards(buffers_.output, shared_buffer().size()));
  choose_spots(true);
  Timing timing;
  WREATH_TRY(check_in_place(timing));
  WREATH_TRY(fill_in_place());
  std::byte* const base = shared_buffer().data();
  const auto one = [&](int) { return call(base + bytes(in_place_.input), base + bytes(in_place_.output)); };
  for (int i = 0; i < options_.warmup; ++i) WREATH_TRY(one(i));
  const auto chosen = iterations(one);
  if (!chosen) return chosen.error();
  timing.iterations = *chosen;
  const int exact = checks() ? data_->exact_in_place_calls() : timing.iterations;
  const int longest = options_.rewrite ? 1 : exact;
  for (int left = timing.iterations; left > 0; left -= std::min(left, longest)) {
    WREATH_TRY(time_repeated(std::min(left, longest), timing));
  }
  return finished(timing, shared_buffer().size());
}

Result<Timing> combine(Member& member, const Options& options, const Timing& mine) {
  std::vector<double> numbers{mine.time_us, static_cast<double>(mine.wrong), static_cast<double>(mine.out_of_bounds)};
  numbers.insert(numbers.end(), mine.iterations_us.begin(), mine.iterations_us.end());
  if (options.counters) std::ranges::copy(numbers_of(mine.counters), std::back_inserter(numbers));
  const auto all = gather(member, numbers);
  if (!all) return all.error();
  Timing result;
  result.iterations = mine.iterations;
  add_counters(result.counters, mine.counters, 0);
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
    if (options.counters)
      add_numbers(result.counters, {of_rank + 3 + result.iterations_us.size(), numbers_of_counters()});
  }
  result.time_us = average_of(options.average, times);
  return result;
}

}  // namespace wreath::perf
