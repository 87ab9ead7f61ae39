// Holds the tables of machines that were measured. Other machines use slots, which are never far behind.
#include "src/tuner/single_copy.hpp"

#include <algorithm>

#include "src/tuner/rules.hpp"

namespace wreath {
namespace {

// These were measured with inputs that are new in each call, as a program's are. An all_gather and a sum are slower:
// one copy in a slot is for all peers, and a sum would read its pulled data a second time. A sender that need not wait
// for its peers should not begin to.
constexpr SingleCopyRule kIntel[] = {
    {Collective::AllToAll, 64 * kKiB, 8 * kMiB},
    {Collective::Exchange, 64 * kKiB, 4 * kMiB},
};

// Smaller calls take ping-pong slots. An all_gather of two ranks, too, brings each a block that is for it alone. The
// outputs of larger ones go past the caches, which the kernel's copy cannot.
constexpr SingleCopyRule kIntelPingPong[] = {
    {Collective::AllGather, 64 * kKiB, 16 * kMiB, 2 * kMiB},
    {Collective::AllToAll, 64 * kKiB, 16 * kMiB, kMiB},
    {Collective::Exchange, 64 * kKiB, 12 * kMiB, 512 * kKiB + 1},
};

const SingleCopyRule* rule_of(std::span<const SingleCopyRule> rules, Collective collective) {
  const auto rule = std::find_if(rules.begin(), rules.end(),
                                 [&](const SingleCopyRule& each) { return each.collective == collective; });
  return rule == rules.end() ? nullptr : &*rule;
}

bool covers(const SingleCopyRule& rule, std::size_t bytes) {
  return bytes >= rule.least_bytes && bytes <= rule.call_bytes;
}

}  // namespace

bool pair_reads(Collective collective, std::size_t bytes) noexcept {
  const SingleCopyRule* rule = rule_of(kIntelPingPong, collective);
  return rule != nullptr && covers(*rule, bytes);
}

SingleCopy SingleCopy::of_machine(std::string_view vendor, const RanksOfHost& ranks) noexcept {
  SingleCopy single_copy;
  single_copy.automatic_ = true;
  // On an AuthenticAMD, slots are filled at 48 GB/s and the kernel copies at 14 GB/s. Ranks that share a core fill
  // slots in its own cache, and the kernel lets threads of a process wait for each other when both read its memory.
  if (vendor == "GenuineIntel" && !ranks.crowded && !ranks.share_a_process) {
    using Rules = std::span<const SingleCopyRule>;
    single_copy.rules_ = ranks.ping_pong ? Rules(kIntelPingPong) : Rules(kIntel);
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
  const SingleCopyRule* rule = rule_of(rules_, call.collective);
  return rule != nullptr && !call.sends_only && covers(*rule, call.bytes) ? rule->message_bytes : 0;
}

}  // namespace wreath
