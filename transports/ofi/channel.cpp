// Names peers and puts to them: see channel.hpp.
#include "transports/ofi/channel.hpp"

#include <fmt/format.h>

#include "src/base/log.hpp"
#include "transports/ofi/adapter.hpp"

namespace wreath {

OfiChannel::~OfiChannel() {
  state_ = State::Stopping;
  if (reading_ > 0) adapter_.close_endpoint_now();
  adapter_.remove(*this);
}

std::string OfiChannel::describe() const { return fmt::format("{} channel {}", adapter_.describe(), index_); }

std::vector<std::byte> OfiChannel::address() const {
  OfiAddress own = adapter_.address();
  own.channel = index_;
  return encode_address(own);
}

Status OfiChannel::connect(std::span<const std::byte> theirs) {
  if (state_ != State::Ready) return Error{ErrorCode::InvalidUsage, "the channel is not ready for a peer"};
  const auto address = decode_address<OfiAddress>(theirs);
  if (!address) return address.error();
  const auto peer = adapter_.insert(*address);
  if (!peer) return peer.error();
  peer_ = *peer;
  word_ = std::uint32_t{address->channel} << adapter_.limits().told_bits;
  state_ = State::Connected;
  return {};
}

// Puts are submitted one by one: libfabric has no batch, and a promise of more (FI_MORE) that it then refuses would
// leave the last ones unsent.
Result<std::size_t> OfiChannel::put(std::span<const Put> puts) {
  if (state_ != State::Connected) return Error{ErrorCode::InvalidUsage, "the channel is not connected"};
  for (std::size_t i = 0; i < puts.size(); ++i) {
    if (outstanding_ == adapter_.limits().outstanding) return i;
    const Put& put = puts[i];
    const auto taken = adapter_.write(*this, put, peer_, word_ | put.tells.value_or(0));
    if (!taken && i == 0) return taken.error();
    if (!taken || !*taken) return i;
    ++outstanding_;
    if (put.bytes > 0) ++reading_;
  }
  return puts.size();
}

// A put to a peer that has left fails. The link is lost when a message is, and not with credit.
bool OfiChannel::on_ended(const OfiRequest& request, const std::string& failure, PutEvent& event) {
  --outstanding_;
  if (request.bytes > 0) --reading_;
  if (state_ == State::Lost) return false;
  event = {};
  event.channel = index_;
  event.number = request.number;
  if (failure.empty()) return true;
  log_info("{}: a put of {} bytes failed: {}", describe(), request.bytes, failure);
  if (request.optional || state_ == State::Stopping) return true;
  state_ = State::Lost;
  event.kind = PutEvent::Kind::Lost;
  event.error = {ErrorCode::PeerLost, fmt::format("a put of {} bytes failed: {}", request.bytes, failure)};
  return true;
}

// The last channel that stops closes the endpoint, which ends what peers may do here when it is closed. Before a peer's
// address was taken there is nothing to end, and later links need the endpoint.
bool OfiChannel::stop() {
  state_ = State::Stopping;
  if (!adapter_.has_peers()) return true;
  return adapter_.goes_on() ? reading_ == 0 : adapter_.close_endpoint();
}

Status OfiChannel::reset() {
  return Error{ErrorCode::InvalidUsage, "libfabric connects again by itself: its channels are not reset"};
}

}  // namespace wreath
