// A link runs over one stream socket. Its FIFOs are in local memory, and progress() carries their messages.
//
// A sender has at most a window of a lane's messages outstanding at the receiver (window.hpp). So arriving messages
// always have room, the stream is always read, and a slow lane holds up no other. Room comes back as credit. Every
// header has one lane's count, and frames of their own have it where nothing else is sent.
//
// The sending half gathers published messages of all lanes into batches, with one system call each. The receiving half
// is a FrameReader, and publishes messages, which come in their order.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/fd.hpp"
#include "src/base/socket.hpp"
#include "src/fifo/wire/lanes.hpp"
#include "transports/tcp/frame_batch.hpp"
#include "transports/tcp/frame_reader.hpp"
#include "wreath/link.hpp"

namespace wreath {

// The FrameReader touches neither socket nor counts while it is made or destroyed.
class TcpLink final : public Wire, private FrameReader {
 public:
  // `socket` is connected, authenticated, and a stream. Nothing of another protocol may be unread on it. `interface`
  // names the network interface that it uses. The link adds to `counts`.
  TcpLink(Rank peer, Fd socket, const FifoShape& shape, std::string interface, std::shared_ptr<TcpCounts> counts);
  ~TcpLink() override;

  SendFifo& send_fifo(std::uint16_t lane) override { return lanes_.use(lane).send; }
  RecvFifo& recv_fifo(std::uint16_t lane) override { return lanes_.use(lane).recv; }
  Status prepare(std::uint16_t lane) override { return lanes_.prepare(lane); }
  // Returns PeerLost with the peer and the reason: "connection closed", "connection reset", or the field of a frame
  // that is not as agreed.
  Result<std::size_t> progress(bool expecting) override;
  // A socket that has ended stays readable, and would wake its rank for nothing.
  int descriptor() const override { return broken_ ? -1 : socket_.get(); }
  // Says whether the kernel left something of what was gathered.
  bool send_blocked() const override { return !broken_ && batch_.blocked(); }
  std::size_t in_flight() const override { return lanes_.held_bytes(kWireHeaderBytes); }
  bool closing_loses_data() const override { return unacknowledged_bytes(socket_.get()) > 0; }
  // The next progress() looks for messages.
  bool arm() override { return armed_ = true; }
  bool has_words() const override { return false; }
  std::string path() const override { return interface_; }

 private:
  // A message in the batch. Its memory is free once `end` bytes of the batch are gone.
  struct Frame {
    WireLane* lane;
    std::uint32_t sequence;
    std::size_t end;
  };
  // The memory has a place for each message of a lane's window.
  struct Places {
    LocalMemory small;
    LocalMemory large;
    Landing landing;
  };

  Result<std::size_t> send_some();
  Status gather();
  bool full(std::size_t bytes) const;
  Status add_message(WireLane& lane, const SlotHeader& slot);
  void add_owed_credits(bool anything_else);
  Result<std::size_t> send_batch();

  Status check(const WireHeader& header) const override;
  void take_report(const WireHeader& header) override;
  Result<std::byte*> destination(const WireHeader& header) override;
  void take_payload(const WireHeader& header, const std::byte* data) override;
  Status check_order(const WireHeader& header) const;
  Status check_credit(const WireHeader& header) const;

  Error explain(const Error& error) const;
  Result<std::size_t> fail(Error error);

  // An empty recv costs 250 ns, so it is rare when nothing is expected.
  static constexpr int kIdleCalls = 16;
  // A larger batch has no advantage (measured).
  static constexpr std::size_t kBatchBytes = std::size_t{1} << 20;
  // A rest this small is not worth a turn of its own.
  static constexpr std::size_t kRefillBytes = kBatchBytes / 4;
  static constexpr std::size_t kFrames = 64;
  // The number of calls that wait for a message that could carry a credit.
  static constexpr int kPatience = 4;

  Rank peer_;
  Fd socket_;
  std::string interface_;
  std::shared_ptr<TcpCounts> counts_;
  WireLanes lanes_;
  FrameBatch batch_;
  std::array<Frame, kFrames> frames_;
  std::size_t first_frame_ = 0;
  std::size_t end_frame_ = 0;
  // The lane that goes first, for fairness.
  std::size_t turn_ = 0;
  int calls_stuck_ = 0;
  // A published message waits for credit, which only receiving can deliver.
  bool starved_ = false;
  std::vector<Places> places_;  // by lane
  int idle_calls_ = 0;
  bool armed_ = false;
  // This error is reported when everything that arrived before it has been read.
  std::optional<Error> send_error_;
  std::optional<Error> broken_;
};

}  // namespace wreath
