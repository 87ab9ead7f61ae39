// Names peers and puts to them: see channel.hpp.
#include "transports/ofi/channel.hpp"

#include <fmt/format.h>

#include <utility>

#include "src/base/clock.hpp"
#include "src/base/log.hpp"
#include "transports/ofi/adapter.hpp"

namespace wreath {
namespace {

// Puts end within this time where the peer polls, as the progress thread of one in no call does now and then.
constexpr std::int64_t kLongestDrainNs = 2000 * kNsPerMs;

}  // namespace

OfiChannel::~OfiChannel() {
  state_ = State::Stopping;
  if (reading_ > 0) adapter_.close_now();
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
  if (peer_ != FI_ADDR_UNSPEC) adapter_.forget(peer_);
  peer_ = *peer;
  word_ = std::uint32_t{address->channel} << adapter_.limits().told_bits;
  state_ = State::Connected;
  bytes_taken_ = false;
  return {};
}

// Puts are submitted one by one: libfabric has no batch, and a promise of more (FI_MORE) that it then refuses would
// leave the last ones unsent.
Result<std::size_t> OfiChannel::put(std::span<const Put> puts) {
  if (state_ == State::Lost && adapter_.mends()) return std::size_t{0};
  if (state_ != State::Connected) return Error{ErrorCode::InvalidUsage, "the channel is not connected"};
  for (std::size_t i = 0; i < puts.size(); ++i) {
    if (outstanding_ == adapter_.limits().outstanding) return i;
    const auto taken = submit(puts[i]);
    if (!taken && adapter_.mends()) lose(taken.error().message);
    if (!taken && i == 0 && !adapter_.mends()) return taken.error();
    if (!taken || !*taken) return i;
  }
  return puts.size();
}

// A put whose word goes apart may have its bytes taken alone. Then it is the first of the next puts.
Result<bool> OfiChannel::submit(const Put& put) {
  if (!adapter_.tells_apart() || !put.tells || put.bytes == 0) return write(put, false);
  if (!bytes_taken_) {
    Put bytes = put;
    bytes.tells.reset();
    const auto taken = write(bytes, true);
    if (!taken || !*taken) return taken;
    bytes_taken_ = true;
    if (outstanding_ == adapter_.limits().outstanding) return false;
  }
  Put word = put;
  word.bytes = 0;
  const auto taken = write(word, false);
  if (taken && *taken) bytes_taken_ = false;
  return taken;
}

Result<bool> OfiChannel::write(const Put& put, bool part) {
  const auto request = adapter_.write(*this, put, peer_, word_ | put.tells.value_or(0));
  if (!request) return request.error();
  if (*request == nullptr) return false;
  (*request)->part = part;
  ++outstanding_;
  if (put.bytes > 0) ++reading_;
  return true;
}

// A put to a peer that has left fails. The only adapter's link is lost when a message is, and not with credit. Where
// the link has others, its credit would be missed.
bool OfiChannel::on_ended(const OfiRequest& request, const std::string& failure, PutEvent& event) {
  --outstanding_;
  if (request.bytes > 0) --reading_;
  if (failure.empty() && request.tells) ++told_;
  if (!failure.empty()) {
    log_info("{}: a put of {} bytes failed: {}", describe(), request.bytes, failure);
    if (adapter_.mends() || !request.optional) {
      lose(fmt::format("a put of {} bytes failed: {}", request.bytes, failure));
      return take_loss(event);
    }
  }
  // The word of the put says that it has ended. After a pause this end has said what has ended.
  if (request.part) return false;
  if (state_ != State::Connected && state_ != State::Pausing) return false;
  event = {};
  event.channel = index_;
  event.number = request.number;
  return true;
}

void OfiChannel::lose(const std::string& why) {
  if (is_busy() && !failure_) failure_ = why;
  disconnect(ErrorCode::PeerLost, why);
}

// The peer has no part in it.
void OfiChannel::leave(const std::string& why) { disconnect(ErrorCode::System, why); }

void OfiChannel::disconnect(ErrorCode code, const std::string& why) {
  if (state_ != State::Connected) return;
  state_ = State::Lost;
  loss_ = Error{code, why};
}

bool OfiChannel::take_loss(PutEvent& event) {
  if (!loss_) return false;
  event = {};
  event.kind = PutEvent::Kind::Lost;
  event.channel = index_;
  event.error = *std::exchange(loss_, std::nullopt);
  event.retryable = adapter_.mends();
  return true;
}

// The last channel that stops closes the endpoint, which ends what peers may do here when it is closed. Before a peer's
// address was taken there is nothing to end, and later links need the endpoint.
bool OfiChannel::stop() {
  state_ = State::Stopping;
  if (!adapter_.has_peers()) return true;
  return adapter_.goes_on() ? reading_ == 0 : adapter_.close_for_good();
}

bool OfiChannel::pause() {
  if (state_ == State::Connected || state_ == State::Lost) {
    state_ = State::Pausing;
    loss_.reset();
    pausing_ns_ = now_ns();
  }
  if (state_ != State::Pausing) return true;
  if (outstanding_ > 0 && !failure_ && now_ns() - pausing_ns_ <= kLongestDrainNs) return false;
  if (outstanding_ > 0 && !failure_) failure_ = "its puts do not end";
  state_ = State::Paused;
  return true;
}

std::uint32_t OfiChannel::tells() const {
  if (state_ != State::Paused) return 0;
  return failure_ ? kUnknownTells : told_;
}

bool OfiChannel::settle(std::uint32_t peer_tells) {
  if (state_ == State::Paused) {
    if (peer_tells == kUnknownTells && !failure_) failure_ = "puts of the peer were lost";
    if (!failure_ && received_ != peer_tells) return false;
    if (failure_) adapter_.mend(*failure_);
    state_ = State::Settled;
  }
  return !failure_ || !adapter_.is_mending();
}

// The adapter must have its endpoint again. A channel that is to be settled keeps its index, and counts anew.
Status OfiChannel::reset() {
  if (!adapter_.mends()) {
    return Error{ErrorCode::InvalidUsage, "libfabric connects again by itself: its channels are not reset"};
  }
  WREATH_TRY(adapter_.reopen());
  told_ = received_ = 0;
  failure_.reset();
  state_ = State::Ready;
  return {};
}

}  // namespace wreath
