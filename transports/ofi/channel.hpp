// A channel is a peer's address at the endpoint of this rank. All channels of a communicator share that endpoint.
#pragma once

#include <rdma/fabric.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/put/adapter.hpp"
#include "src/put/address.hpp"

namespace wreath {

class OfiAdapter;
struct OfiRequest;

// One end tells the other in these bytes how it is reached.
struct OfiAddress {
  std::string provider;
  std::uint32_t format = 0;   // of the endpoint's address, as fabric.h counts
  std::uint16_t channel = 0;  // the puts to this end name it
  std::vector<std::byte> endpoint;

  template <typename Self, typename Visit>
  static void each_field(Self& self, Visit visit) {
    visit(self.provider);
    visit(self.format);
    visit(self.channel);
    visit(self.endpoint);
  }
  Status check() const { return {}; }  // OfiAdapter::insert() compares all fields with its own
};

class OfiChannel final : public Channel {
 public:
  OfiChannel(OfiAdapter& adapter, std::uint16_t index) : adapter_(adapter), index_(index) {}
  // A channel whose puts still read memory takes the endpoint with it, and so all channels.
  ~OfiChannel() override;
  OfiChannel(const OfiChannel&) = delete;
  OfiChannel& operator=(const OfiChannel&) = delete;

  std::uint16_t index() const override { return index_; }
  std::string describe() const override;
  std::vector<std::byte> address() const override;
  Status connect(std::span<const std::byte> theirs) override;
  Result<std::size_t> put(std::span<const Put> puts) override;
  // Libfabric has no way to stop the traffic with one peer. When all channels are asked to stop, the endpoint is
  // closed. Before that the answer says whether puts of this channel read memory.
  bool stop() override;
  Status reset() override;
  // Waits a while for puts. A channel of which one has failed, or does not end, may have written or not, and may write
  // late: both ends close their endpoints then, before they go on.
  bool pause() override;
  std::uint32_t tells() const override;
  bool settle(std::uint32_t peer_tells) override;
  void give_up() override { state_ = State::Stopping; }

  // Takes the end of a put, which failed where `failure` is not empty. Returns whether it made `event`.
  bool on_ended(const OfiRequest& request, const std::string& failure, PutEvent& event);
  // Takes note of a put of the peer that has told something.
  void on_told() { ++received_; }
  // Loses a channel that is connected. What it has under way is lost, also where it pauses.
  void lose(const std::string& why);
  // Loses a channel that is connected, for the sake of another one.
  void leave(const std::string& why);
  // Says once that the channel is lost. Returns whether it made `event`.
  bool take_loss(PutEvent& event);
  // Forgets what the endpoint was to do, which is closed, and that a peer may have its address.
  void on_closed() {
    outstanding_ = reading_ = 0;
    failure_.reset();
    peer_ = FI_ADDR_UNSPEC;
    if (state_ == State::Ready) state_ = State::Settled;
  }
  // Returns whether the channel may still be of use.
  bool goes_on() const { return state_ != State::Lost && state_ != State::Stopping; }
  // Returns whether this end or the peer may have something under way.
  bool is_busy() const { return state_ != State::Ready && state_ != State::Settled && state_ != State::Stopping; }

 private:
  enum class State : std::uint8_t { Ready, Connected, Lost, Pausing, Paused, Settled, Stopping };
  void disconnect(ErrorCode code, const std::string& why);
  // Both return false where the provider takes no more now.
  Result<bool> submit(const Put& put);
  Result<bool> write(const Put& put, bool part);

  OfiAdapter& adapter_;
  const std::uint16_t index_;
  State state_ = State::Ready;
  fi_addr_t peer_ = FI_ADDR_UNSPEC;
  std::uint32_t word_ = 0;              // the peer's channel, where told words have it
  std::uint32_t outstanding_ = 0;       // writes
  std::uint32_t reading_ = 0;           // those of them that have bytes
  bool bytes_taken_ = false;            // of the next put, whose word was not
  std::uint32_t told_ = 0;              // puts that told the peer something and have ended, since connect()
  std::uint32_t received_ = 0;          // puts of the peer that told something
  std::int64_t pausing_ns_ = 0;         // when the channel began to pause
  std::optional<std::string> failure_;  // of a put that has failed, or does not end
  std::optional<Error> loss_;           // why it is lost, until that was said
};

}  // namespace wreath
