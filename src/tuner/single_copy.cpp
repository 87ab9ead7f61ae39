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

// Smaller calls take ping-pong slots. A rank of two reads the one block that an all_gather brings it as a whole.
constexpr SingleCopyRule kIntelPingPong[] = {
    {Collective::AllGather, 64 * kKiB, 24 * kMiB, 4 * kMiB},
    {Collective::AllToAll, 64 * kKiB, 16 * kMiB, kLeastPingPongCopyBytes},
    {Collective::Exchange, 64 * kKiB, 12 * kMiB, 512 * kKiB + 1},
};

}  // namespace

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
  const auto rule = std::find_if(rules_.begin(), rules_.end(),
                                 [&](const SingleCopyRule& each) { return each.collective == call.collective; });
  if (rule == rules_.end() || call.sends_only) return 0;
  return call.bytes < rule->least_bytes || call.bytes > rule->call_bytes ? 0 : rule->message_bytes;
}

}  // namespace wreath
