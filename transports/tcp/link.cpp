// A call makes one send and one receive in turn. Errors are in words.
#include "transports/tcp/link.hpp"

#include <fmt/format.h>

#include <utility>

namespace wreath {

TcpLink::TcpLink(Rank peer, Fd socket, const FifoShape& shape, std::string interface, std::shared_ptr<TcpCounts> counts)
    : peer_(peer),
      socket_(std::move(socket)),
      interface_(std::move(interface)),
      counts_(std::move(counts)),
      lanes_(shape),
      sender_(socket_.get(), lanes_, *counts_),
      receiver_(socket_.get(), lanes_, *counts_) {}

// The peer may still be reading bytes that the kernel accepted, and they must reach it.
TcpLink::~TcpLink() {
  if (!broken_ && !send_error_) finish_sending(socket_.get());
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

// Names the peer once, here. An error that is not the peer's doing keeps its code.
Error TcpLink::explain(const Error& error) const {
  return {error.code, fmt::format("tcp link to rank {}: {}", peer_, error.message),
          error.code == ErrorCode::PeerLost ? peer_ : -1};
}

Result<std::size_t> TcpLink::fail(Error error) {
  broken_ = std::move(error);
  return *broken_;
}

}  // namespace wreath
