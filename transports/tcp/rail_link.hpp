// A link runs over several sockets, its rails, which may use several interfaces. Large messages go in parts over all of
// them. A rail that is lost is closed, and the others carry on; the link is lost with its last rail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "src/base/fd.hpp"
#include "src/base/socket.hpp"
#include "src/fifo/wire/lanes.hpp"
#include "transports/tcp/frame_reader.hpp"
#include "transports/tcp/rail_inbox.hpp"
#include "transports/tcp/rail_sender.hpp"
#include "wreath/link.hpp"

namespace wreath {

// A socket as TcpLink's, and the network interface that it uses.
struct RailSocket {
  Fd socket;
  std::string interface;
};

class RailLink : public Wire {
 public:
  // The peer has as many rails. The link adds to `counts`.
  static Result<std::unique_ptr<RailLink>> make(Rank self, Rank peer, std::vector<RailSocket> sockets,
                                                const FifoShape& shape, std::shared_ptr<TcpCounts> counts);
  ~RailLink() override;

  SendFifo& send_fifo(std::uint16_t lane) override { return lanes_.use(lane).send; }
  RecvFifo& recv_fifo(std::uint16_t lane) override { return lanes_.use(lane).recv; }
  Status prepare(std::uint16_t lane) override { return lanes_.prepare(lane); }
  // Returns PeerLost as TcpLink does, with the reason of the last rail.
  Result<std::size_t> progress(bool expecting) override;
  int descriptor() const override { return events_.get(); }
  bool send_blocked() const override;
  // Counts a large message until the peer has it.
  std::size_t in_flight() const override { return lanes_.held_bytes(kWireHeaderBytes); }
  bool closing_loses_data() const override;
  // descriptor() becomes readable by what happens from now on.
  bool arm() override;
  // A link without words gets no progress between calls, when the peer may need a report, or messages again.
  bool has_words() const override { return true; }
  bool needs_progress() const override { return !broken_ && (inbox_.owes() || sender_.sends_again()); }
  // Returns "eth0 + eth1", "eth0 (3 sockets)", or "eth0, lost: eth1".
  std::string path() const override;

 private:
  class Receiver;
  struct Rail;

  RailLink(Rank self, Rank peer, std::vector<RailSocket> sockets, const FifoShape& shape, Fd events,
           std::shared_ptr<TcpCounts> counts);
  Result<std::size_t> send_all();
  Result<std::size_t> send(Rail& rail);
  Result<std::size_t> receive_all();
  Result<std::size_t> lose(Rail& rail, const Error& error);
  Result<std::size_t> look_after_rails();
  void say_losses(std::int64_t now_ns);
  Error explain(const Error& error) const;
  Error fail(const Error& error);

  // As TcpLink.
  static constexpr int kIdleCalls = 16;
  // A call sends about so much before it receives.
  static constexpr std::size_t kTurnBytes = std::size_t{1} << 20;

  Rank self_;
  Rank peer_;
  std::shared_ptr<TcpCounts> counts_;
  WireLanes lanes_;
  RailInbox inbox_;
  RailSender sender_;
  Fd events_;
  std::vector<std::unique_ptr<Rail>> rails_;
  std::size_t alive_;
  // The rail that goes first, for fairness.
  std::size_t turn_ = 0;
  int idle_calls_ = 0;
  bool armed_ = false;
  std::int64_t looked_ns_ = 0;
  std::size_t unsaid_ = 0;  // lost rails that the log has not named
  std::optional<Error> last_loss_;
  std::optional<Error> broken_;
  mutable std::mutex path_mutex_;  // other threads ask for the path
  std::vector<std::string> lost_;
};

}  // namespace wreath
