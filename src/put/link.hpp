// A link puts messages straight into the peer's registered slots. Its FIFOs are in local memory, and progress() carries
// their messages.
//
// A sender has at most a window of a lane's messages outstanding at the receiver (src/fifo/wire/window.hpp), and a slot
// waits for each. The slots of lane 0 for small messages are named in the offer. Others are made and named when the
// sender has the first message for them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/put/recovery.hpp"
#include "wreath/link.hpp"

namespace wreath {

struct PutOptions {
  std::uint32_t channels = 1;          // to each peer, over each rail
  std::int64_t reconnect_ms = 30'000;  // a link that lost its channels tries so long to connect again
  PlaceWaiting waiting{};
};

class PutLink final : public Wire, private PutEventTaker {
 public:
  // Makes channels and slots for the peer's first messages. They are idle until connect().
  static Result<std::unique_ptr<PutLink>> make(Rank peer, std::shared_ptr<PutPort> port, const FifoShape& shape,
                                               const PutOptions& options);
  ~PutLink() override;

  PutOffer offer() const;
  Status connect(const PutOffer& theirs);

  SendFifo& send_fifo(std::uint16_t lane) override { return wires_.use(lane).send; }
  RecvFifo& recv_fifo(std::uint16_t lane) override { return wires_.use(lane).recv; }
  Status prepare(std::uint16_t lane) override;
  // Returns PeerLost with the peer and the reason: the adapter's words, or the field that is not as agreed.
  Result<std::size_t> progress(bool expecting) override;
  int descriptor() const override { return port_->descriptor(); }
  // Returns whether the adapter has not taken a message, or the link connects again and has something to put, or its
  // peer waits for that.
  bool send_blocked() const override;
  std::size_t in_flight() const override;
  // Asks the adapter which puts have ended.
  bool closing_loses_data() const override;
  bool needs_progress() const override;
  bool arm() override;
  bool stop() override;
  std::string held_by() const override;
  Status let_in(const DeviceRange& memory) override;
  void on_peer_left() override { recovery_.on_peer_left(); }
  std::optional<Offer> take_word() override;
  Status on_word(Offer word) override;
  // Returns "mlx5_0 port 1 + mlx5_1 port 1", or "mlx5_0 port 1, lost: mlx5_1 port 1".
  std::string path() const override;

  const PutCounts& counts() const { return port_->counts(); }

 private:
  PutLink(Rank peer, std::shared_ptr<PutPort> port, const FifoShape& shape, const PutOptions& options);
  void take(std::size_t rail, const PutEvent& event) override;
  Status take_ended(std::size_t rail, const PutEvent& event);
  Status take_told(std::size_t rail, std::uint32_t bits);
  Status accept(PutWord word);
  bool finds_silence();
  bool peer_polls(PutQueue& silent);
  bool idle() const;
  Error end_of(const PutEvent& loss);
  Error explain(const Error& error) const;
  void fail(const Error& error);

  const Rank peer_;
  const std::shared_ptr<PutPort> port_;
  WireLanes wires_;
  PutLanes lanes_;
  // The channels are destroyed before the memory of the lanes.
  PutQueues queues_;
  PutLandings landings_;
  PutSender sender_;
  PutReceiver receiver_;
  PutRecovery recovery_;
  std::vector<PutWord> new_words_;
  std::deque<Offer> words_;
  std::uint64_t turn_ = 0;                    // the port's, when this link last had it
  std::size_t moved_ = 0;                     // bytes of events since the last progress()
  std::atomic<std::uint32_t> present_ = ~0U;  // the rails that both ends have, a bit each; any thread asks for the path
  bool stopped_ = false;
  std::optional<Error> broken_;
};

}  // namespace wreath
