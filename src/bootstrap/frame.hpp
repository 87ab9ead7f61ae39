// Start-up messages on a connection: sealed (seal.hpp), each one encoded message of at most 1 MiB.
#pragma once

#include <array>
#include <optional>

#include "src/base/socket.hpp"
#include "src/bootstrap/codec.hpp"
#include "src/bootstrap/seal.hpp"

namespace wreath {

Status send_message(Connection& to, const Message& message, Deadline deadline);
// One that is encoded already, as for several connections.
Status send_content(Connection& to, const Content& content, Deadline deadline);
// NotReady when `watch` (a descriptor, -1: none) becomes readable first.
Result<Message> recv_message(Connection& from, Deadline deadline, int watch = -1);

// Collects one message at a time without waiting; never reads past the end of a message.
class MessageReader {
 public:
  // A message, nothing yet, or an error: PeerLost, closed; StartupFailed, altered, oversized or malformed.
  Result<std::optional<Message>> poll(Connection& from);

 private:
  Result<Message> finish(Seal& seal);

  std::array<std::byte, kFrameHeaderBytes> header_{};
  std::vector<std::byte> body_;  // content and seal
  std::size_t done_ = 0;         // of header and body together
};

}  // namespace wreath
