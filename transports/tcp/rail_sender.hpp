// The sending half of a link over several sockets, its rails. A rail that has room takes the next part, so each carries
// as much as its rate allows. A message is kept until the peer says that it has arrived: what a lost rail carried goes
// again over the others.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "src/fifo/wire/lanes.hpp"
#include "transports/tcp/frame_batch.hpp"
#include "transports/tcp/rail_inbox.hpp"
#include "wreath/result.hpp"

namespace wreath {

class RailSender {
 public:
  RailSender(WireLanes& lanes, RailInbox& inbox, std::size_t rails, TcpCounts& counts);

  // Fills the empty batch of a rail with what is next. Returns InvalidUsage for a slot that no pump could send.
  Status gather(std::uint8_t rail, FrameBatch& batch);
  // Takes note that the kernel has the rail's whole batch.
  void on_sent(std::uint8_t rail);
  // Takes note that a rail is lost. Other rails send again what may not have arrived.
  void on_lost(std::uint8_t rail);

  // Checks what a frame reports of this end. PeerLost names the field that no correct peer sends.
  Status check(const WireHeader& header) const;
  void take_report(const WireHeader& header);

  // Says whether messages wait for a report of the peer.
  bool waits() const;
  // Says whether messages wait to be sent again.
  bool sends_again() const { return !again_.empty(); }

 private:
  // A message that the peer may not have.
  struct Message {
    const std::byte* data = nullptr;
    std::uint32_t bytes = 0;
    std::uint32_t signature = 0;
    std::uint32_t in_batches = 0;                       // the parts that are in batches
    std::array<std::uint8_t, kMostMessageParts> rails;  // the rail of each part
  };
  struct Lane {
    std::vector<Message> messages;  // by sequence
    // Small messages are copied here, and their slots are free at once.
    LocalMemory copies;
    // All messages before this one have arrived.
    std::uint32_t arrived = 0;
    // The last message has parts that no rail has taken, from next_part on.
    bool cutting = false;
    std::uint32_t next_part = 0;
  };
  struct Piece {
    std::uint16_t lane;
    std::uint32_t sequence;
    std::uint32_t part;
  };

  static bool full(const FrameBatch& batch);
  Result<bool> add_next(std::uint8_t rail, FrameBatch& batch, WireLane& lane);
  Status begin(WireLane& lane, const SlotHeader& slot);
  void add(std::uint8_t rail, FrameBatch& batch, const Piece& piece);
  void add_reports(FrameBatch& batch);
  void add_report(FrameBatch& batch, WireLane& lane);
  void release(std::uint16_t lane);
  // Returns the sequence before which rails have taken all parts.
  std::uint32_t whole_end(std::uint16_t lane) const { return lanes_[lane].sent.end() - (out_[lane].cutting ? 1 : 0); }
  std::uint32_t parts(const Message& message) const;
  Message& message(std::uint16_t lane, std::uint32_t sequence) { return out_[lane].messages[sequence & mask_]; }

  // A rail takes about so much in a turn, so that others take the next parts.
  static constexpr std::size_t kBatchBytes = std::size_t{64} * 1024;
  // The number of batches that wait for a message that could carry a credit.
  static constexpr int kPatience = 4;

  WireLanes& lanes_;
  RailInbox& inbox_;
  TcpCounts& counts_;
  std::uint32_t mask_;
  std::vector<Lane> out_;
  std::vector<std::vector<Piece>> batches_;  // the large parts in the batch of each rail
  std::deque<Piece> again_;
  // The lane that goes first, for fairness.
  std::size_t turn_ = 0;
  int calls_stuck_ = 0;
};

}  // namespace wreath
