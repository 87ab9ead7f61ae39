// Points and sweeps of points.
#include "src/schedule/verify.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>

#include "src/schedule/checker.hpp"

namespace wreath {
namespace {

// Cells that verify() holds at most: some GiB.
constexpr std::uint64_t kMaximumCells = std::uint64_t{1} << 26;

Status check_size(const Machine& machine, std::uint64_t tiles) {
  const std::uint64_t shares = std::uint64_t{machine.parts()} * machine.data_lanes();
  const std::uint64_t limit = kMaximumCells / (2 * shares * static_cast<std::uint64_t>(machine.ranks()));
  if (tiles <= limit) return {};
  return Error{ErrorCode::InvalidArgument,
               fmt::format("{} tiles a lane are more than {} can be proved with: take larger tiles", tiles, limit)};
}

// Parts, shares and tiles follow each other without a gap or an overlap, and end at the count.
Status check_geometry(const Machine& machine, const Geometry& geometry) {
  std::uint64_t next = 0;
  for (std::uint32_t part = 0; part < machine.parts(); ++part) {
    for (std::uint16_t lane = 0; lane < machine.data_lanes(); ++lane) {
      for (std::uint32_t tile = 0; tile < geometry.tiles; ++tile) {
        const ElementRange range = geometry.range(part, lane, tile);
        if (range.count > 0 && range.first != next) {
          return Error{ErrorCode::Mismatch, fmt::format("part {} share {} tile {} starts at element {}, not {}", part,
                                                        lane, tile, range.first, next)};
        }
        next += range.count;
      }
    }
  }
  if (next == geometry.count) return {};
  return Error{ErrorCode::Mismatch, fmt::format("tiles hold {} of {} elements", next, geometry.count)};
}

template <typename Hooks>
Status end_of_run(const Machine& machine, const RunOptions& options, Hooks& hooks, const std::string& fault) {
  using Run = GreedyRun<Hooks>;
  Run run(machine, options, hooks);
  switch (run.run()) {
    case Run::End::Done: return {};
    case Run::End::Hook: return Error{ErrorCode::Mismatch, fault};
    case Run::End::Deadlock: return Error{ErrorCode::Mismatch, "deadlock: " + run.stuck()};
    case Run::End::Leftover: return Error{ErrorCode::Mismatch, run.stuck()};
  }
  return {};
}

std::string resident_text(std::uint32_t resident) { return resident == kUnlimited ? "all" : std::to_string(resident); }

// All points of one problem and one number of data lanes.
class Sweep {
 public:
  Sweep(const Algorithm& algorithm, const Problem& problem, int data_lanes, const Machine& machine)
      : algorithm_(algorithm), problem_(problem), data_lanes_(data_lanes), machine_(machine) {}

  Result<std::uint64_t> run() {
    const auto n = static_cast<std::uint64_t>(problem_.ranks);
    const std::uint64_t tile = shape_.tile_bytes / shape_.element_bytes;
    const std::set<std::uint64_t> counts{0, 1, n - 1, n, n + 1, machine_.parts() * (3 * tile + 1)};
    for (const std::uint64_t count : counts) WREATH_TRY(values(count, count == n + 1 ? 2 : 1));
    const auto minimum = static_cast<std::uint32_t>(algorithm_.minimum_resident_lanes);
    const std::set<std::uint32_t> residents{minimum, std::max(minimum, 8u), kUnlimited};
    for (const std::uint32_t slots : kSlots) {
      for (const std::uint32_t resident : residents) {
        for (const std::uint32_t tiles : tiles_) WREATH_TRY(flow(slots, resident, tiles));
      }
    }
    return counts.size() * 2 * kSlots.size() * residents.size();
  }

 private:
  static constexpr std::array kSlots{1u, 2u, 8u};

  Error named(const Error& error, std::string_view point) const {
    return {error.code,
            fmt::format("{} {} on {} ranks, {}, {} data lanes: {}", algorithm_.name, name(algorithm_.collective),
                        problem_.ranks, point, data_lanes_, error.message),
            error.failed_rank};
  }

