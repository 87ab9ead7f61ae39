// The table of meanings has a row per collective.
#include "src/schedule/meaning.hpp"

#include <array>

namespace wreath {
namespace {

// The holdings of a buffer on the root, and on other ranks.
struct Held {
  Holding root;
  Holding others;
};

// The ranks whose Input makes a part of Output.
enum class Origin : std::uint8_t { Everybody, Root, RankOfPart, Exchanged };

struct Row {
  Collective collective;
  Held input;
  Held output;
  Origin origin;
};

constexpr Held kNone{Holding::None, Holding::None};
constexpr Held kOwn{Holding::OwnPart, Holding::OwnPart};
constexpr Held kAll{Holding::AllParts, Holding::AllParts};
constexpr Held kAllOfRoot{Holding::AllParts, Holding::None};

constexpr std::array kRows{
    Row{Collective::AllReduce, kAll, kAll, Origin::Everybody},
    Row{Collective::ReduceScatter, kAll, kOwn, Origin::Everybody},
    Row{Collective::AllGather, kOwn, kAll, Origin::RankOfPart},
    Row{Collective::Broadcast, kAllOfRoot, kAll, Origin::Root},
    Row{Collective::Reduce, kAll, kAllOfRoot, Origin::Everybody},
    Row{Collective::AllToAll, kAll, kAll, Origin::Exchanged},
    Row{Collective::Gather, kOwn, kAllOfRoot, Origin::RankOfPart},
    Row{Collective::Scatter, kAllOfRoot, kOwn, Origin::Root},
    Row{Collective::Barrier, kAll, kAll, Origin::Everybody},
    // Each exchange makes promises of its own.
    Row{Collective::Exchange, kNone, kNone, Origin::Exchanged},
};

constexpr bool in_order() {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (static_cast<std::size_t>(kRows[i].collective) != i) return false;
  }
  return true;
}
static_assert(in_order());

const Row& row_of(Collective collective) { return kRows[static_cast<std::size_t>(collective)]; }

}  // namespace

Holding holding(const Problem& problem, Buffer buffer, Rank rank) noexcept {
  const Row& row = row_of(problem.collective);
  const Held& held = buffer == Buffer::Output ? row.output : row.input;
  return rank == problem.root ? held.root : held.others;
}

Owed owed(const Problem& problem, Rank rank, std::uint32_t part) noexcept {
  switch (row_of(problem.collective).origin) {
    case Origin::Everybody: return {true, 0, part};
    case Origin::Root: return {false, problem.root, part};
    case Origin::RankOfPart: return {false, static_cast<Rank>(part), part};
    case Origin::Exchanged: return {false, static_cast<Rank>(part), static_cast<std::uint32_t>(rank)};
  }
  return {};
}

bool has_in_place(Collective collective) noexcept {
  return collective != Collective::AllToAll && collective != Collective::Exchange;
}

}  // namespace wreath
