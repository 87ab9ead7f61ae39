// Small messages without FIFOs: the one_shot schedule as straight code over peers' small areas.
//
// Every rank writes its data once, into its own area, and reads all peers' areas. Up to 1 KiB the
// flag is in the data's cache line (56 bytes of data and 8 of {sequence, signature}); above, one
// header line and a block. There is no exit barrier: receiving every peer's message i proves that
// they have read mine of i-1, so the buffers of message i-2 are free.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/kernels.hpp"
#include "src/executor/try_step.hpp"
#include "wreath/transport.hpp"

namespace wreath {

// A call as the small protocols see it: all ranks' inputs are combined into `output`. Not for premultiplied sums, whose
// inputs are multiplied by their own ranks.
struct SmallCall {
  const std::byte* input;
  std::byte* output;
  std::size_t elements;
  std::size_t bytes;  // <= kSmallMessageBytes
  Arithmetic arithmetic;
  std::uint32_t signature;
};

class SmallExchange {
 public:
  SmallExchange() = default;
  // `areas[r]`: rank r's small area as this process sees it; areas[rank] is `own`, writable.
  SmallExchange(int rank, std::vector<const std::byte*> areas, std::byte* own);

  // Publishes this rank's data. The sequence advances: calls are numbered alike on all ranks.
  void start(const SmallCall& call);
  // Done once every peer's data was there and the output is written; never waits.
  Advance run();

  // The peer whose message is missing, or whose signature differs after Failed.
  int waiting_for() const { return peer_; }

 private:
  bool lines() const { return call_.bytes <= kLineMessageBytes; }
  Advance gather_lines(int peer);
  Advance gather_block(int peer);

  static constexpr std::size_t kLineData = 56;
  static constexpr std::size_t kLineMessageBytes = 1024;

  int rank_ = 0;
  std::vector<const std::byte*> areas_;
  std::byte* own_ = nullptr;
  std::vector<const std::byte*> sources_;  // per rank: where its data is
  std::vector<std::byte> gathered_;        // lines without their flags, kLineMessageBytes per rank
  SmallCall call_{};
  std::uint32_t sequence_ = 0;
  int peer_ = 0;
  std::size_t line_ = 0;
};

}  // namespace wreath
