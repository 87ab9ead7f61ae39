// Sends and receives start-up messages on a connection. Each is sealed (seal.hpp) and is one encoded message of at most
// 1 MiB.
#pragma once

#include <array>
#include <optional>

#include "src/base/socket.hpp"
#include "src/bootstrap/codec.hpp"
#include "src/bootstrap/seal.hpp"

namespace wreath {

Status send_message(Connection& to, const Message& message, Deadline deadline);
// Sends a message that is encoded already, for instance for several connections.
Status send_content(Connection& to, const Content& content, Deadline deadline);
// Receives a message. Fails with NotReady when `watch` (a descriptor, -1 for none) becomes readable first.
Result<Message> recv_message(Connection& from, Deadline deadline, int watch = -1);

// Collects one message at a time without waiting; never reads past the end of a message.
class MessageReader {
 public:
  // Returns a message, nothing yet, or an error. PeerLost means that the connection is closed; StartupFailed that the
  // message is altered, oversized or malformed.
  Result<std::optional<Message>> poll(Connection& from);

 private:
  Result<Message> finish(Seal& seal);

  std::array<std::byte, kFrameHeaderBytes> header_{};
  std::vector<std::byte> body_;  // content and seal
  // Counts the bytes of header and body together.
  std::size_t done_ = 0;
};

}  // namespace wreath
