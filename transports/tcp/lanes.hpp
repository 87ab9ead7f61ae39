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
  bool used = false;

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
  TcpLane& operator[](std::uint16_t lane) { return lanes_[lane]; }
  // The lane for an executor, who may publish and consume from now on.
  TcpLane& use(std::uint16_t lane);
  // The lanes that an executor uses, in the order of their first use: all that have something to send or to report.
  std::span<TcpLane* const> used() const { return {used_.get(), used_count_}; }

 private:
  FifoShape shape_;
  std::unique_ptr<TcpLane[]> lanes_;
  std::unique_ptr<TcpLane*[]> used_;
  std::size_t used_count_ = 0;
};

}  // namespace wreath
