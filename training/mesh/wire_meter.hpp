// WireMeter counts the bytes that the transports moved for the calls of one communicator, for each caller.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "wreath/communicator.hpp"

namespace wreath::training {

// Shared by the groups of a communicator, and used by one thread at a time. Where several calls of one collective are
// in flight together, the first that is waited for gets the bytes of all that ended.
class WireMeter {
 public:
  explicit WireMeter(std::shared_ptr<Communicator> communicator) : communicator_(std::move(communicator)) {}

  // A caller holds this while its call is in flight.
  using Flight = std::shared_ptr<const int>;
  // Must be called before a call. With no call in flight, earlier bytes belong to others than groups.
  Flight begin(Collective collective) {
    if (flight_.use_count() == 1) known(collective) = moved(collective);
    return flight_;
  }
  // Returns, after a call, the bytes that nobody was given yet.
  std::uint64_t take(Collective collective) {
    const std::uint64_t now = moved(collective);
    const std::uint64_t bytes = now - known(collective);
    known(collective) = now;
    return bytes;
  }

 private:
  std::uint64_t moved(Collective collective) const {
    const WireBytes bytes = communicator_->wire_bytes(collective);
    return bytes.sent + bytes.loaded;
  }
  std::uint64_t& known(Collective collective) { return known_[static_cast<std::size_t>(collective)]; }

  std::shared_ptr<Communicator> communicator_;
  Flight flight_ = std::make_shared<const int>(0);
  std::array<std::uint64_t, static_cast<std::size_t>(Collective::Exchange) + 1> known_{};
};

}  // namespace wreath::training
