// One send and one receive in turn; errors in words.
#include "transports/tcp/link.hpp"

#include <fmt/format.h>

#include <utility>

namespace wreath {
TcpLink::TcpLink(Rank peer, Fd socket, const FifoShape& shape)
    : peer_(peer),
      socket_(std::move(socket)),
      lanes_(shape),
      sender_(socket_.get(), lanes_),
      receiver_(socket_.get(), lanes_) {}

Status TcpLink::prepare(std::uint16_t lane) {
  TcpLane& own = lanes_[lane];
  WREATH_TRY(own.send_staging.allocate(lanes_.shape()));
  own.send.staging = own.send_staging.data();
  own.send.staging_region = kLocalAddress;
  own.send.staging_offset = reinterpret_cast<std::uintptr_t>(own.send.staging);
  return {};
}

Result<std::size_t> TcpLink::progress(bool expecting) {
  if (broken_) return *broken_;
  std::size_t moved = 0;
  if (!send_error_) {
    auto sent = sender_.send_some();
    if (!sent && sent.error().code != ErrorCode::PeerLost) return fail(explain(sent.error()));
    if (sent) {
      moved = *sent;
    } else {
      send_error_ = explain(sent.error());
    }
  }
  if (!expecting && !send_error_ && !sender_.starved() && ++idle_calls_ < kIdleCalls) return moved;
  idle_calls_ = 0;
  auto received = receiver_.receive_some();
  if (!received) return fail(explain(received.error()));
  if (send_error_ && *received == 0) return fail(*send_error_);
  return moved + *received;
}

std::size_t TcpLink::in_flight() const {
  std::size_t bytes = 0;
  for (const TcpLane& lane : lanes_.all()) {
    for (std::uint32_t sequence = lane.send_consumed.value; sequence != lane.send.next; ++sequence) {
      bytes += kWireHeaderBytes + lane.send_slots[sequence & (lane.send.slot_count - 1)].bytes;
    }
  }
  return bytes;
}

// The peer is named once, here. What is not the peer's doing keeps its code.
Error TcpLink::explain(const Error& error) const {
  const bool peers_doing = error.code == ErrorCode::PeerLost || error.code == ErrorCode::InvalidArgument;
  return {peers_doing ? ErrorCode::PeerLost : error.code, fmt::format("tcp link to rank {}: {}", peer_, error.message),
          peers_doing ? peer_ : -1};
}

Result<std::size_t> TcpLink::fail(Error error) {
  broken_ = std::move(error);
  return *broken_;
}

}  // namespace wreath
