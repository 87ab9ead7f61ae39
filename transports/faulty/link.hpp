// A FaultyLink adds faults to a link. Executors use its own FIFOs. It sends their messages over another link, or drops
// them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/fifo/local_fifo.hpp"
#include "transports/faulty/faults.hpp"
#include "wreath/link.hpp"

namespace wreath {

class FaultyLink final : public Wire {
 public:
  FaultyLink(std::unique_ptr<Link> inner, const FifoShape& shape, Rank self, Rank peer, const FaultRates& rates);

  SendFifo& send_fifo(std::uint16_t lane) override { return lanes_[lane].send; }
  RecvFifo& recv_fifo(std::uint16_t lane) override { return lanes_[lane].recv; }
  Status prepare(std::uint16_t lane) override;
  // Fails with PeerLost, for good, once a message drew `close`.
  Result<std::size_t> progress(bool expecting) override;
  int descriptor() const override { return wire_ == nullptr ? -1 : wire_->descriptor(); }
  bool send_blocked() const override { return wire_ != nullptr && wire_->send_blocked(); }
  std::size_t in_flight() const override;
  bool closing_loses_data() const override { return inner_->closing_loses_data(); }
  bool arm() override { return wire_ == nullptr || wire_->arm(); }
  bool stop() override { return wire_ == nullptr || wire_->stop(); }
  std::string held_by() const override { return wire_ == nullptr ? std::string() : wire_->held_by(); }
  void on_peer_left() override {
    if (wire_ != nullptr) wire_->on_peer_left();
  }
  bool needs_progress() const override { return wire_ != nullptr && wire_->needs_progress(); }
  bool has_words() const override { return wire_ != nullptr && wire_->has_words(); }
  std::optional<Offer> take_word() override { return wire_ == nullptr ? std::nullopt : wire_->take_word(); }
  Status on_word(Offer word) override { return wire_ == nullptr ? Status() : wire_->on_word(std::move(word)); }
  std::string path() const override { return wire_ == nullptr ? std::string() : wire_->path(); }
  // Slots of the link within may name regions of the peer.
  MappedLink* mapped() override { return inner_->mapped(); }

 private:
  struct Lane : LocalLane {
    LocalMemory recv_staging;
    std::uint32_t received;
    // The fault of the message at hand.
    LinkFault fault = LinkFault::None;
    bool drawn = false;
    std::int64_t due_ns = 0;
  };

  Result<std::size_t> forward(Lane& lane);
  Result<std::size_t> deliver(Lane& lane);
  bool held(Lane& lane);

  std::unique_ptr<Link> inner_;
  // The wire of inner_, or null where inner_ maps memory.
  Wire* wire_;
  FifoShape shape_;
  Rank self_;
  Rank peer_;
  FaultSource faults_;
  LocalFifos fifos_;
  std::vector<Lane> lanes_;
  std::vector<std::uint16_t> used_;
  std::optional<Error> broken_;
};

}  // namespace wreath
