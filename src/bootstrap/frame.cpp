// Sends and receives messages on a stream: see frame.hpp.
#include "src/bootstrap/frame.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <utility>

namespace wreath {

Status send_message(Connection& to, const Message& message, Deadline deadline) {
  return send_content(to, Content(encode(message)), deadline);
}

Status send_content(Connection& to, const Content& content, Deadline deadline) {
  const std::size_t size = content.bytes().size();
  if (size <= kMaxFrameBytes) return send_all(to.get(), to.seal.write(content), deadline);
  return Error{ErrorCode::StartupFailed,
               fmt::format("a start-up message of {} bytes exceeds the limit of {}", size, kMaxFrameBytes)};
}

Result<Message> recv_message(Connection& from, Deadline deadline, int watch) {
  MessageReader reader;
  for (;;) {
    auto message = reader.poll(from);
    if (!message) return message.error();
    if (*message) return std::move(**message);
    if (wait_for(from.get(), POLLIN, deadline, watch)) continue;
    if (deadline.passed()) return Error{ErrorCode::Timeout, "the other end did not answer in time"};
    return Error{ErrorCode::NotReady, "interrupted"};
  }
}

Result<std::optional<Message>> MessageReader::poll(Connection& from) {
  for (;;) {
    const bool in_header = done_ < header_.size();
    const auto target =
        in_header ? std::span(header_).subspan(done_) : std::span(body_).subspan(done_ - header_.size());
    const std::ptrdiff_t moved = try_recv(from.get(), target);
    if (moved < 0) return Error{ErrorCode::PeerLost, "connection closed by the other end"};
    if (moved == 0) return std::optional<Message>();
    done_ += static_cast<std::size_t>(moved);
    if (in_header && done_ == header_.size()) {
      const auto length = Seal::length(header_, kMaxFrameBytes);
      if (!length) return length.error();
      body_.resize(*length + kSealBytes);
    }
    if (done_ == header_.size() + body_.size() && !body_.empty()) {
      auto message = finish(from.seal);
      if (!message) return message.error();
      return std::optional<Message>(std::move(*message));
    }
  }
}

Result<Message> MessageReader::finish(Seal& seal) {
  const std::vector<std::byte> body = std::exchange(body_, {});
  done_ = 0;
  const auto content = std::span(body).first(body.size() - kSealBytes);
  WREATH_TRY(seal.read(content, std::span(body).last<kSealBytes>()));
  return decode(content);
}

}  // namespace wreath
