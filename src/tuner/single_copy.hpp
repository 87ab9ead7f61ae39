// Decides which messages a peer of the host reads out of their sender's memory (docs/decisions/0007). Every rank
// decides for the messages that it sends.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "src/base/cpu.hpp"
#include "wreath/types.hpp"

namespace wreath {

// Is for messages of at least `message_bytes`, in calls of at least `least_bytes` and at most `call_bytes`.
struct SingleCopyRule {
  Collective collective;
  std::size_t message_bytes = 0;
  std::size_t call_bytes = 0;
  std::size_t least_bytes = 0;

  bool covers(std::size_t bytes) const { return bytes >= least_bytes && bytes <= call_bytes; }
};

// The sizes of caches by which two ranks that fill ping-pong slots choose.
struct PairSizes {
  std::size_t near_bytes;      // of the cache that a core has for itself
  std::size_t streamed_bytes;  // outputs go past the caches from here on

  static PairSizes of(std::string_view vendor, const CacheSizes& caches) noexcept;
};

// Returns the rule of such two ranks for calls of `collective`; `call_bytes` is 0 where they read none so.
SingleCopyRule pair_rule(Collective collective, const PairSizes& sizes) noexcept;

struct SingleCopyCall {
  Collective collective;
  // Counts the bytes of the vector, or of all blocks together; in an exchange, all that this rank sends.
  std::size_t bytes;
  // Is true for an exchange that receives nothing: it is over when its data is on the way.
  bool sends_only;
  // Is true for a call of a device, on its memory.
  bool by_blocks = false;
};

struct RanksOfHost {
  bool crowded = false;                     // there are fewer cores than ranks
  bool share_a_process = false;             // some are threads of one process
  std::optional<PairSizes> ping_pong = {};  // there are two, which fill ping-pong slots
};

// Smaller messages of a device's memory are staged: their sender need not wait.
inline constexpr std::size_t kDeviceReferenceBytes = 16'384;

class SingleCopy {
 public:
  // Makes a rule that no message is read so.
  SingleCopy() = default;
  // Makes a rule for messages of so many bytes in every call; 0 means none.
  explicit SingleCopy(std::size_t message_bytes) : message_bytes_(message_bytes) {}
  // Returns what was measured on processors of `vendor` (cpu_vendor()). Where nothing was measured, no message is read
  // so.
  static SingleCopy of_machine(std::string_view vendor, const RanksOfHost& ranks);

  bool possible() const { return message_bytes_ > 0 || !rules_.empty(); }
  // Returns the rule of a machine for `collective`; its call_bytes are 0 where no message is read so.
  SingleCopyRule rule(Collective collective) const noexcept;
  // Returns the smallest message of `call` that is read so; 0 where none is.
  std::size_t message_bytes(const SingleCopyCall& call) const noexcept;

 private:
  std::size_t on_device(const SingleCopyCall& call) const noexcept;

  // Says that of_machine() made this.
  bool automatic_ = false;
  std::size_t message_bytes_ = 0;
  std::vector<SingleCopyRule> rules_;
};

}  // namespace wreath
