// Replaces lost sockets: see rail_return.hpp.
#include "transports/tcp/rail_return.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>

#include "src/base/clock.hpp"
#include "src/base/ports.hpp"
#include "src/base/random.hpp"

namespace wreath {
namespace {

// An attempt lasts so long, and is followed by a pause that doubles.
constexpr std::int64_t kAttemptNs = 10'000 * kNsPerMs;
constexpr std::int64_t kFirstPauseNs = 1000 * kNsPerMs;
constexpr std::int64_t kLongestPauseNs = 60'000 * kNsPerMs;
// A connection must be made, and a stranger must have brought the secret, in so long.
constexpr std::int64_t kConnectNs = 3000 * kNsPerMs;

void set_blocking(int socket) {
  const int flags = ::fcntl(socket, F_GETFL);
  if (flags >= 0) (void)::fcntl(socket, F_SETFL, flags & ~O_NONBLOCK);
}

// Begins to connect from one address to another. The socket is empty where that fails at once.
Fd begin_to_connect(const SocketAddress& from, const SocketAddress& to) {
  Fd socket = Fd::of_process(::socket(to.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return socket;
  const SocketAddress any = from.with_port(0);
  if (::bind(socket.get(), any.get(), any.length()) != 0) return {};
  if (::connect(socket.get(), to.get(), to.length()) != 0 && errno != EINPROGRESS) return {};
  return socket;
}

}  // namespace

std::optional<Fd> RailReturn::step(std::int64_t now_ns, std::optional<RailWord>& word) {
  if (!waits_) return socket_ ? connect(now_ns) : std::nullopt;
  if (!listener_ && now_ns >= next_ns_) listen(now_ns, word);
  if (!listener_) return std::nullopt;
  if (auto made = accept(now_ns)) return made;
  if (now_ns >= until_ns_ && !socket_) listener_ = Fd();
  return std::nullopt;
}

void RailReturn::listen(std::int64_t now_ns, std::optional<RailWord>& word) {
  pause_ns_ = std::clamp(2 * pause_ns_, kFirstPauseNs, kLongestPauseNs);
  until_ns_ = now_ns + kAttemptNs;
  next_ns_ = until_ns_ + pause_ns_;
  auto listener = listen_in_range(lost_.local);
  // A card that is away may have no address.
  if (!listener) return;
  listener_ = std::move(*listener);
  fill_random(secret_);
  fill_random(answer_);
  word = RailWord{.kind = RailWord::Kind::Awaited,
                  .socket = lost_,
                  .port = local_address(listener_.get()).port(),
                  .secret = secret_,
                  .answer = answer_};
}

// Reads from the connection that is being made. Returns whether it said what was expected; nothing before it is whole.
std::optional<bool> RailReturn::hears(const RailSecret& expected) {
  const std::ptrdiff_t got = try_recv(socket_.get(), std::span(heard_).subspan(heard_bytes_));
  if (got < 0) return false;
  heard_bytes_ += static_cast<std::size_t>(got);
  if (heard_bytes_ < heard_.size()) return std::nullopt;
  return heard_ == expected;
}

// Takes one connection at a time. A stranger holds it for kConnectNs at most.
std::optional<Fd> RailReturn::accept(std::int64_t now_ns) {
  if (!socket_) {
    socket_ = Fd::of_process(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket_) return std::nullopt;
    socket_until_ns_ = now_ns + kConnectNs;
    heard_bytes_ = 0;
  }
  const std::optional<bool> peer = hears(secret_);
  if (!peer && now_ns < socket_until_ns_) return std::nullopt;
  Fd socket = std::exchange(socket_, Fd());
  const auto all = static_cast<std::ptrdiff_t>(answer_.size());
  if (!peer || !*peer || try_send(socket.get(), answer_) != all) return std::nullopt;
  listener_ = Fd();
  return socket;
}

void RailReturn::on_awaited(const RailWord& word, std::int64_t now_ns) {
  if (waits_) return;
  secret_ = word.secret;
  answer_ = word.answer;
  asked_ = false;
  heard_bytes_ = 0;
  socket_ = begin_to_connect(lost_.local, lost_.remote.with_port(word.port));
  socket_until_ns_ = now_ns + kConnectNs;
}

// Says the secret once the connection is there, and uses it when the answer has come: the peer does so by then. The
// peer begins again after a failure.
std::optional<Fd> RailReturn::connect(std::int64_t now_ns) {
  pollfd one{socket_.get(), POLLOUT, 0};
  const int ready = ::poll(&one, 1, 0);
  bool failed = now_ns >= socket_until_ns_ || (ready == 1 && (one.revents & (POLLERR | POLLHUP)) != 0);
  if (!failed && ready == 1 && !asked_) {
    failed = try_send(socket_.get(), secret_) != static_cast<std::ptrdiff_t>(secret_.size());
    asked_ = true;
    socket_until_ns_ = now_ns + kAttemptNs;
  }
  const std::optional<bool> answered = asked_ && !failed ? hears(answer_) : std::nullopt;
  if (!failed && !answered) return std::nullopt;
  Fd socket = std::exchange(socket_, Fd());
  if (failed || !*answered) return std::nullopt;
  set_blocking(socket.get());
  return socket;
}

}  // namespace wreath
