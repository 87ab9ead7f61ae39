// A call makes one send and one receive in turn. Errors are in words.
#include "transports/tcp/link.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <utility>

namespace wreath {
namespace {

// The link leaves a peer that reads nothing after so many milliseconds of quiet.
constexpr int kLingerMs = 2000;
// The end of the stream counts as a byte in unacknowledged_bytes().
constexpr std::size_t kEndOfStream = 1;

void discard_input(int socket) {
  std::array<std::byte, 4096> discarded;
  while (::recv(socket, discarded.data(), discarded.size(), MSG_DONTWAIT) > 0) {
  }
}

}  // namespace

TcpLink::TcpLink(Rank peer, Fd socket, const FifoShape& shape, std::string interface)
    : peer_(peer),
      socket_(std::move(socket)),
      interface_(std::move(interface)),
      lanes_(shape),
      sender_(socket_.get(), lanes_),
      receiver_(socket_.get(), lanes_) {}

// The peer may still be reading bytes that the kernel accepted, and they must reach it. Closing with unread input would
// reset the connection and discard them. So input is read away until this rank's bytes are acknowledged. The end of the
// stream is not waited for: a peer that has nothing to say acknowledges it some 40 ms later. The kernel sends a lost
// packet again after 0.2 s and more. A host that vanished has lost several by now.
TcpLink::~TcpLink() {
  if (broken_ || send_error_) return;
  ::shutdown(socket_.get(), SHUT_WR);
  discard_input(socket_.get());
  std::size_t left = unacknowledged_bytes(socket_.get());
  for (int quiet_ms = 0; quiet_ms < kLingerMs && left > kEndOfStream && !lost_for_good(socket_.get());) {
    ::poll(nullptr, 0, 1);
    discard_input(socket_.get());
    const std::size_t before = std::exchange(left, unacknowledged_bytes(socket_.get()));
    quiet_ms = left == before ? quiet_ms + 1 : 0;
  }
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
