// Chooses the entrants of a contest, runs its rounds, and removes early losers.
#include "perf/tune/contest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "perf/base/member.hpp"
#include "perf/base/statistics.hpp"
#include "perf/common/peer.hpp"
#include "perf/limits/machine.hpp"
#include "perf/tune/tune.hpp"
#include "wreath/units.hpp"

namespace wreath::perf {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::array<std::size_t, 4> kTiles{16 << 10, 64 << 10, 256 << 10, 512 << 10};
constexpr std::array<std::size_t, 2> kLargeTiles{128 << 10, 512 << 10};
// From this size on there are fewer tiles.
constexpr std::size_t kLargeBytes = 4 << 20;
// From this size on losers of the size before are left out.
constexpr std::size_t kChancesBytes = 256 << 10;
// An entrant that takes this many times the best time gets no more rounds.
constexpr double kLoses = 1.5;
// The library's choice is doubted where it takes this many times the best time.
constexpr double kClearly = 1.05;
// A row that takes this many times the least estimate gets no round at all.
constexpr double kHopeless = 4;
constexpr double kDisturbed = 2;
constexpr double kRoundUs = 1000;
// The time to warm up a connection, whose windows grow with the bytes that it has carried.
constexpr double kWarmUs = 15'000;
constexpr std::size_t kWindowBytes = 64 << 10;
constexpr int kRounds = 7;
constexpr int kChances = 2;  // rounds for all entrants
constexpr int kHurriedRounds = 3;
constexpr std::string_view kSmall = "small";

bool faster(const Outcome& a, const Outcome& b) { return a.time_us < b.time_us; }

double least(const std::vector<double>& values) { return *std::min_element(values.begin(), values.end()); }

// Splits a plan such as "two_shot lanes=1 tile=256K order=canonical" into the row and the text of the tile.
std::pair<std::string, std::string> parse_plan(const std::string& plan) {
  constexpr std::string_view kTile = "tile=";
  const std::size_t tile = plan.find(kTile);
  const std::size_t first = tile == std::string::npos ? plan.size() : tile + kTile.size();
  return {plan.substr(0, plan.find(' ')), plan.substr(first, plan.find(' ', first) - first)};
}

// Returns the transports that map memory. Ranks are threads or processes, and may read each other's device memory
// beside the host's memory.
std::vector<std::string> all_that_map_memory() {
  std::vector<std::string> names{std::string(kDeviceReach)};
  for (const TransportRow& row : transports()) {
    if (!row.is_wire()) names.emplace_back(row.name);
  }
  return names;
}

}  // namespace

Result<double> Agreement::largest(double mine) {
  WREATH_TRY(all_.all_reduce(std::span(&mine, 1), ReduceOp::Max));
  return mine;
}

Result<Communicator> Agreement::create(const CommunicatorOptions& options) { return create_alike(all_, options); }

Contest::Contest(const Arena& arena, const CollectiveRow& row, std::string transport)
    : agreement_(arena.agreement),
      buffers_(arena.buffers),
      memory_(arena.memory),
      row_(row),
      transport_(std::move(transport)),
      cores_(streams(memory_) ? std::vector<int>() : pick_cores(agreement_.ranks())) {}

Result<Communicator> Contest::create(const Entrant& entrant) {
  CommunicatorOptions options;
  options.transports = {transport_};
  if (streams(memory_)) {
    options.device = device_names(memory_, agreement_.rank());
    if (maps_memory(transport_)) options.transports = all_that_map_memory();
  }
  options.overrides.algorithm = entrant.algorithm;
  options.overrides.tile_bytes = entrant.tile_bytes;
  options.tuning = "none";
  return agreement_.create(options);
}

Result<Contest::Player*> Contest::player(const Entrant& entrant) {
  const auto found = players_.find(entrant);
  if (found != players_.end()) return &found->second;
  auto made = create(entrant);
  if (!made) return made.error();
  return &players_.emplace(entrant, Player{*std::move(made)}).first->second;
}

