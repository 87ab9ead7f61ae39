// Only these tests have this transport. It sends frames over one stream for each peer and spares no copy.
#include <fmt/format.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "src/base/fd.hpp"
#include "src/base/hash.hpp"
#include "src/base/socket.hpp"
#include "src/fifo/access.hpp"
#include "src/fifo/local_fifo.hpp"
#include "wreath/transport.hpp"

namespace wreath {
namespace {

// A frame begins with this head. Both ends are the same build on machines of one byte order.
struct Frame {
  std::uint64_t checksum = 0;  // of the message, where the shape asks for it
  std::uint32_t bytes = 0;     // of the message that follows
  std::uint32_t signature = 0;
  // The frame's sender has read the messages of `lane` before this one.
  std::uint32_t consumed = 0;
  std::uint16_t epoch = 0;
  std::uint16_t lane = 0;
  // With 1 a message follows; with 0 the frame only says which messages were read.
  std::uint16_t messages = 0;
};

// A lane has the executor's ends of its FIFOs, and those of the pump.
struct FooLane {
  LocalMemory send_staging;
  LocalMemory recv_staging;
  SendFifo send;  // the executor's ends
  RecvFifo recv;
  RecvFifo outgoing;  // the pump's ends
  SendFifo incoming;
  const Counter* consumed = nullptr;  // by this rank's executor
  std::uint32_t told = 0;             // the value of `consumed` that the peer knows
  std::uint32_t acknowledged = 0;     // count that the peer's executor has read
};

class FooLink final : public Wire {
 public:
  FooLink(Rank peer, Fd socket, const FifoShape& shape)
      : peer_(peer), socket_(std::move(socket)), shape_(shape), fifos_(shape, shape), lanes_(shape.lanes) {
    for (std::uint16_t i = 0; i < shape.lanes; ++i) {
      const LocalFifos::Lane shared = fifos_.lane(i);
      FooLane& lane = lanes_[i];
      lane.send = local_send_fifo(shape, i, shared.send_slots, *shared.send_consumed);
      lane.outgoing = local_recv_fifo(shape, i, shared.send_slots, *shared.send_consumed);
      lane.recv = local_recv_fifo(shape, i, shared.recv_slots, *shared.recv_consumed);
      lane.incoming = local_send_fifo(shape, i, shared.recv_slots, *shared.recv_consumed);
      lane.consumed = shared.recv_consumed;
      lane.told = lane.acknowledged = shape.first_sequence;
    }
    // The output has at most a frame of each lane. Pages that nobody writes cost nothing.
    out_.reserve(lanes_.size() * (sizeof(Frame) + shape.slot_bytes));
  }
  ~FooLink() override {
    if (!broken_) finish_sending(socket_.get());
  }

  SendFifo& send_fifo(std::uint16_t lane) override { return lanes_[lane].send; }
  RecvFifo& recv_fifo(std::uint16_t lane) override { return lanes_[lane].recv; }
  Status prepare(std::uint16_t lane) override {
    WREATH_TRY(lanes_[lane].send_staging.allocate(staging_bytes(shape_)));
    set_staging(lanes_[lane].send, lanes_[lane].send_staging);
    return {};
  }

  Result<std::size_t> progress(bool) override {
    if (broken_) return *broken_;
    const auto read = receive();
    const auto sent = read ? send() : read;
    if (!sent) return broken_.emplace(sent.error());
    return *read + *sent;
  }
  int descriptor() const override { return socket_.get(); }
  // A peer that is done and gone takes no more frames, and needs none that only say what was consumed.
  bool send_blocked() const override { return !broken_ && sent_ < out_.size(); }
  std::size_t in_flight() const override {
    std::size_t bytes = out_has_messages_ ? out_.size() - sent_ : 0;
    for (const FooLane& lane : lanes_) {
      for (std::uint32_t message = lane.outgoing.next; message != lane.send.next; ++message) {
        bytes += sizeof(Frame) + lane.send.slots[message & (shape_.slot_count - 1)].bytes;
      }
    }
    return bytes;
  }
  bool closing_loses_data() const override { return send_blocked() || unacknowledged_bytes(socket_.get()) > 0; }

 private:
  static std::uint32_t consumed(const FooLane& lane) { return load_acquire(lane.consumed->value); }

  // Adds the next frames to the output, if all earlier output is sent.
  void fill() {
    for (FooLane& lane : lanes_) {
      Frame frame{.consumed = consumed(lane), .epoch = shape_.epoch, .lane = lane.send.lane};
      const bool has_room = lane.outgoing.next - lane.acknowledged < shape_.slot_count;
      const SlotHeader* const slot = has_room ? peek(lane.outgoing) : nullptr;
      if (slot == nullptr && frame.consumed == lane.told) continue;
      if (slot != nullptr) {
        frame.bytes = slot->bytes;
        frame.signature = slot->signature;
        frame.epoch = slot->epoch;
        frame.messages = 1;
        if (shape_.checked) frame.checksum = checksum({address_of(*slot), slot->bytes});
      }
      append({reinterpret_cast<const std::byte*>(&frame), sizeof frame});
      if (slot != nullptr) {
        append({address_of(*slot), frame.bytes});
        out_has_messages_ = true;
        consume(lane.outgoing);
      }
      lane.told = frame.consumed;
    }
  }
  void append(std::span<const std::byte> bytes) { out_.insert(out_.end(), bytes.begin(), bytes.end()); }

