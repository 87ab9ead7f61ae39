// The sending half of a link over several sockets, its rails. A rail that has room takes the next part, so each carries
// as much as its rate allows. A message is kept until the peer says that it has arrived: what a lost rail carried goes
// again over the others. While a link has one socket, nothing could be sent again, and large messages go whole.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "src/fifo/wire/lanes.hpp"
#include "transports/tcp/frame_batch.hpp"
#include "transports/tcp/rail_inbox.hpp"
#include "wreath/result.hpp"

namespace wreath {

class RailSender {
 public:
  RailSender(WireLanes& lanes, RailInbox& inbox, std::size_t rails, TcpCounts& counts);

  // Adds a rail behind the last one, or removes the last one, which is lost.
  void add_rail() { batches_.emplace_back(); }
  void remove_rail() { batches_.pop_back(); }
  // Says whether messages from now on go in parts, and are kept until they have arrived. A link with one rail need not.
  void keep(bool keeps) { keeps_ = keeps; }

  // Fills the empty batch of a rail with what is next. Returns InvalidUsage for a slot that no pump could send.
  Status gather(std::uint8_t rail, FrameBatch& batch);
  // Takes note that the kernel has so many bytes of the rail's batch.
  void on_sent(std::uint8_t rail, std::size_t bytes);
  // Takes note that a rail is lost. Other rails send again what may not have arrived. Returns false where that was not
  // kept.
  bool on_lost(std::uint8_t rail);

  // Checks what a frame reports of this end. PeerLost names the field that no correct peer sends.
  Status check(const WireHeader& header) const;
  void take_report(const WireHeader& header);

  // Says whether messages wait for a report of the peer.
  bool waits() const;
  // Says whether messages wait to be sent again.
  bool sends_again() const { return !again_.empty(); }

  // Counts the bytes of large messages that were begun, and those of them that the peer has, as far as it said so.
  std::uint64_t large_begun() const { return large_begun_; }
  std::uint64_t large_arrived() const { return large_arrived_; }
  // Says whether the peer has not said of all large messages that it has them.
  bool large_under_way() const;

 private:
  // A message that the peer may not have.
  struct Message {
    const std::byte* data = nullptr;
    std::uint32_t bytes = 0;
    std::uint32_t signature = 0;
    bool kept = true;                                   // until it has arrived; else it goes whole
    std::uint32_t in_batches = 0;                       // the parts that are in batches
    std::array<std::uint8_t, kMostMessageParts> rails;  // the rail of each part
  };
  struct Lane {
    std::vector<Message> messages;  // by sequence; empty before the first one
    // Small messages are copied here, and their slots are free at once.
    LocalMemory copies;
    // All messages before this one have arrived.
    std::uint32_t arrived = 0;
    // The last message has parts that no rail has taken, from next_part on.
    bool cutting = false;
    std::uint32_t next_part = 0;
    // The sequence behind the last large message, which has not arrived.
    std::optional<std::uint32_t> large_end;
  };
  struct Piece {
    std::uint16_t lane;
    std::uint32_t sequence;
    std::uint32_t part;
  };

  // A piece in a batch, whose bytes up to `end` are sent with it.
  struct Held {
    Piece piece;
    std::size_t end;
  };

  bool full(const FrameBatch& batch) const;
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
  // There are no others for whole messages.
  static constexpr std::size_t kWholeBatchBytes = std::size_t{1} << 20;
  // The number of batches that wait for a message that could carry a credit.
  static constexpr int kPatience = 4;

  WireLanes& lanes_;
  RailInbox& inbox_;
  TcpCounts& counts_;
  std::uint32_t mask_;
  std::vector<Lane> out_;
  std::vector<std::deque<Held>> batches_;  // the large pieces in the batch of each rail
  std::deque<Piece> again_;
  bool keeps_ = true;
  std::uint64_t large_begun_ = 0;
  std::uint64_t large_arrived_ = 0;
  // The lane that goes first, for fairness.
  std::size_t turn_ = 0;
  int calls_stuck_ = 0;
};

}  // namespace wreath
