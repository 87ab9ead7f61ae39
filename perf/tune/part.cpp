// Runs the part of a started rank: all contests, the table, and rank 0's times.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "perf/base/sizes.hpp"
#include "perf/common/launch.hpp"
#include "perf/tune/contest.hpp"
#include "perf/tune/tune.hpp"
#include "src/command_line/threads.hpp"

namespace wreath::perf {
namespace {

// Returns the perf row that calls a collective as its algorithms serve it.
const CollectiveRow* row_of_collective(Collective collective) {
  const auto rows = collectives();
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const CollectiveRow& row) {
    return row.collective == collective && !row.has(kNoData);
  });
  return found == rows.end() ? nullptr : &*found;
}

std::string text_of(const Entrant& entrant, bool small) {
  if (small && entrant.tile_bytes == 0) return entrant.algorithm + " small";
  return fmt::format("{} {}", entrant.algorithm, format_bytes(entrant.tile_bytes));
}

class Part {
 public:
  Part(const TuneRequest& request, Communicator& all, Buffers& buffers)
      : request_(request),
        agreement_(all),
        arena_{agreement_, buffers, request.memory},
        start_(std::chrono::steady_clock::now()) {}

  Result<std::vector<TuningTime>> run() {
    const std::size_t count = request_.transports.size() * request_.collectives.size();
    for (std::size_t i = 0; i < count; ++i) {
      const std::string& transport = request_.transports[i / request_.collectives.size()];
      const Collective collective = request_.collectives[i % request_.collectives.size()];
      share_end_s_ = request_.seconds * static_cast<double>(i + 1) / static_cast<double>(count);
      WREATH_TRY(contest(collective, transport));
    }
    if (disturbed_ * kMostDisturbed > sizes_) {
      show(
          fmt::format("# {} of {} sizes took twice as long in one of two measurements: run it again when nothing else "
                      "runs\n",
                      disturbed_, sizes_));
    }
    return std::move(times_);
  }

 private:
  Status contest(Collective collective, const std::string& transport) {
    Contest contest(arena_, *row_of_collective(collective), transport);
    for (const std::size_t bytes : tuned_sizes(request_)) {
      const bool empty = make_case(*row_of_collective(collective), agreement_.ranks(), bytes, {}).count == 0;
      if (empty) continue;
      const auto elapsed = agreement_.largest(Seconds(std::chrono::steady_clock::now() - start_).count());
      if (!elapsed) return elapsed.error();
      if (*elapsed > share_end_s_ + kGrace * request_.seconds) {
        show(fmt::format("{:<6} {:<15} {:>8} and up: not measured, the time for it is over (see --seconds)\n",
                         transport, name(collective), format_bytes(bytes)));
        return {};
      }
      const auto size = contest.measure(bytes, *elapsed > share_end_s_ * kHurryAt);
      if (!size) return size.error();
      for (const Outcome& each : size->outcomes) {
        times_.push_back({collective, agreement_.ranks(), wire_of(transport), bytes, each.entrant.algorithm,
                          each.entrant.tile_bytes, each.time_us, streams(request_.memory)});
      }
      print(collective, transport, bytes, *size);
      ++sizes_;
      disturbed_ += size->disturbed ? 1 : 0;
    }
    return {};
  }

  void print(Collective collective, const std::string& transport, std::size_t bytes, const Contest::Size& size) {
    const auto own = std::find_if(size.outcomes.begin(), size.outcomes.end(),
                                  [&](const Outcome& each) { return each.entrant == size.own; });
    const Outcome& best = size.outcomes.front();
    show(fmt::format("{:<6} {:<15} {:>8} {:<25} {:>11.2f} {:<25} {:>11.2f} {:>6.2f}\n", transport, name(collective),
                     format_bytes(bytes), text_of(own->entrant, size.small), own->time_us,
                     text_of(best.entrant, size.small), best.time_us, own->time_us / best.time_us));
  }

  void show(const std::string& text) const {
    if (agreement_.rank() != 0) return;
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }

  // The share of the whole time by which a contest may exceed its own share.
  static constexpr double kGrace = 0.05;
  // The share of the time for the contests so far, after which a contest hurries.
  static constexpr double kHurryAt = 0.9;

  // One disturbed size of this many leads to a warning.
  static constexpr int kMostDisturbed = 20;

  const TuneRequest& request_;
  Agreement agreement_;
  Arena arena_;
  SteadyTime start_;
  double share_end_s_ = 0;
  std::vector<TuningTime> times_;
  int sizes_ = 0;
  int disturbed_ = 0;
};

// Makes buffers that are present and written, so that no call waits for the system's first pages.
Result<Buffers> make_buffers(const TuneRequest& request, int rank) {
  const std::size_t bytes = std::max(request.largest, request.smallest);
  const auto device = device_of(request.memory, rank);
  if (!device) return device.error();
  auto buffers = Buffers::make(bytes, 0, {request.memory, *device});
  if (!buffers || streams(request.memory)) return buffers;
  std::memset(buffers->input[0].first(bytes).data(), 0, bytes);
  std::memset(buffers->output.first(bytes).data(), 0, bytes);
  return buffers;
}

Result<std::vector<TuningTime>> measure(const TuneRequest& request, Communicator& all) {
  auto buffers = make_buffers(request, all.rank());
  if (!buffers) return buffers.error();
  return Part(request, all, *buffers).run();
}

}  // namespace

Status measure_part(const TuneRequest& request) {
  const auto place = read_place(request.start_descriptor);
  if (!place) return place.error();
  CommunicatorOptions options;
  options.tuning = "none";
  auto all = Communicator::create(place->id, place->process, place->processes, options);
  if (!all) return all.error();
  auto times = measure(request, *all);
  if (!times) return times.error();
  if (place->process != 0) return {};
  Tuning part = empty_tuning();
  part.times = *std::move(times);
  return write_tuning(part, request.part_file);
}

Result<std::vector<TuningTime>> measure_threads(const TuneRequest& request, int ranks) {
  CommunicatorOptions options;
  options.tuning = "none";
  auto all = Communicator::create_local(ranks, options);
  if (!all) return all.error();
  std::vector<Result<std::vector<TuningTime>>> times(all->size(), std::vector<TuningTime>());
  WREATH_TRY(command_line::run_threads(ranks, [&](int i) -> Status {
    const auto rank = static_cast<std::size_t>(i);
    const Status measured = command_line::guarded([&]() -> Status {
      times[rank] = measure(request, (*all)[rank]);
      return times[rank] ? Status() : Status(times[rank].error());
    });
    if (measured) return {};
    times[rank] = measured.error();
    return (*all)[rank].abort();  // the others wait for this rank
  }));
  for (const auto& each : times) {
    if (!each && each.error().code != ErrorCode::Aborted) return each.error();
  }
  return times.front();
}

}  // namespace wreath::perf
