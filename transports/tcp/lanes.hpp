// The two FIFOs of every lane of a link are in memory of this process, with the progress of the wire.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "src/fifo/local_fifo.hpp"
#include "transports/tcp/window.hpp"
#include "wreath/fifo.hpp"
#include "wreath/link.hpp"

namespace wreath {

// A TcpLane is one lane. `send` and `recv` are the executor's ends, and the pump is the other end of both.
struct TcpLane {
  // The counter send_consumed counts messages that the kernel has accepted. Their memory may be used again.
  LocalFifos::Lane shared;
  LocalMemory send_staging;
  SendFifo send;
  // The window goes from what the peer has reported to the next message that the kernel gets.
  TcpWindow sent;

  // The memory has a place for each message of the window.
  LocalMemory small_staging;
  LocalMemory large_staging;
  Landing landing;
  RecvFifo recv;
  // The window goes from what the peer has been told of shared.recv_consumed to the next message expected from the
  // wire.
  TcpWindow received;
  bool used = false;

  explicit TcpLane(const FifoShape& shape) : sent(shape), received(shape) {}

  // Returns the next message to send if it is published and the peer has room, else null.
  const SlotHeader* sendable() const;
  // Returns whether a message waits for the peer's credit.
  bool starved() const;
  // Returns the sequence before which the executor is done with all messages.
  std::uint32_t consumed() const;
};

// TcpLanes has the lanes of one link. Their addresses stay.
class TcpLanes {
 public:
  explicit TcpLanes(const FifoShape& shape);
  const FifoShape& shape() const { return shape_; }
  TcpLane& operator[](std::uint16_t lane) { return *lanes_[lane]; }
  const TcpLane& operator[](std::uint16_t lane) const { return *lanes_[lane]; }
  // Returns the lane for an executor, which may publish and consume from now on.
  TcpLane& use(std::uint16_t lane);
  // Returns the lanes that an executor uses, in the order of their first use. No other lane has anything to send or
  // report.
  std::span<TcpLane* const> used() const { return used_; }

 private:
  FifoShape shape_;
  LocalFifos fifos_;
  std::vector<std::unique_ptr<TcpLane>> lanes_;
  std::vector<TcpLane*> used_;
};

}  // namespace wreath
