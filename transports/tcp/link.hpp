// A link runs over one stream socket. Its FIFOs are in local memory, and progress() carries their messages.
//
// A sender has at most a window of a lane's messages outstanding at the receiver (window.hpp). So arriving messages
// always have room, the stream is always read, and a slow lane holds up no other. Room comes back as credit. Every
// header has one lane's count, and frames of their own have it where nothing else is sent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "src/base/fd.hpp"
#include "src/base/socket.hpp"
#include "src/fifo/wire/lanes.hpp"
#include "transports/tcp/counts.hpp"
#include "transports/tcp/receiver.hpp"
#include "transports/tcp/sender.hpp"
#include "wreath/link.hpp"

namespace wreath {

class TcpLink : public Wire {
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
  bool send_blocked() const override { return !broken_ && sender_.blocked(); }
  std::size_t in_flight() const override { return lanes_.held_bytes(kWireHeaderBytes); }
  bool closing_loses_data() const override { return unacknowledged_bytes(socket_.get()) > 0; }
  bool has_words() const override { return false; }
  std::string path() const override { return interface_; }

 private:
  Error explain(const Error& error) const;
  Result<std::size_t> fail(Error error);

  // An empty recv costs 250 ns, so it is rare when nothing is expected.
  static constexpr int kIdleCalls = 16;

  Rank peer_;
  Fd socket_;
  std::string interface_;
  std::shared_ptr<TcpCounts> counts_;
  WireLanes lanes_;
  TcpSender sender_;
  TcpReceiver receiver_;
  int idle_calls_ = 0;
  // This error is reported when everything that arrived before it has been read.
  std::optional<Error> send_error_;
  std::optional<Error> broken_;
};

}  // namespace wreath
