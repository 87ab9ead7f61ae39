// verify_all() makes the points of one problem, and makes no run twice.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <vector>

#include "src/schedule/verify.hpp"

namespace wreath {
namespace {

constexpr std::array kSlots{1u, 2u, 8u};
constexpr std::uint64_t kTileElements = 2;

std::string resident_text(std::uint32_t resident) { return resident == kUnlimited ? "all" : std::to_string(resident); }

// The sizes of one vector's blocks: without elements, with one element, or with several tiles.
enum class Ragged : std::uint8_t { MostlyNone, OneLarge, Mixed };

std::uint64_t block_count(Ragged shape, std::uint64_t block, std::uint64_t blocks) {
  constexpr std::array<std::uint64_t, 5> kMixed{3, 0, 1, 3 * kTileElements + 1, kTileElements};
  switch (shape) {
    case Ragged::MostlyNone: return block == blocks - 1 ? 1 : 0;
    case Ragged::OneLarge: return block == blocks / 2 ? 3 * kTileElements + 1 : 1;
    case Ragged::Mixed: return kMixed[block * 7 % 5];
  }
  return 0;
}

// Proves all points of one problem and one number of data lanes.
class Sweep {
 public:
  Sweep(const Algorithm& algorithm, const Problem& problem, const Machine& machine)
      : algorithm_(algorithm), problem_(problem), machine_(machine) {
    const int chunks = (algorithm.traits & kSeveralParts) != 0 ? std::min(problem.ranks, kMaximumMessageParts) : 1;
    shape_.tile_bytes = kTileElements * shape_.element_bytes * static_cast<std::uint64_t>(chunks);
  }

  Result<std::uint64_t> run() {
    for (const std::uint64_t count : counts()) {
      shape_.count = count;
      WREATH_TRY(values(fmt::format("{} elements", count)));
    }
    if ((algorithm_.traits & kVarying) != 0) {
      for (const Ragged ragged : {Ragged::MostlyNone, Ragged::OneLarge, Ragged::Mixed}) {
        shape_.block_counts = block_counts(ragged);
        WREATH_TRY(values(fmt::format("blocks of {} elements", fmt::join(shape_.block_counts, ", "))));
      }
    }
    const auto minimum = static_cast<std::uint32_t>(algorithm_.minimum_resident_lanes);
    const std::set<std::uint32_t> residents{minimum, std::max(minimum, 8u), kUnlimited};
    // More slots and more resident lanes only add to what may happen next, and nothing that happens prevents another
    // event. So the least of both decides for all.
    for (const Extents& extents : extents_) WREATH_TRY(flow(extents, kSlots.front(), minimum));
    return points_ * kSlots.size() * residents.size();
  }

 private:
  std::set<std::uint64_t> counts() const {
    const auto n = static_cast<std::uint64_t>(problem_.ranks);
    const std::uint64_t several_tiles = 3 * kTileElements + 1;
    if (moves_blocks(problem_.collective)) return {0, 1, kTileElements, several_tiles};
    return {0, 1, n - 1, n, n + 1, machine_.parts() * several_tiles};
  }

  std::vector<std::uint64_t> block_counts(Ragged ragged) const {
    const auto n = static_cast<std::uint64_t>(problem_.ranks);
    const std::uint64_t blocks = problem_.collective == Collective::AllToAll ? n * n : n;
    std::vector<std::uint64_t> counts;
    for (std::uint64_t block = 0; block < blocks; ++block) counts.push_back(block_count(ragged, block, blocks));
    return counts;
  }

  Error named(const Error& error, std::string_view point) const {
    return in_problem(algorithm_, problem_, error, fmt::format("{}, {} data lanes", point, machine_.data_lanes()));
  }

  Status values(const std::string& point) {
    const Shapes shapes(
        {problem_.collective, problem_.ranks, algorithm_.traits, machine_.parts(), machine_.data_lanes()}, shape_);
    const Claim claim{problem_, algorithm_.order, algorithm_.traits};
    extents_.insert(extents_of(machine_, shapes));
    for (const bool in_place : {false, true}) {
      if (in_place && !has_in_place(problem_.collective)) continue;
      const Status status = verify_values(machine_, claim, shapes, in_place, 2);
      if (!status) return named(status.error(), point + (in_place ? " in place" : ""));
      ++points_;
    }
    return {};
  }

  Status flow(const Extents& extents, std::uint32_t slots, std::uint32_t resident) {
    const Status status = verify_flow(machine_, extents, {.slots = slots, .resident = resident});
    if (status) return {};
    const std::uint32_t tiles =
        extents.lanes.empty() ? 0 : *std::max_element(extents.lanes.begin(), extents.lanes.end());
    return named(status.error(),
                 fmt::format("{} tiles, {} slots, {} resident lanes", tiles, slots, resident_text(resident)));
  }

  const Algorithm& algorithm_;
  const Problem& problem_;
  const Machine& machine_;
  VerifyOptions shape_;
  std::set<Extents> extents_;
  std::uint64_t points_ = 0;
};

}  // namespace

Result<std::uint64_t> verify_all(const Algorithm& algorithm, const Problem& problem) {
  std::uint64_t points = 0;
  for (const int data_lanes : {1, 3}) {
    Result<std::vector<Lowered>> programs = lower_all(algorithm, problem, data_lanes);
    if (!programs) return programs.error();
    Result<Machine> machine = Machine::link(*programs);
    if (!machine) return in_problem(algorithm, problem, machine.error());
    Result<std::uint64_t> proved = Sweep(algorithm, problem, *machine).run();
    if (!proved) return proved.error();
    points += *proved;
  }
  return points;
}

}  // namespace wreath
