// Holds the rules. Those of all_reduce come from measurement (docs/decisions/0003) of one machine and both wires. The
// others take log-step rows where latency counts, and direct ones where peers read each other's memory. They take
// chains and pairs where a wire is to be filled.
#include "src/tuner/rules.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "wreath/schedule.hpp"

namespace wreath {
namespace {

using Rules = std::span<const Rule>;

constexpr Rule kAllReduceMappedPair[] = {{64 * kKiB, "one_shot", 64 * kKiB}, {kNoLimit, "two_shot", 256 * kKiB}};
constexpr Rule kAllReduceMappedMany[] = {{16 * kKiB, "one_shot", 16 * kKiB}, {kNoLimit, "two_shot", 256 * kKiB}};
// A wire gets few messages and large pieces.
constexpr Rule kAllReduceWirePair[] = {{64 * kKiB, "one_shot", 64 * kKiB}, {kNoLimit, "two_shot", 512 * kKiB}};
constexpr Rule kAllReduceWireMany[] = {{4 * kKiB, "one_shot", 4 * kKiB}, {kNoLimit, "two_shot", 256 * kKiB}};
constexpr Rule kAllReduceWireCrowded[] = {{32 * kKiB, "recursive_doubling", 32 * kKiB},
                                          {kNoLimit, "two_shot", 256 * kKiB}};

// These rows send at most one message a pair of ranks, to or from each peer at once.
constexpr Rule kDirectMapped[] = {{kMiB, "direct", 128 * kKiB}, {kNoLimit, "direct", 256 * kKiB}};
constexpr Rule kDirectWire[] = {{64 * kKiB, "direct", 64 * kKiB}, {kNoLimit, "direct", 256 * kKiB}};

constexpr Rule kReduceScatterWireMany[] = {{8 * kKiB, "recursive_halving", 64 * kKiB},
                                           {kNoLimit, "direct", 256 * kKiB}};
constexpr Rule kAllGatherWireMany[] = {{32 * kKiB, "bruck", 64 * kKiB}, {kNoLimit, "direct", 256 * kKiB}};
constexpr Rule kBroadcastWireMany[] = {{64 * kKiB, "binomial", 64 * kKiB}, {kNoLimit, "chain", 128 * kKiB}};
constexpr Rule kReduceWireMany[] = {{kNoLimit, "binomial", 128 * kKiB}};
constexpr Rule kAllToAllWireMany[] = {
    {4 * kKiB, "bruck", 64 * kKiB}, {kMiB, "direct", 128 * kKiB}, {kNoLimit, "pairwise", 256 * kKiB}};
constexpr Rule kRootedBlocksWireMany[] = {{16 * kKiB, "binomial", 64 * kKiB}, {kNoLimit, "direct", 256 * kKiB}};
// Beyond kMaximumFanIn peers no rank sums all at once: one_shot, two_shot and direct sums do not serve. These rules are
// by the formulas of docs/algorithms.md, not measured. Doubling sends log2 n S in as many rounds, Rabenseifner's 2 S in
// twice as many.
constexpr Rule kAllReduceFar[] = {{32 * kKiB, "recursive_doubling", 32 * kKiB}, {kNoLimit, "rabenseifner", 256 * kKiB}};
constexpr Rule kReduceScatterFar[] = {{8 * kKiB, "recursive_halving", 64 * kKiB},
                                      {kNoLimit, "recursive_halving", 256 * kKiB}};
constexpr Rule kBarrier[] = {{kNoLimit, "dissemination", 4 * kKiB}};

struct Tables {
  Collective collective;
  Rules mapped_pair;
  Rules mapped_many;
  Rules wire_pair;
  Rules wire_many;
};

constexpr std::array kTables{
    Tables{Collective::AllReduce, kAllReduceMappedPair, kAllReduceMappedMany, kAllReduceWirePair, kAllReduceWireMany},
    Tables{Collective::ReduceScatter, kDirectMapped, kDirectMapped, kDirectWire, kReduceScatterWireMany},
    Tables{Collective::AllGather, kDirectMapped, kDirectMapped, kDirectWire, kAllGatherWireMany},
    Tables{Collective::Broadcast, kDirectMapped, kDirectMapped, kDirectWire, kBroadcastWireMany},
    Tables{Collective::Reduce, kDirectMapped, kDirectMapped, kDirectWire, kReduceWireMany},
    Tables{Collective::AllToAll, kDirectMapped, kDirectMapped, kDirectWire, kAllToAllWireMany},
    Tables{Collective::Gather, kDirectMapped, kDirectMapped, kDirectWire, kRootedBlocksWireMany},
    Tables{Collective::Scatter, kDirectMapped, kDirectMapped, kDirectWire, kRootedBlocksWireMany},
    Tables{Collective::Barrier, kBarrier, kBarrier, kBarrier, kBarrier},
    Tables{Collective::Exchange, kDirectMapped, kDirectMapped, kDirectWire, kDirectWire},
};

Rules rules_of(const RuleKey& key) {
  const Tables& tables = kTables[static_cast<std::size_t>(key.collective)];
  const bool pair = key.ranks <= 2;
  if (key.ranks - 1 > kMaximumFanIn) {
    if (key.collective == Collective::AllReduce) return kAllReduceFar;
    if (key.collective == Collective::ReduceScatter) return kReduceScatterFar;
    if (key.collective == Collective::Reduce) return kReduceWireMany;
  }
  if (key.crowded && !key.all_mapped && !pair && key.collective == Collective::AllReduce) return kAllReduceWireCrowded;
  if (key.all_mapped) return pair ? tables.mapped_pair : tables.mapped_many;
  return pair ? tables.wire_pair : tables.wire_many;
}

}  // namespace

const Rule& rule_of(const RuleKey& key, std::size_t bytes) noexcept {
  const Rules rules = rules_of(key);
  return *std::find_if(rules.begin(), rules.end(), [&](const Rule& rule) { return bytes <= rule.bytes; });
}

}  // namespace wreath
