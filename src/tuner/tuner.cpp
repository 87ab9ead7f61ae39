// Chooses a row for a query: the named one, the rules' one, or the first that serves.
#include "src/tuner/tuner.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "src/tuner/rules.hpp"
#include "src/tuner/single_copy.hpp"
#include "wreath/link.hpp"
#include "wreath/units.hpp"

namespace wreath {
namespace {

bool serves(const TunerContext& context, const Algorithm& row, const Query& query) {
  return row.collective == query.collective && row.supports({query.collective, context.ranks, 0}) &&
         (!query.varying || (row.traits & kVarying) != 0);
}

// Returns whether the row may be chosen. Two ranks have one order only.
bool eligible(const TunerContext& context, const Algorithm& row, const Query& query) {
  return serves(context, row, query) && (!context.reproducible || row.order == Order::Canonical || context.ranks <= 2);
}

const Algorithm* named_row(const TunerContext& context, const Query& query) {
  if (context.algorithm.empty()) return nullptr;
  const Algorithm* row = find_algorithm(query.collective, context.algorithm);
  return row != nullptr && serves(context, *row, query) ? row : nullptr;
}

// Returns the named row, else the rule's row, or where it does not serve the first that does.
const Algorithm* row_of(const TunerContext& context, const Query& query, std::string_view rule) {
  if (const Algorithm* row = named_row(context, query)) return row;
  const Algorithm* row = find_algorithm(query.collective, rule);
  if (row != nullptr && eligible(context, *row, query)) return row;
  for (const Algorithm& other : algorithms()) {
    if (eligible(context, other, query)) return &other;
  }
  return nullptr;
}

// Returns how much a rank tells the others on the small path: its block, or all that it has.
std::size_t small_bytes(const TunerContext& context, const Query& query) {
  const bool one_block = query.collective == Collective::AllGather || query.collective == Collective::Gather;
  return one_block ? query.bytes / static_cast<std::size_t>(context.ranks) : query.bytes;
}

// Returns the largest message of the small path. Over a wire it serves two ranks, by messages that are no tiles.
std::size_t most_small_bytes(const TunerContext& context, Collective collective) {
  if (!context.all_mapped()) {
    const bool pair = context.ranks == 2 && !context.gpus;
    return pair ? std::min(kPairMessageBytes, context.slot_bytes) : 0;
  }
  if (collective == Collective::AllReduce) return context.small.sum_bytes;
  return has_root(collective) ? context.small.rooted_bytes : context.small.block_bytes;
}

// Returns whether the small path serves: it does what one_shot and direct do. A barrier is an all_reduce of one byte.
bool serves_small(const TunerContext& context, const Query& query, const Algorithm* row) {
  const bool plain = context.data_lanes == 0 && context.tile_bytes == 0 && !query.premultiplied && !query.varying;
  const std::size_t most = most_small_bytes(context, query.collective);
  if (!plain || most == 0 || query.bytes == kUnknownBytes) return false;
  if (query.collective == Collective::Barrier) return named_row(context, query) == nullptr;
  const std::string_view same = query.collective == Collective::AllReduce ? "one_shot" : "direct";
  return row != nullptr && row->name == same && small_bytes(context, query) <= most;
}

// Returns the lanes of a call on GPUs. A lane is a block of a GPU, which has 100 and more: there are as many as have
// something to do, and a FIFO. The rules' rows have up to 3 lanes for each share of the data, others up to 4, of 15.
// This is not measured yet.
int lanes_of_gpus(const Query& query, bool row_of_rule) {
  constexpr std::size_t kLaneBytes = std::size_t{512} << 10;
  const std::size_t most = row_of_rule ? 5 : 3;
  return static_cast<int>(std::clamp<std::size_t>(query.bytes / kLaneBytes, 1, most));
}

// Returns whether tiles should fit one ping-pong slot each. With two, all_reduces of 256 KiB to 4 MiB take up to a
// tenth longer, since sums begin later. Where only one rank sends, none comes back to be filled, and smaller tiles
// would let it be fewer bytes ahead. Beyond the caches the rounds between two ranks cost a sum more than slots save.
// The kernel's copies (0007) need no slots; blocks of an all_to_all that differ in size may be as large.
bool plays_ping_pong(const TunerContext& context, const Query& query) {
  if (!context.ping_pong || has_root(query.collective)) return false;
  if (query.collective == Collective::AllReduce) return query.bytes <= 2 * context.ping_pong->streamed_bytes;
  if (!context.single_copy) return true;
  if (query.bytes == kUnknownBytes) return query.collective != Collective::AllToAll;
  return !pair_rule(query.collective, *context.ping_pong).covers(query.bytes);
}

}  // namespace

TunerContext plain_context(int ranks, std::string_view wire, bool reproducible) {
  TunerContext context;
  context.ranks = ranks;
  context.wire = wire;
  context.reproducible = reproducible;
  context.slot_bytes = kLargestTile;
  return context;
}

Status check_tuning(const TunerContext& context) {
  if (context.algorithm.empty()) return {};
  std::set<std::string_view> known;
  for (const Algorithm& row : algorithms()) {
    if (row.supports({row.collective, context.ranks, 0})) known.insert(row.name);
  }
  if (known.contains(context.algorithm)) return {};
  return Error{ErrorCode::InvalidArgument, fmt::format("algorithm '{}' does not serve {} ranks; these do: {}",
                                                       context.algorithm, context.ranks, fmt::join(known, " "))};
}

const MeasuredRule* measured_rule(const TunerContext& context, const Query& query) {
  if (context.measured.empty() || !context.algorithm.empty()) return nullptr;
  const MeasuredRule* rule =
      context.measured.find({query.collective, context.ranks, context.wire, context.gpus, query.bytes});
  return rule != nullptr && eligible(context, *rule->algorithm, query) ? rule : nullptr;
}

Choice choose(const TunerContext& context, const Query& query) {
  const RuleKey key{query.collective, context.ranks, context.all_mapped(), context.crowded};
  const Rule& rule = rule_of(key, query.bytes);
  const MeasuredRule* measured = measured_rule(context, query);
  Choice choice;
  choice.algorithm = measured != nullptr ? measured->algorithm : row_of(context, query, rule.algorithm);
  if (context.gpus) {
    const bool row_of_rule = choice.algorithm != nullptr && choice.algorithm->name == rule.algorithm;
    choice.data_lanes = lanes_of_gpus(query, row_of_rule);
  }
  if (context.data_lanes > 0) choice.data_lanes = context.data_lanes;
  std::size_t tile =
      plays_ping_pong(context, query) ? std::min(rule.tile_bytes, PingPongSlots::kBytes) : rule.tile_bytes;
  if (measured != nullptr && measured->tile_bytes > 0) tile = measured->tile_bytes;
  if (context.tile_bytes > 0) tile = context.tile_bytes;
  choice.tile_bytes = std::min(tile, context.slot_bytes);
  choice.small = serves_small(context, query, choice.algorithm);
  if (query.collective == Collective::Barrier && choice.small) {
    choice.algorithm = find_algorithm(Collective::AllReduce, "one_shot");
  }
  return choice;
}

std::string why_not(const TunerContext& context, const Algorithm& row, const Query& query) {
  if (!row.supports({query.collective, context.ranks, 0})) return fmt::format("does not serve {} ranks", context.ranks);
  if (!serves(context, row, query)) return "blocks must not vary in size";
  if (!eligible(context, row, query)) return fmt::format("sums in {} order, not the canonical one", name(row.order));
  return {};
}

std::string_view why(const TunerContext& context, const Query& query) {
  if (named_row(context, query) != nullptr) return "asked for by name";
  return measured_rule(context, query) != nullptr ? "measured on this machine" : "by rule";
}

Error no_row(const TunerContext& context, const Query& query) {
  return {ErrorCode::Unavailable,
          fmt::format("no {}algorithm of {} serves {} ranks", context.reproducible ? "reproducible " : "",
                      name(query.collective, query.varying), context.ranks)};
}

std::string describe(const Choice& choice) {
  if (choice.algorithm == nullptr) return "none";
  return fmt::format("{} lanes={} tile={} order={}", choice.algorithm->name, choice.data_lanes,
                     choice.small ? "small" : format_bytes(choice.tile_bytes), name(choice.algorithm->order));
}

}  // namespace wreath