  Result<std::size_t> send() {
    std::size_t moved = 0;
    for (;;) {
      if (sent_ == out_.size()) {
        out_.clear();
        sent_ = 0;
        out_has_messages_ = false;
        fill();
      }
      if (out_.empty()) return moved;
      const ssize_t sent = ::send(socket_.get(), out_.data() + sent_, out_.size() - sent_, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return moved;
      if (sent < 0) return lost(std::strerror(errno));
      sent_ += static_cast<std::size_t>(sent);
      moved += static_cast<std::size_t>(sent);
    }
  }

  // Reads a frame's head, then reads its message straight to the place where the executor looks for it.
  Result<std::size_t> receive() {
    std::size_t moved = 0;
    for (;;) {
      if (wanted_.empty()) wanted_ = {reinterpret_cast<std::byte*>(&frame_), sizeof frame_};
      const ssize_t got = ::recv(socket_.get(), wanted_.data(), wanted_.size(), MSG_DONTWAIT);
      if (got == 0) return lost("connection closed");
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) return moved;
      if (got < 0) return lost(std::strerror(errno));
      moved += static_cast<std::size_t>(got);
      wanted_ = wanted_.subspan(static_cast<std::size_t>(got));
      if (wanted_.empty() && target_ == nullptr) WREATH_TRY(take_head());
      if (wanted_.empty() && target_ != nullptr) WREATH_TRY(end_message());
    }
  }

  // The head is a stranger's. A message may come before this rank prepares its lane, so memory for it is made here.
  Status take_head() {
    if (frame_.lane >= shape_.lanes || frame_.bytes > shape_.slot_bytes || frame_.messages > 1) {
      return lost("a frame that cannot be");
    }
    FooLane& lane = lanes_[frame_.lane];
    const std::uint32_t outstanding = lane.outgoing.next - lane.acknowledged;
    if (frame_.consumed - lane.acknowledged > outstanding) return lost("more messages were read than were sent");
    lane.acknowledged = frame_.consumed;
    if (frame_.messages == 0) return {};
    if (!has_credit(lane.incoming)) return lost("more messages than slots");
    WREATH_TRY(lane.recv_staging.allocate(staging_bytes(shape_)));
    set_staging(lane.incoming, lane.recv_staging);
    target_ = stage(lane.incoming);
    wanted_ = {target_, frame_.bytes};
    return {};
  }

  Status end_message() {
    if (shape_.checked && checksum({target_, frame_.bytes}) != frame_.checksum) {
      return lost("a message was altered on its way");
    }
    FooLane& lane = lanes_[frame_.lane];
    SlotHeader& slot = next_slot(lane.incoming);
    slot.epoch = frame_.epoch;
    slot.signature = frame_.signature;
    slot.bytes = frame_.bytes;
    publish(lane.incoming);
    target_ = nullptr;
    return {};
  }

  Error lost(std::string_view why) const {
    return {ErrorCode::PeerLost, fmt::format("foo link to rank {}: {}", peer_, why), peer_};
  }

  Rank peer_;
  Fd socket_;
  FifoShape shape_;
  LocalFifos fifos_;
  std::vector<FooLane> lanes_;
  std::vector<std::byte> out_;
  std::size_t sent_ = 0;  // of out_
  bool out_has_messages_ = false;
  Frame frame_;
  std::span<std::byte> wanted_;  // the bytes to read next
  // The place of the message that is being read; null while its head is read.
  std::byte* target_ = nullptr;
  std::optional<Error> broken_;
};

class FooTransport final : public Transport {
 public:
  explicit FooTransport(const FifoShape& shape) : shape_(shape) {}
  Status reachable(const Endpoint&, const Endpoint&) const override { return {}; }
  Result<Offer> offer(const Endpoint&) override { return Offer(); }
  Result<std::unique_ptr<Link>> connect(const Endpoint& peer, Offer theirs) override {
    if (theirs.descriptors.empty()) {
      return Error{ErrorCode::InvalidArgument,
                   fmt::format("foo link to rank {}: the offer holds no stream socket", peer.rank)};
    }
    Fd socket = Fd::of_process(std::exchange(theirs.descriptors.back(), -1));
    return std::unique_ptr<Link>(std::make_unique<FooLink>(peer.rank, std::move(socket), shape_));
  }

 private:
  FifoShape shape_;
};

}  // namespace

// The library's makers are in the namespace wreath. It may have a transport of this name, too.
namespace test {

Result<std::unique_ptr<Transport>> make_foo(const TransportContext& context) {
  return std::unique_ptr<Transport>(std::make_unique<FooTransport>(context.shape));
}

}  // namespace test
}  // namespace wreath