Result<Entrant> Contest::own_choice(const Case& work) {
  const auto plain = player({});
  if (!plain) return plain.error();
  const auto [algorithm, tile] = parse_plan((*plain)->communicator.plan_for(row_.collective, work.bytes));
  if (tile == kSmall) return Entrant{algorithm, 0};
  const auto bytes = parse_bytes(tile);
  if (!bytes) return bytes.error();
  return Entrant{algorithm, static_cast<std::size_t>(*bytes)};
}

// Returns whether the row's steps and bytes alone show that it takes several times as long as another row.
bool Contest::hopeless(const Algorithm& row, std::size_t bytes) const {
  const auto estimate_us = [&](const Algorithm& each) {
    const Cost cost = each.cost({row_.collective, agreement_.ranks(), 0});
    return 2.0 * cost.steps + cost.bytes * static_cast<double>(bytes) / 3e3;
  };
  double least = std::numeric_limits<double>::infinity();
  for (const Algorithm& each : algorithms()) {
    if (each.collective == row_.collective && each.supports({row_.collective, agreement_.ranks(), 0})) {
      least = std::min(least, estimate_us(each));
    }
  }
  return estimate_us(row) > kHopeless * least;
}

bool Contest::lost_before(const Entrant& entrant, std::size_t bytes) const {
  if (bytes < kChancesBytes || before_.empty()) return false;
  const auto same =
      std::find_if(before_.begin(), before_.end(), [&](const Outcome& each) { return each.entrant == entrant; });
  return same != before_.end() && same->time_us > kLoses * before_.front().time_us;
}

void Contest::add_tiles(const Algorithm& row, std::size_t bytes, std::vector<Entrant>& all) const {
  const bool large = bytes >= kLargeBytes;
  for (const std::size_t tile : large ? std::span<const std::size_t>(kLargeTiles) : kTiles) {
    const Entrant entrant{std::string(row.name), tile};
    if (!lost_before(entrant, bytes)) all.push_back(entrant);
    if (tile >= bytes) break;  // one tile: larger ones are the same
  }
}

