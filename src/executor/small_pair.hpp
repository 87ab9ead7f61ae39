// Runs small collectives of two ranks over a wire, as plain code over the FIFOs of its first lane. Each rank sends at
// most one message in a call, and takes at most one. There are no steps, so a call costs little beside its system
// calls.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/executor/small.hpp"
#include "src/executor/wire_messages.hpp"

namespace wreath {

class SmallPair {
 public:
  SmallPair() = default;
  // The ends of the FIFOs outlive this object.
  SmallPair(int rank, SendFifo& to, RecvFifo& from, std::uint16_t epoch)
      : rank_(rank), to_(&to), from_(&from), epoch_(epoch) {}

  // Begins a call in which this rank has `part`.
  void start(const SmallPart& part, const std::byte* input, std::byte* output, std::uint32_t signature);
  // Does what can be done at once, and never waits. Returns Done once this rank's part is over, but for bytes that the
  // wire still has to take. Returns Failed where the peer is in another call.
  Advance run();

  // Says whether a message of the peer is missing.
  bool waits() const { return messages_.waits(); }
  int peer() const { return 1 - rank_; }
  // Returns the bytes that this rank has sent in the call so far.
  std::uint64_t sent_bytes() const { return messages_.sent_bytes(); }

 private:
  int rank_ = 0;
  SendFifo* to_ = nullptr;
  RecvFifo* from_ = nullptr;
  std::uint16_t epoch_ = 0;
  WireMessages messages_;
  SmallPart part_;
  const std::byte* input_ = nullptr;
  std::byte* output_ = nullptr;
  bool own_is_copied_ = true;
};

}  // namespace wreath
