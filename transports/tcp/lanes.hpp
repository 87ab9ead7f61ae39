// The two FIFOs of every lane of a link, in memory of this process, and how far the wire has come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>

#include "wreath/fifo.hpp"
#include "wreath/result.hpp"
#include "wreath/transport.hpp"

namespace wreath {

// slot_count x slot_bytes of memory, absent until allocated. Pages that are not used cost nothing.
class TcpStaging {
 public:
  // Does nothing when it is there. System when memory is refused.
  Status allocate(const FifoShape& shape);
  std::byte* data() const { return data_.get(); }

 private:
  static constexpr std::align_val_t kAlignment{4096};
  struct Free {
    void operator()(std::byte* data) const { ::operator delete[](data, kAlignment); }
  };
  std::unique_ptr<std::byte[], Free> data_;
};

// One lane: `send` and `recv` are the executor's ends; the pump is the other end of both.
struct TcpLane {
  std::unique_ptr<SlotHeader[]> send_slots;
  Counter send_consumed;  // messages the kernel has accepted: their memory may be used again
  TcpStaging send_staging;
  SendFifo send;
  std::uint32_t gathered = 0;       // next sequence to hand to the kernel
  std::uint32_t peer_consumed = 0;  // what the peer has reported: it has room for slot_count more

  std::unique_ptr<SlotHeader[]> recv_slots;
  Counter recv_consumed;
  TcpStaging recv_staging;
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
