// The sending half of a link gathers published messages of all lanes into batches, with one system call each.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "src/fifo/wire/lanes.hpp"
#include "transports/tcp/wire.hpp"
#include "wreath/result.hpp"

namespace wreath {

class TcpSender {
 public:
  TcpSender(int socket, WireLanes& lanes);

  // Hands to the kernel what it takes now, and returns the bytes moved. Returns PeerLost with the reason when the
  // connection is gone, and InvalidUsage for a slot that no pump could send.
  Result<std::size_t> send_some();

  // Returns whether the kernel left something of what was gathered.
  bool blocked() const { return blocked_; }
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
  void take_credit(WireHeader& header);
  static void report(WireLane& lane, WireHeader& header);
  std::byte* reserve(std::size_t bytes);
  void append(const std::byte* data, std::size_t bytes);
  Result<std::size_t> send_batch();
  void accepted(std::size_t bytes);
  std::size_t unsent() const { return batch_bytes_ - sent_bytes_; }

  // A larger batch has no advantage (measured).
  static constexpr std::size_t kBatchBytes = std::size_t{1} << 20;
  // A rest this small is not worth a turn of its own.
  static constexpr std::size_t kRefillBytes = kBatchBytes / 4;
  static constexpr std::size_t kScratchBytes = 64 * 1024;  // prefixes, small messages, credit frames
  static constexpr std::size_t kCreditBytes = 8 * 1024;    // kept for credit frames
  static constexpr std::size_t kPieces = 96;
  static constexpr std::size_t kFrames = 64;
  // The number of calls that wait for a message that could carry a credit.
  static constexpr int kPatience = 4;

  int socket_;
  WireLanes& lanes_;
  std::array<iovec, kPieces> pieces_;
  std::size_t first_piece_ = 0;
  std::size_t end_piece_ = 0;
  std::array<Frame, kFrames> frames_;
  std::size_t first_frame_ = 0;
  std::size_t end_frame_ = 0;
  std::unique_ptr<std::byte[]> scratch_;
  std::size_t scratch_used_ = 0;
  std::size_t batch_bytes_ = 0;
  std::size_t sent_bytes_ = 0;
  // The lane that goes first, for fairness.
  std::size_t turn_ = 0;
  int calls_stuck_ = 0;
  bool blocked_ = false;
  bool starved_ = false;
};

}  // namespace wreath
