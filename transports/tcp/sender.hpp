// The sending half of a link: gathers published messages of all lanes into batches, one system call each.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "transports/tcp/lanes.hpp"
#include "transports/tcp/wire.hpp"
#include "wreath/result.hpp"

namespace wreath {

class TcpSender {
 public:
  TcpSender(int socket, TcpLanes& lanes);

  // Hands to the kernel what it takes now; the bytes moved. PeerLost with the reason when the
  // connection is gone, InvalidUsage for a slot no pump could send.
  Result<std::size_t> send_some();

  // The kernel would not take everything that was gathered.
  bool blocked() const { return blocked_; }
  // A published message waits for credit, which only receiving can bring.
  bool starved() const { return starved_; }

 private:
  // A message in the batch: its memory is free once `end` bytes of the batch are gone.
  struct Frame {
    TcpLane* lane;
    std::uint32_t sequence;
    std::size_t end;
  };

  Status gather();
  bool full(std::size_t bytes) const;
  Status add_message(TcpLane& lane, const SlotHeader& slot);
  void add_owed_credits(bool anything_else);
  void take_credit(WireHeader& header);
  static void report(TcpLane& lane, WireHeader& header);
  bool half_unreported(const TcpLane& lane) const;
  std::byte* reserve(std::size_t bytes);
  void append(const std::byte* data, std::size_t bytes);
  Result<std::size_t> send_batch();
  void accepted(std::size_t bytes);
  std::size_t unsent() const { return batch_bytes_ - sent_bytes_; }

  static constexpr std::size_t kBatchBytes = std::size_t{1} << 20;  // more brings nothing (measured)
  static constexpr std::size_t kRefillBytes = kBatchBytes / 4;      // a rest this small is not worth a turn
  static constexpr std::size_t kScratchBytes = 64 * 1024;           // prefixes, small messages, credit frames
  static constexpr std::size_t kCreditBytes = 8 * 1024;             // of it, kept for credit frames
  static constexpr std::size_t kPieces = 96;
  static constexpr std::size_t kFrames = 64;
  static constexpr int kPatience = 4;  // calls to wait for a message that could carry a credit

  int socket_;
  TcpLanes& lanes_;
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
  std::size_t turn_ = 0;  // the lane that goes first, for fairness
  int calls_stuck_ = 0;
  bool blocked_ = false;
  bool starved_ = false;
};

}  // namespace wreath
