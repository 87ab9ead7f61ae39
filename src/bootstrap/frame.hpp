// Messages on a stream: u32 length (at most 1 MiB), then one encoded message.
#pragma once

#include <array>
#include <optional>

#include "src/base/socket.hpp"
#include "src/bootstrap/codec.hpp"

namespace wreath {

Status send_message(int socket, const Message& message, Deadline deadline);
// NotReady when `watch` (a descriptor, -1: none) becomes readable first.
Result<Message> recv_message(int socket, Deadline deadline, int watch = -1);

// Collects one message at a time without waiting; never reads past the end of a message.
class MessageReader {
 public:
  // A message, nothing yet, or an error: closed, oversized or malformed.
  Result<std::optional<Message>> poll(int socket);

 private:
  std::array<std::byte, 4> header_{};
  std::vector<std::byte> body_;
  std::size_t done_ = 0;  // of header and body together
};

}  // namespace wreath
