// A link runs over several sockets, its rails, which may use several interfaces. Large messages go in parts over all of
// them. A rail that is lost is closed, and the others carry on until another socket replaces it. The link is lost with
// its last rail.
//
// A link that is made over one socket opens further ones where they gain (rail_growth.hpp). While it has one, it sends
// as TcpLink does. The first socket is the link's until the peer has said that it has what went over it alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "src/base/fd.hpp"
#include "src/base/socket.hpp"
#include "src/fifo/wire/lanes.hpp"
#include "transports/tcp/frame_reader.hpp"
#include "transports/tcp/rail_growth.hpp"
#include "transports/tcp/rail_inbox.hpp"
#include "transports/tcp/rail_opening.hpp"
#include "transports/tcp/rail_return.hpp"
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
  // The peer has as many rails, and may be on this host. The link adds to `counts`. With one socket the number of rails
  // is the link's own choice.
  static Result<std::unique_ptr<RailLink>> make(Rank self, Rank peer, std::vector<RailSocket> sockets,
                                                const FifoShape& shape, std::shared_ptr<TcpCounts> counts,
                                                bool same_host);
  ~RailLink() override;

  SendFifo& send_fifo(std::uint16_t lane) override { return lanes_.use(lane).send; }
  RecvFifo& recv_fifo(std::uint16_t lane) override { return lanes_.use(lane).recv; }
  Status prepare(std::uint16_t lane) override { return lanes_.prepare(lane); }
  // Returns PeerLost as TcpLink does, with the reason of the last rail.
  Result<std::size_t> progress(bool expecting) override;
  int descriptor() const override;
  bool send_blocked() const override;
  // Counts a large message until the peer has it.
  std::size_t in_flight() const override { return lanes_.held_bytes(kWireHeaderBytes); }
  bool closing_loses_data() const override;
  // descriptor() becomes readable by what happens from now on.
  bool arm() override;
  bool has_words() const override { return true; }
  std::optional<Offer> take_word() override;
  Status on_word(Offer word) override;
  bool needs_progress() const override { return !broken_ && (inbox_.owes() || sender_.sends_again()); }
  // Returns "eth0 + eth1", "eth0 (3 sockets)", or "eth0, lost: eth1".
  std::string path() const override;

 private:
  class Receiver;
  struct Rail;

  RailLink(Rank self, Rank peer, std::vector<RailSocket> sockets, const FifoShape& shape,
           std::shared_ptr<TcpCounts> counts);
  Status watch_all();
  Status watch(int socket) const;
  Result<std::size_t> send_all();
  Result<std::size_t> send(Rail& rail);
  Result<std::size_t> receive_all();
  Result<std::size_t> lose(Rail& rail, const Error& error);
  Result<std::size_t> look_after_rails();
  void measure(std::int64_t now_ns);
  Result<std::size_t> change_count(std::int64_t now_ns);
  void say_losses(std::int64_t now_ns);
  void replace_lost(std::int64_t now_ns);
  std::size_t shared_rails() const;
  Result<std::unique_ptr<Rail>> prepare_rail(std::size_t number, Fd socket, const std::string& interface);
  Status take_back(Rail& rail, Fd socket);
  Status add_rail(Fd socket);
  Result<std::size_t> remove_last_rail();
  bool carries(const Rail& rail) const;
  Status take(const RailWord& word);
  Status take_loss(const RailWord& word);
  Status take_unneeded(const RailAddresses& theirs);
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
  // All sockets wait here. It is empty while there has been one socket.
  Fd events_;
  std::vector<std::unique_ptr<Rail>> rails_;
  std::size_t alive_;
  std::size_t carriers_;              // the first of the rails, which carry what this end sends
  std::optional<RailGrowth> growth_;  // nothing where the number of rails is fixed
  RailOpening opening_;
  // The rail that goes first, for fairness.
  std::size_t turn_ = 0;
  int idle_calls_ = 0;
  int unlooked_calls_ = 0;  // in which nobody looked after rails
  bool armed_ = false;
  std::int64_t looked_ns_ = 0;
  std::size_t moved_ = 0;  // bytes that came while the peer's words were taken
  bool same_host_ = false;
  std::deque<RailWord> words_;
  std::optional<Error> last_loss_;
  std::optional<Error> broken_;
  mutable std::mutex path_mutex_;  // other threads ask for the path, and read the rails' interfaces
  std::vector<std::string> lost_;  // whose loss was said
};

}  // namespace wreath
