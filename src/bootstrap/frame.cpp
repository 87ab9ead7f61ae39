// Messages on a stream: see frame.hpp.
#include "src/bootstrap/frame.hpp"

#include <fmt/format.h>
#include <poll.h>

namespace wreath {

Status send_message(int socket, const Message& message, Deadline deadline) {
  const std::vector<std::byte> body = encode(message);
  if (body.size() > kMaxFrameBytes) {
    return Error{ErrorCode::StartupFailed,
                 fmt::format("a start-up message of {} bytes exceeds the limit of {}", body.size(), kMaxFrameBytes)};
  }
  Writer frame;
  frame.number(static_cast<std::uint32_t>(body.size()));
  frame.raw(body);
  return send_all(socket, frame.take(), deadline);
}

Result<Message> recv_message(int socket, Deadline deadline, int watch) {
  MessageReader reader;
  for (;;) {
    auto message = reader.poll(socket);
    if (!message) return message.error();
    if (*message) return std::move(**message);
    if (wait_for(socket, POLLIN, deadline, watch)) continue;
    if (deadline.passed()) return Error{ErrorCode::Timeout, "the other end did not answer in time"};
    return Error{ErrorCode::NotReady, "interrupted"};
  }
}

Result<std::optional<Message>> MessageReader::poll(int socket) {
  for (;;) {
    const bool in_header = done_ < header_.size();
    const auto target =
        in_header ? std::span(header_).subspan(done_) : std::span(body_).subspan(done_ - header_.size());
    const std::ptrdiff_t moved = try_recv(socket, target);
    if (moved < 0) return Error{ErrorCode::PeerLost, "connection closed by the other end"};
    if (moved == 0) return std::optional<Message>();
    done_ += static_cast<std::size_t>(moved);
    if (in_header && done_ == header_.size()) {
      const auto size = Reader(header_).number<std::uint32_t>();
      if (size == 0 || size > kMaxFrameBytes) {
        return Error{ErrorCode::StartupFailed, fmt::format("a start-up message of {} bytes was announced", size)};
      }
      body_.resize(size);
    }
    if (done_ == header_.size() + body_.size() && !body_.empty()) {
      done_ = 0;
      auto message = decode(body_);
      body_.clear();
      if (!message) return message.error();
      return std::optional<Message>(std::move(*message));
    }
  }
}

}  // namespace wreath
