// Small messages without FIFOs: the collectives as plain code over peers' small areas.
//
// A rank that has something to say writes it once, into its own area; those it is for read it there. Up to 1 KiB the
// flag is in the data's cache line (56 bytes of data and 8 of {sequence, signature}); above, one header line and a
// block. All ranks number these calls alike, and call i uses a protocol's buffer i mod their number in each area. A
// buffer is free again when every rank is past the call that used it: whoever was heard in call i is past all calls
// before it; ranks that nobody need hear say it in a flag of their own, every 8th call and before they wait. The
// signature there is of that call and all before it, so that ranks which only write are compared, too.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/kernels.hpp"
#include "src/executor/slot_fill.hpp"
#include "src/executor/try_step.hpp"
#include "wreath/link.hpp"

namespace wreath {

// A call as the small protocols see it. Not for premultiplied sums, whose inputs are multiplied by their own ranks.
struct SmallCall {
  Collective collective;
  Rank root;
  const std::byte* input;
  std::byte* output;
  std::size_t elements;  // of the vector; of one rank's block where the collective moves blocks
  std::size_t bytes;     // of these
  Arithmetic arithmetic;
  std::uint32_t signature;
};

class SmallExchange {
 public:
  SmallExchange() = default;
  // `areas[r]`: rank r's small area as this process sees it, zeroed before the first call; areas[rank] is `own`,
  // writable. `first_sequence`: any number, the same on all ranks.
  SmallExchange(int rank, std::vector<const std::byte*> areas, std::byte* own, std::uint32_t first_sequence);

  // Begins a call, which run() ends.
  void start(const SmallCall& call);
  // Done once this rank's part in the call is over; never waits. Failed: a peer is in another call.
  Advance run();
  // Whether start() or run() has stored something that a sleeping peer may wait for, since the last time.
  bool take_told() { return std::exchange(told_, false); }

  // Of the present call: what this rank has taken out of peers' areas so far.
  std::uint64_t loaded_bytes() const { return loaded_bytes_; }
  Collective collective() const { return call_.collective; }

  // The peer whose message, or whose flag, is missing, or whose signature differs after Failed.
  int waiting_for() const { return peer_; }

 private:
  // What this rank does in a call.
  struct Part {
    bool publishes;
    bool has_result;   // one that is, or begins with, what it has itself
    int first_source;  // the ranks it takes from
    int end_source;
  };

  Part part_of_call() const;
  std::size_t own_offset() const;       // of what this rank takes, in every message
  std::byte* place_of(int rank) const;  // of what comes from `rank`, in the output
  std::uint64_t flag() const;
  std::uint32_t buffers() const;  // of the call's protocol
  bool lines() const { return message_bytes_ <= kLineMessageBytes; }
  Advance find_free_buffer();
  bool differs(std::uint64_t past) const;
  void publish();
  void publish_lines();
  Advance take_lines(int peer);
  Advance take_block(int peer);
  void fetch_next() const;
  void finish();
  Advance blocked();
  void tell_past(std::uint32_t number);

  static constexpr std::size_t kLineMessageBytes = 1024;

  int rank_ = 0;
  std::vector<const std::byte*> areas_;
  std::byte* own_ = nullptr;
  std::vector<const std::byte*> sources_;  // per rank: where its data is
  FillHistory fills_;                      // of blocks
  SlotFill slot_fill_;
  std::vector<std::byte> gathered_;  // lines without their flags, kLineMessageBytes per rank
  std::uint32_t first_sequence_ = 0;

  SmallCall call_{};
  Part part_{};
  bool combines_ = false;
  std::size_t message_bytes_ = 0;
  bool published_ = true;
  bool told_ = false;
  bool looked_ = false;
  std::uint32_t number_ = 0;                    // of the call; wraps
  std::uint32_t all_past_ = 0;                  // all ranks are past this call
  std::uint32_t heard_past_ = 0;                // all ranks can know that this one is past this call
  std::uint32_t looked_past_ = 0;               // the call in which this rank has last looked how far all are
  std::array<std::uint32_t, 64> signatures_{};  // of its last calls, by number
  int peer_ = 0;
  std::size_t line_ = 0;
  std::uint64_t loaded_bytes_ = 0;
};

}  // namespace wreath