Result<std::vector<Entrant>> Contest::entrants(const Case& work, const Entrant& own) {
  std::vector<Entrant> all{own};
  for (const Algorithm& row : algorithms()) {
    if (row.collective != row_.collective || !row.supports({row.collective, agreement_.ranks(), 0})) continue;
    if (hopeless(row, work.bytes)) continue;
    const auto named = player({std::string(row.name), 0});
    if (!named) return named.error();
    if (parse_plan((*named)->communicator.plan_for(row_.collective, work.bytes)).second == kSmall) {
      all.push_back({std::string(row.name), 0});
    } else {
      add_tiles(row, work.bytes, all);
    }
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

Result<double> Contest::time_us(Running& running, const Case& work, int calls) {
  CommunicatorMember member(running.player->communicator);
  const Invocation invocation{{agreement_.rank(), agreement_.ranks(), 0},
                              work.elements,
                              work.kind,
                              buffers_.input[0].first(1).data(),
                              buffers_.output.first(1).data()};
  WREATH_TRY(agreement_.barrier());
  const auto start = Clock::now();
  for (int call = 0; call < calls; ++call) WREATH_TRY(row_.call(row_, member, invocation));
  const double us = Seconds(Clock::now() - start).count() * 1e6 / calls;
  return agreement_.largest(us);
}

// Warms up a communicator, whose first call makes its plan and its staging memory.
Status Contest::warm_up(Running& running, const Case& work) {
  const auto first = time_us(running, work, 1);
  if (!first) return first.error();
  auto estimate = first;
  const bool cold = !std::exchange(running.player->warm, true) || work.bytes >= kWindowBytes;
  const double warm_us = cold ? kWarmUs : kRoundUs;
  for (double spent_us = *first; spent_us < warm_us;) {
    const int calls = static_cast<int>(std::clamp(warm_us / 3 / *estimate, 1.0, 2000.0));
    estimate = time_us(running, work, calls);
    if (!estimate) return estimate.error();
    spent_us += *estimate * calls;
  }
  running.calls = static_cast<int>(std::clamp(kRoundUs / *estimate, 1.0, 2000.0));
  return {};
}

// Runs the rounds in turns, so that a disturbance of the machine disturbs all entrants. An entrant that is far behind
// even at its best leaves.
Status Contest::run_rounds(std::vector<Running*> all, const Case& work, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    if (round >= kChances) {
      double best = std::numeric_limits<double>::infinity();
      for (const Running* each : all) best = std::min(best, least(each->times_us));
      std::erase_if(all, [&](const Running* each) { return least(each->times_us) > kLoses * best; });
    }
    for (Running* each : all) {
      const auto us = time_us(*each, work, each->calls);
      if (!us) return us.error();
      each->times_us.push_back(*us);
    }
  }
  return {};
}

Status Contest::run(std::vector<Running>& all, const Case& work, int rounds) {
  // The thread is not bound while communicators are made, since they count the cores that their threads may use.
  std::optional<Pin> pin;
  if (!cores_.empty()) pin.emplace(cores_[static_cast<std::size_t>(agreement_.rank())]);
  std::vector<Running*> everybody;
  for (Running& each : all) {
    WREATH_TRY(warm_up(each, work));
    everybody.push_back(&each);
  }
  return run_rounds(std::move(everybody), work, rounds);
}

// Measures the fastest entrant and the library's choice again over new connections. Some of many entrants look fast by
// chance, and some connections are slow by chance. The better of its two times counts for each.
Status Contest::run_off(Size& size, const Case& work, int rounds) {
  std::vector<Outcome>& outcomes = size.outcomes;
  const auto fastest = std::min_element(outcomes.begin(), outcomes.end(), faster);
  const auto mine =
      std::find_if(outcomes.begin(), outcomes.end(), [&](const Outcome& each) { return each.entrant == size.own; });
  if (mine->time_us <= kClearly * fastest->time_us) return {};
  std::vector<Player> fresh;
  for (const auto& each : {fastest, mine}) {
    auto made = create(each->entrant);
    if (!made) return made.error();
    fresh.push_back({*std::move(made)});
  }
  std::vector<Running> both{{fastest->entrant, &fresh[0], 1, {}}, {mine->entrant, &fresh[1], 1, {}}};
  WREATH_TRY(run(both, work, rounds));
  const double again_us = median(both[1].times_us);
  size.disturbed = std::max(again_us, mine->time_us) > kDisturbed * std::min(again_us, mine->time_us);
  fastest->time_us = std::min(fastest->time_us, median(both[0].times_us));
  mine->time_us = std::min(mine->time_us, again_us);
  return {};
}

Result<Contest::Size> Contest::measure(std::size_t bytes, bool hurried) {
  const Case work = make_case(row_, agreement_.ranks(), bytes, {});
  const int rounds = hurried ? kHurriedRounds : kRounds;
  Size size;
  const auto own = own_choice(work);
  if (!own) return own.error();
  size.own = *own;
  size.small = own->tile_bytes == 0;
  const auto names = entrants(work, *own);
  if (!names) return names.error();
  std::vector<Running> all;
  for (const Entrant& entrant : *names) {
    const auto made = player(entrant);
    if (!made) return made.error();
    all.push_back({entrant, *made, 1, {}});
  }
  WREATH_TRY(run(all, work, rounds));
  for (const Running& each : all) size.outcomes.push_back({each.entrant, median(each.times_us)});
  WREATH_TRY(run_off(size, work, rounds));
  std::sort(size.outcomes.begin(), size.outcomes.end(), faster);
  before_ = size.outcomes;
  return size;
}

}  // namespace wreath::perf
