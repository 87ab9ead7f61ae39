// Proves one point.
#include "src/schedule/verify.hpp"

#include <fmt/format.h>

#include <string>

#include "src/schedule/checker.hpp"

namespace wreath {
namespace {

// The most cells that verify() holds: some GiB.
constexpr std::uint64_t kMaximumCells = std::uint64_t{1} << 26;

Status check_size(const Machine& machine, const Problem& problem, const Shapes& shapes) {
  const std::uint64_t cells = Cells::count(machine, problem, shapes);
  if (cells <= kMaximumCells) return {};
  return Error{ErrorCode::InvalidArgument,
               fmt::format("{} tiles a lane are more than can be proved: they have {} cells, the limit is {}: take "
                           "larger tiles",
                           shapes.tiles(), cells, kMaximumCells)};
}

// Checks that shares and tiles of a part follow each other without a gap or an overlap, and end where the part does.
Status check_part(const Geometry& geometry, Buffer buffer, std::uint32_t part, Rank rank) {
  const ElementRange whole = (buffer == Buffer::Input ? geometry.input : geometry.output).part(part);
  std::uint64_t next = whole.first;
  for (std::uint32_t data_lane = 0; data_lane < geometry.data_lanes; ++data_lane) {
    for (std::uint32_t tile = 0; tile < geometry.tiles; ++tile) {
      const ElementRange range = geometry.range(buffer, part, data_lane, tile);
      if (range.count > 0 && range.first != next) {
        return Error{ErrorCode::Mismatch, fmt::format("rank {} part {} share {} tile {} starts at element {}, not {}",
                                                      rank, part, data_lane, tile, range.first, next)};
      }
      next += range.count;
    }
  }
  if (next == whole.first + whole.count) return {};
  return Error{ErrorCode::Mismatch, fmt::format("rank {} part {}: tiles hold {} of {} elements", rank, part,
                                                next - whole.first, whole.count)};
}

Status check_geometry(const Machine& machine, const Problem& problem, const Shapes& shapes) {
  for (Rank rank = 0; rank < machine.ranks(); ++rank) {
    for (const Buffer buffer : {Buffer::Input, Buffer::Output}) {
      const Holding held = holding(problem, buffer, rank);
      if (held == Holding::None) continue;
      const auto me = static_cast<std::uint32_t>(rank);
      const std::uint32_t first = held == Holding::OwnPart ? me : 0;
      const std::uint32_t end = held == Holding::OwnPart ? me + 1 : machine.parts();
      for (std::uint32_t part = first; part < end; ++part) {
        WREATH_TRY(check_part(shapes[rank], buffer, part, rank));
      }
    }
  }
  return {};
}

Error unsupported(const Algorithm& algorithm, const Problem& problem) {
  const std::string root = has_root(algorithm.collective) ? fmt::format(" with root {}", problem.root) : "";
  return {ErrorCode::InvalidArgument, fmt::format("{} {} does not support {} ranks{}", algorithm.name,
                                                  name(algorithm.collective), problem.ranks, root)};
}

}  // namespace

Status check_options(const Claim& claim, const VerifyOptions& options) {
  if (options.element_bytes == 0) return Error{ErrorCode::InvalidArgument, "elements of 0 bytes"};
  if (options.in_place && !has_in_place(claim.problem.collective)) {
    return Error{ErrorCode::InvalidArgument, fmt::format("no {} is in place", name(claim.problem.collective))};
  }
  if (options.block_counts.empty()) return {};
  if ((claim.traits & kVarying) == 0) return Error{ErrorCode::InvalidArgument, "the row has no blocks that vary"};
  const auto n = static_cast<std::size_t>(claim.problem.ranks);
  const std::size_t wanted = claim.problem.collective == Collective::AllToAll ? n * n : n;
  if (options.block_counts.size() == wanted) return {};
  return Error{ErrorCode::InvalidArgument,
               fmt::format("{} counts of blocks, not {}", options.block_counts.size(), wanted)};
}

Error in_problem(const Algorithm& algorithm, const Problem& problem, const Error& error, std::string_view point) {
  const std::string root = has_root(problem.collective) ? fmt::format(", root {}", problem.root) : "";
  return {error.code,
          fmt::format("{} {} on {} ranks{}{}{}: {}", algorithm.name, name(algorithm.collective), problem.ranks, root,
                      point.empty() ? "" : ", ", point, error.message),
          error.failed_rank};
}

Result<std::vector<Lowered>> lower_all(const Algorithm& algorithm, const Problem& problem, int data_lanes) {
  const bool is_rank = problem.root >= 0 && problem.root < problem.ranks;
  if (problem.ranks < 1 || !is_rank || !algorithm.supports(problem)) return unsupported(algorithm, problem);
  std::vector<Lowered> programs;
  for (Rank rank = 0; rank < problem.ranks; ++rank) {
    Result<Lowered> lowered =
        lower(algorithm.build(problem, rank), rank, data_lanes, has_in_place(algorithm.collective));
    if (!lowered) return in_problem(algorithm, problem, lowered.error());
    programs.push_back(*std::move(lowered));
  }
  return programs;
}

Status verify_values(const Machine& machine, const Claim& claim, const Shapes& shapes, bool in_place,
                     std::uint32_t operations) {
  WREATH_TRY(check_size(machine, claim.problem, shapes));
  WREATH_TRY(check_geometry(machine, claim.problem, shapes));
  const Extents extents = extents_of(machine, shapes);
  const auto prove = [&](const Values& values) -> Status {
    Checker checker(machine, claim, shapes, in_place, values);
    const Status status = run_to_end(machine, extents, {.operations = operations}, checker);
    return checker.fault().empty() ? status : Error{ErrorCode::Mismatch, checker.fault()};
  };
  if (claim.problem.collective != Collective::Barrier) return prove(Values(machine.ranks()));
  for (int window = 0; window * Values::kWindowRanks < machine.ranks(); ++window) {
    WREATH_TRY(prove(Values(machine.ranks(), window)));
  }
  return {};
}

Status verify_flow(const Machine& machine, const Extents& extents, const RunOptions& options) {
  RunHooks nothing;
  return run_to_end(machine, extents, options, nothing);
}

Status verify(std::span<const Lowered> programs, const Claim& claim, const VerifyOptions& options) {
  WREATH_TRY(check_options(claim, options));
  Result<Machine> machine = Machine::link(programs);
  if (!machine) return machine.error();
  if (machine->ranks() != claim.problem.ranks) {
    return Error{ErrorCode::InvalidArgument,
                 fmt::format("{} programs for {} ranks", machine->ranks(), claim.problem.ranks)};
  }
  const Shapes shapes(
      {claim.problem.collective, machine->ranks(), claim.traits, machine->parts(), machine->data_lanes()}, options);
  WREATH_TRY(verify_values(*machine, claim, shapes, options.in_place, options.operations));
  return verify_flow(*machine, extents_of(*machine, shapes),
                     {.slots = options.slots, .resident = options.resident, .operations = options.operations});
}

Status verify(const Algorithm& algorithm, const Problem& problem, const VerifyOptions& options) {
  Result<std::vector<Lowered>> programs = lower_all(algorithm, problem, options.data_lanes);
  if (!programs) return programs.error();
  return verify(*programs, {problem, algorithm.order, algorithm.traits}, options);
}

}  // namespace wreath