  Status values(std::uint64_t count, std::uint32_t operations) {
    const Geometry geometry = make_geometry(count, shape_.element_bytes, machine_.parts(),
                                            static_cast<std::uint32_t>(data_lanes_), shape_.tile_bytes);
    tiles_.insert(geometry.tiles);
    for (const bool in_place : {false, true}) {
      const Status status = verify_values(machine_, algorithm_.order, geometry, in_place, operations);
      if (!status) return named(status.error(), fmt::format("{} elements{}", count, in_place ? " in place" : ""));
    }
    return {};
  }

  Status flow(std::uint32_t slots, std::uint32_t resident, std::uint32_t tiles) {
    const Status status = verify_flow(machine_, {.slots = slots, .resident = resident, .tiles = tiles});
    if (status) return {};
    return named(status.error(),
                 fmt::format("{} tiles, {} slots, {} resident lanes", tiles, slots, resident_text(resident)));
  }

  const Algorithm& algorithm_;
  const Problem& problem_;
  int data_lanes_;
  const Machine& machine_;
  VerifyOptions shape_;
  std::set<std::uint32_t> tiles_;
};

}  // namespace

Result<std::vector<Lowered>> lower_all(const Algorithm& algorithm, const Problem& problem, int data_lanes) {
  if (problem.ranks < 1 || !algorithm.supports(problem)) {
    return Error{ErrorCode::InvalidArgument, fmt::format("{} {} does not support {} ranks", algorithm.name,
                                                         name(algorithm.collective), problem.ranks)};
  }
  std::vector<Lowered> programs;
  for (Rank rank = 0; rank < problem.ranks; ++rank) {
    Result<Lowered> lowered = lower(algorithm.build(problem, rank), rank, data_lanes);
    if (!lowered) return lowered.error();
    programs.push_back(*std::move(lowered));
  }
  return programs;
}

Status verify_values(const Machine& machine, Order order, const Geometry& geometry, bool in_place,
                     std::uint32_t operations) {
  WREATH_TRY(check_size(machine, divide_up(geometry.lane_stride, geometry.tile)));
  WREATH_TRY(check_geometry(machine, geometry));
  Checker checker(machine, order, geometry, in_place);
  return end_of_run(machine, {.tiles = geometry.tiles, .operations = operations}, checker, checker.fault());
}

Status verify_flow(const Machine& machine, const RunOptions& options) {
  RunHooks nothing;
  return end_of_run(machine, options, nothing, {});
}

Status verify(std::span<const Lowered> programs, Order order, const VerifyOptions& options) {
  Result<Machine> machine = Machine::link(programs);
  if (!machine) return machine.error();
  const Geometry geometry =
      make_geometry(options.count, options.element_bytes, machine->parts(), machine->data_lanes(), options.tile_bytes);
  WREATH_TRY(verify_values(*machine, order, geometry, options.in_place, options.operations));
  return verify_flow(*machine, {.slots = options.slots,
                                .resident = options.resident,
                                .tiles = geometry.tiles,
                                .operations = options.operations});
}

Status verify(const Algorithm& algorithm, const Problem& problem, const VerifyOptions& options) {
  Result<std::vector<Lowered>> programs = lower_all(algorithm, problem, options.data_lanes);
  if (!programs) return programs.error();
  return verify(*programs, algorithm.order, options);
}

Result<std::uint64_t> verify_all(const Algorithm& algorithm, const Problem& problem) {
  std::uint64_t points = 0;
  for (const int data_lanes : {1, 3}) {
    Result<std::vector<Lowered>> programs = lower_all(algorithm, problem, data_lanes);
    if (!programs) return programs.error();
    Result<Machine> machine = Machine::link(*programs);
    if (!machine) return machine.error();
    Result<std::uint64_t> proved = Sweep(algorithm, problem, data_lanes, *machine).run();
    if (!proved) return proved.error();
    points += *proved;
  }
  return points;
}

}  // namespace wreath
