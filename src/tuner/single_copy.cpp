// Holds the tables of machines that were measured. Other machines use slots, which are never far behind.
#include "src/tuner/single_copy.hpp"

#include <algorithm>
#include <iterator>

#include "src/tuner/rules.hpp"
#include "src/tuner/streaming.hpp"

namespace wreath {
namespace {

// These were measured with inputs that are new in each call, as a program's are. An all_gather and a sum are slower:
// one copy in a slot is for all peers, and a sum would read its pulled data a second time. A sender that need not wait
// for its peers should not begin to.
constexpr SingleCopyRule kIntel[] = {
    {Collective::AllToAll, 64 * kKiB, 8 * kMiB},
    {Collective::Exchange, 64 * kKiB, 4 * kMiB},
};

// Two ranks that fill ping-pong slots read calls above so many eighths of the near cache. While inputs, outputs and
// slots fit that cache, slots are as fast or faster. An all_gather has fewer bytes of these than an all_to_all, and
// brings each rank a block that is for it alone, too. All rules end where outputs go past the caches, which the
// kernel's copy cannot.
struct PairRule {
  Collective collective;
  std::size_t above_eighths;
};
constexpr PairRule kIntelPair[] = {
    {Collective::AllGather, 7},
    {Collective::AllToAll, 3},
    {Collective::Exchange, 2},
};

// This stands for a near cache whose size is not known.
constexpr std::size_t kUsualNearBytes = 2 * kMiB;

}  // namespace

PairSizes PairSizes::of(std::string_view vendor, const CacheSizes& caches) noexcept {
  const std::size_t near = caches.near_bytes == 0 ? kUsualNearBytes : static_cast<std::size_t>(caches.near_bytes);
  return {near, static_cast<std::size_t>(wreath::streamed_bytes(vendor, caches.last_bytes, 2).output)};
}

SingleCopyRule pair_rule(Collective collective, const PairSizes& sizes) noexcept {
  for (const PairRule& each : kIntelPair) {
    if (each.collective != collective) continue;
    return {collective, 64 * kKiB, sizes.streamed_bytes, sizes.near_bytes / 8 * each.above_eighths + 1};
  }
  return {collective};
}

SingleCopy SingleCopy::of_machine(std::string_view vendor, const RanksOfHost& ranks) {
  SingleCopy single_copy;
  single_copy.automatic_ = true;
  // On an AuthenticAMD, slots are filled at 48 GB/s and the kernel copies at 14 GB/s. Ranks that share a core fill
  // slots in its own cache, and the kernel lets threads of a process wait for each other when both read its memory.
  if (vendor != "GenuineIntel" || ranks.crowded || ranks.share_a_process) return single_copy;
  if (ranks.ping_pong) {
    for (const PairRule& each : kIntelPair) single_copy.rules_.push_back(pair_rule(each.collective, *ranks.ping_pong));
  } else {
    single_copy.rules_.assign(std::begin(kIntel), std::end(kIntel));
  }
  return single_copy;
}

// Returns the smallest message, on every machine: the other way leads over the host's memory.
std::size_t SingleCopy::on_device(const SingleCopyCall& call) const noexcept {
  if (call.sends_only || (!automatic_ && message_bytes_ == 0)) return 0;
  return std::max(message_bytes_, kDeviceReferenceBytes);
}

std::size_t SingleCopy::message_bytes(const SingleCopyCall& call) const noexcept {
  if (call.by_blocks) return on_device(call);
  if (rules_.empty()) return message_bytes_;
  const SingleCopyRule each = rule(call.collective);
  return !call.sends_only && each.covers(call.bytes) ? each.message_bytes : 0;
}

SingleCopyRule SingleCopy::rule(Collective collective) const noexcept {
  const auto found = std::find_if(rules_.begin(), rules_.end(),
                                  [&](const SingleCopyRule& each) { return each.collective == collective; });
  return found == rules_.end() ? SingleCopyRule{collective} : *found;
}

}  // namespace wreath
