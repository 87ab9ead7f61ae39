// Which messages a peer of the host reads out of their sender's memory (docs/decisions/0007). Every rank decides for
// what it sends.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "wreath/types.hpp"

namespace wreath {

// Messages of at least `message_bytes` in calls of at most `call_bytes`.
struct SingleCopyRule {
  Collective collective;
  std::size_t message_bytes;
  std::size_t call_bytes;
};

struct SingleCopyCall {
  Collective collective;
  std::size_t bytes;       // of the vector, or of all blocks together; of an exchange, all that this rank sends
  bool sends_only;         // an exchange that receives nothing: it is over when its data is on the way
  bool by_blocks = false;  // of a device, on its memory
};

// Smaller messages of a device's memory are staged: their sender need not wait.
inline constexpr std::size_t kDeviceReferenceBytes = 16'384;

class SingleCopy {
 public:
  // None.
  SingleCopy() = default;
  // Messages of so many bytes in every call; 0: none.
  explicit SingleCopy(std::size_t message_bytes) : message_bytes_(message_bytes) {}
  // What was measured on processors of `vendor` (cpu_vendor()), with a core for each rank of the host or crowded; none
  // where nothing was.
  static SingleCopy of_machine(std::string_view vendor, bool crowded) noexcept;

  bool possible() const { return message_bytes_ > 0 || !rules_.empty(); }
  // The smallest message of `call` to be read so; 0: none is.
  std::size_t message_bytes(const SingleCopyCall& call) const noexcept;

 private:
  std::size_t on_device(const SingleCopyCall& call) const noexcept;

  bool automatic_ = false;  // of_machine
  std::size_t message_bytes_ = 0;
  std::span<const SingleCopyRule> rules_;
};

}  // namespace wreath
