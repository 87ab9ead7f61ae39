// The two FIFOs of every lane of a wire are in memory of this process, with the progress of the wire. Pumps share this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "src/fifo/local_fifo.hpp"
#include "src/fifo/wire/window.hpp"
#include "wreath/fifo.hpp"
#include "wreath/link.hpp"

namespace wreath {

// A WireLane is one lane.
struct WireLane : LocalLane {
  // The window goes from what the peer has reported to the next message that the wire gets.
  WireWindow sent;
  // The window goes from what the peer has been told of shared.recv_consumed to the next message expected from the
  // wire.
  WireWindow received;
  bool used = false;

  WireLane(const FifoShape& shape, const LocalFifos& fifos, std::uint16_t number);

  // Returns the next message to send if it is published and the peer has room, else null.
  const SlotHeader* sendable() const;
  // Returns whether a message waits for the peer's credit.
  bool starved() const;
  // Returns the header of a published message.
  const SlotHeader& slot(std::uint32_t sequence) const { return shared.send_slots[sequence & (send.slot_count - 1)]; }
  // Returns the sequence before which the executor is done with all messages.
  std::uint32_t consumed() const;
  // Publishes the message that is next expected, to the executor. Its data is at `data` in this process.
  void publish_received(const SlotHeader& message, const std::byte* data);
};

// WireLanes has the lanes of one link. Their addresses stay.
class WireLanes {
 public:
  explicit WireLanes(const FifoShape& shape);
  const FifoShape& shape() const { return shape_; }
  WireLane& operator[](std::uint16_t lane) { return *lanes_[lane]; }
  const WireLane& operator[](std::uint16_t lane) const { return *lanes_[lane]; }
  // Returns the lane for an executor, which may publish and consume from now on.
  WireLane& use(std::uint16_t lane);
  // Returns the lanes that an executor uses, in the order of their first use. No other lane has anything to send or
  // report.
  std::span<WireLane* const> used() const { return used_; }
  // Allocates the lane's staging memory for messages to send.
  Status prepare(std::uint16_t lane);
  // Counts the bytes of published messages that the wire still needs, with `header_bytes` for each.
  std::size_t held_bytes(std::size_t header_bytes) const;

 private:
  FifoShape shape_;
  LocalFifos fifos_;
  std::vector<std::unique_ptr<WireLane>> lanes_;
  std::vector<WireLane*> used_;
};

}  // namespace wreath
