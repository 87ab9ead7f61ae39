// Rules from measurement (docs/decisions/0003): one machine, both wires; monotone in size.
#include "src/tuner/tuner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <span>

#include "wreath/transport.hpp"
#include "wreath/units.hpp"

namespace wreath {
namespace {

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;
constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

// For calls of up to `bytes` bytes.
struct Rule {
  std::size_t bytes;
  std::string_view algorithm;
  std::size_t tile_bytes;
};

// Peers that map each other's memory. Two ranks: one copy less beats half the reduction once the
// output has left the caches.
constexpr Rule kMappedPair[] = {
    {64 * kKiB, "one_shot", 16 * kKiB}, {16 * kMiB - 1, "two_shot", 256 * kKiB}, {kNoLimit, "one_shot", 128 * kKiB}};
constexpr Rule kMappedMany[] = {{16 * kKiB, "one_shot", 16 * kKiB}, {kNoLimit, "two_shot", 256 * kKiB}};
// A wire: few messages, large pieces.
constexpr Rule kWirePair[] = {{32 * kKiB, "one_shot", 32 * kKiB}, {kNoLimit, "two_shot", 512 * kKiB}};
constexpr Rule kWireMany[] = {{4 * kKiB, "one_shot", 4 * kKiB}, {kNoLimit, "two_shot", 256 * kKiB}};

std::span<const Rule> rules(const TunerContext& context) {
  if (context.all_mapped) return context.ranks == 2 ? std::span<const Rule>(kMappedPair) : kMappedMany;
  return context.ranks == 2 ? std::span<const Rule>(kWirePair) : kWireMany;
}

Problem problem_of(const TunerContext& context, Collective collective) { return {collective, context.ranks, 0}; }

bool eligible(const TunerContext& context, const Algorithm& row, Collective collective) {
  return row.collective == collective && row.supports(problem_of(context, collective)) &&
         (!context.reproducible || row.order == Order::Canonical || context.ranks <= 2);
}

// The rule's row, or where it does not serve so many ranks the first that does.
const Algorithm* row_of(const TunerContext& context, Collective collective, std::string_view name) {
  const Algorithm* row = find_algorithm(collective, name);
  if (row != nullptr && eligible(context, *row, collective)) return row;
  for (const Algorithm& other : algorithms()) {
    if (eligible(context, other, collective)) return &other;
  }
  return nullptr;
}

}  // namespace

Status check_tuning(const TunerContext& context, Collective collective) {
  if (context.algorithm.empty()) {
    if (row_of(context, collective, {}) != nullptr) return {};
    return Error{ErrorCode::Unavailable,
                 fmt::format("no reproducible algorithm of {} serves {} ranks", name(collective), context.ranks)};
  }
  const Algorithm* row = find_algorithm(collective, context.algorithm);
  if (row != nullptr && row->supports(problem_of(context, collective))) return {};
  std::string known;
  for (const Algorithm& other : algorithms()) {
    if (other.collective == collective && other.supports(problem_of(context, collective)))
      known += fmt::format(" {}", other.name);
  }
  return Error{
      ErrorCode::InvalidArgument,
      fmt::format("algorithm '{}' {} {} of {} ranks; these do:{}", context.algorithm,
                  row == nullptr ? "does not exist for" : "does not serve", name(collective), context.ranks, known)};
}

Choice choose(const TunerContext& context, Collective collective, std::size_t bytes) {
  const auto all = rules(context);
  const Rule& rule = *std::find_if(all.begin(), all.end(), [&](const Rule& r) { return bytes <= r.bytes; });
  Choice choice;
  choice.algorithm = context.algorithm.empty() ? row_of(context, collective, rule.algorithm)
                                               : find_algorithm(collective, context.algorithm);
  choice.data_lanes = context.data_lanes > 0 ? context.data_lanes : 1;
  choice.tile_bytes = std::min(context.tile_bytes > 0 ? context.tile_bytes : rule.tile_bytes, context.slot_bytes);
  const bool plain = context.data_lanes == 0 && context.tile_bytes == 0;
  choice.small = plain && context.all_mapped && bytes <= kSmallMessageBytes && choice.algorithm->name == "one_shot";
  return choice;
}

std::string describe(const Choice& choice) {
  return fmt::format("{} lanes={} tile={} order={}", choice.algorithm->name, choice.data_lanes,
                     choice.small ? "straight" : format_bytes(choice.tile_bytes),
                     choice.algorithm->order == Order::Canonical ? "canonical" : "ring");
}

}  // namespace wreath
