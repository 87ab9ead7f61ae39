// The sending half of a link gathers published messages of all lanes into batches, with one system call each.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "src/fifo/wire/lanes.hpp"
#include "transports/tcp/frame_batch.hpp"
#include "wreath/result.hpp"

namespace wreath {

class TcpSender {
 public:
  TcpSender(int socket, WireLanes& lanes, TcpCounts& counts);

  // Hands to the kernel what it takes now, and returns the bytes moved. Returns PeerLost with the reason when the
  // connection is gone, and InvalidUsage for a slot that no pump could send.
  Result<std::size_t> send_some();

  // Returns whether the kernel left something of what was gathered.
  bool blocked() const { return batch_.blocked(); }
  // Returns whether a published message waits for credit, which only receiving can deliver.
  bool starved() const { return starved_; }

 private:
  // A message in the batch. Its memory is free once `end` bytes of the batch are gone.
  struct Frame {
    WireLane* lane;
    std::uint32_t sequence;
    std::size_t end;
  };

  Status gather();
  bool full(std::size_t bytes) const;
  Status add_message(WireLane& lane, const SlotHeader& slot);
  void add_owed_credits(bool anything_else);
  Result<std::size_t> send_batch();

  // A larger batch has no advantage (measured).
  static constexpr std::size_t kBatchBytes = std::size_t{1} << 20;
  // A rest this small is not worth a turn of its own.
  static constexpr std::size_t kRefillBytes = kBatchBytes / 4;
  static constexpr std::size_t kFrames = 64;
  // The number of calls that wait for a message that could carry a credit.
  static constexpr int kPatience = 4;

  WireLanes& lanes_;
  TcpCounts& counts_;
  FrameBatch batch_;
  std::array<Frame, kFrames> frames_;
  std::size_t first_frame_ = 0;
  std::size_t end_frame_ = 0;
  // The lane that goes first, for fairness.
  std::size_t turn_ = 0;
  int calls_stuck_ = 0;
  bool starved_ = false;
};

}  // namespace wreath
