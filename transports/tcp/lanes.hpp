// The two FIFOs of every lane of a link, in memory of this process, and how far the wire has come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "src/fifo/local_fifo.hpp"
#include "wreath/fifo.hpp"
#include "wreath/transport.hpp"

namespace wreath {

// One lane: `send` and `recv` are the executor's ends; the pump is the other end of both.
struct TcpLane {
  std::unique_ptr<SlotHeader[]> send_slots;
  Counter send_consumed;  // messages the kernel has accepted: their memory may be used again
  LocalStaging send_staging;
  SendFifo send;
  std::uint32_t gathered = 0;       // next sequence to hand to the kernel
  std::uint32_t peer_consumed = 0;  // what the peer has reported: it has room for slot_count more

  std::unique_ptr<SlotHeader[]> recv_slots;
  Counter recv_consumed;
  LocalStaging recv_staging;
  Landing landing;
  RecvFifo recv;
  std::uint32_t received = 0;  // next sequence expected from the wire
  std::uint32_t reported = 0;  // of recv_consumed, what the peer has been told

  // The next message to send if it is published and the peer has room; else null.
  const SlotHeader* sendable() const;
  // Whether a message waits for the peer's credit.
  bool starved() const;
  // Messages the executor is done with that the peer has not been told of.
  std::uint32_t unreported() const;
};

// The lanes of one link. Their addresses stay.
class TcpLanes {
 public:
  explicit TcpLanes(const FifoShape& shape);
  const FifoShape& shape() const { return shape_; }
  std::span<TcpLane> all() { return {lanes_.get(), shape_.lanes}; }
  std::span<const TcpLane> all() const { return {lanes_.get(), shape_.lanes}; }
  TcpLane& operator[](std::uint16_t lane) { return lanes_[lane]; }

 private:
  FifoShape shape_;
  std::unique_ptr<TcpLane[]> lanes_;
};

}  // namespace wreath
