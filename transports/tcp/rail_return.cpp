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
  if (now_ns < until_ns_) return accept(now_ns);
  listener_ = Fd();
  socket_ = Fd();
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
  word = RailAwaited{lost_, local_address(listener_.get()).port(), secret_};
}

// Takes one connection at a time. A stranger holds it for kConnectNs at most.
std::optional<Fd> RailReturn::accept(std::int64_t now_ns) {
  if (socket_ && now_ns >= socket_until_ns_) socket_ = Fd();
  if (!socket_) {
    socket_ = Fd::of_process(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket_) return std::nullopt;
    socket_until_ns_ = now_ns + kConnectNs;
    brought_bytes_ = 0;
  }
  const std::ptrdiff_t got = try_recv(socket_.get(), std::span(brought_).subspan(brought_bytes_));
  brought_bytes_ += static_cast<std::size_t>(std::max<std::ptrdiff_t>(got, 0));
  if (got >= 0 && brought_bytes_ < brought_.size()) return std::nullopt;
  if (got < 0 || brought_ != secret_) {
    socket_ = Fd();
    return std::nullopt;
  }
  listener_ = Fd();
  return std::exchange(socket_, Fd());
}

void RailReturn::on_awaited(const RailAwaited& word, std::int64_t now_ns) {
  if (waits_) return;
  secret_ = word.secret;
  socket_ = begin_to_connect(lost_.local, lost_.remote.with_port(word.port));
  socket_until_ns_ = now_ns + kConnectNs;
}

// The peer begins again after a failure.
std::optional<Fd> RailReturn::connect(std::int64_t now_ns) {
  pollfd one{socket_.get(), POLLOUT, 0};
  const int ready = ::poll(&one, 1, 0);
  if (ready == 0 && now_ns < socket_until_ns_) return std::nullopt;
  const bool connected = ready == 1 && (one.revents & (POLLERR | POLLHUP)) == 0;
  if (!connected || try_send(socket_.get(), secret_) != static_cast<std::ptrdiff_t>(secret_.size())) {
    socket_ = Fd();
    return std::nullopt;
  }
  set_blocking(socket_.get());
  return std::exchange(socket_, Fd());
}

}  // namespace wreath
