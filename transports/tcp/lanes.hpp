// The two FIFOs of every lane of a link, in memory of this process, and how far the wire has come.
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

// One lane: `send` and `recv` are the executor's ends; the pump is the other end of both.
struct TcpLane {
  LocalFifos::Lane shared;  // send_consumed: messages the kernel has accepted: their memory may be used again
  LocalMemory send_staging;
  SendFifo send;
  TcpWindow sent;  // from what the peer has reported to the next message to hand to the kernel

  LocalMemory small_staging;  // a place for each message of the window
  LocalMemory large_staging;
  Landing landing;
  RecvFifo recv;
  TcpWindow
      received;  // from what the peer has been told of shared.recv_consumed to the next message expected from the wire
  bool used = false;

  explicit TcpLane(const FifoShape& shape) : sent(shape), received(shape) {}

  // The next message to send if it is published and the peer has room; else null.
  const SlotHeader* sendable() const;
  // Whether a message waits for the peer's credit.
  bool starved() const;
  // What the executor is done with: all messages before this one.
  std::uint32_t consumed() const;
};

// The lanes of one link. Their addresses stay.
class TcpLanes {
 public:
  explicit TcpLanes(const FifoShape& shape);
  const FifoShape& shape() const { return shape_; }
  TcpLane& operator[](std::uint16_t lane) { return *lanes_[lane]; }
  const TcpLane& operator[](std::uint16_t lane) const { return *lanes_[lane]; }
  // The lane for an executor, who may publish and consume from now on.
  TcpLane& use(std::uint16_t lane);
  // The lanes that an executor uses, in the order of their first use: all that have something to send or to report.
  std::span<TcpLane* const> used() const { return used_; }

 private:
  FifoShape shape_;
  LocalFifos fifos_;
  std::vector<std::unique_ptr<TcpLane>> lanes_;
  std::vector<TcpLane*> used_;
};

}  // namespace wreath
