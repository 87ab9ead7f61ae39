// Sealed messages and passed descriptors over stream sockets, without blocking.
#include "src/communicator/control.hpp"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "src/base/socket.hpp"

namespace wreath {
namespace {

constexpr std::size_t kMaximumFrame = 256 * 1024;
constexpr std::size_t kMaximumDescriptors = 8;  // in one message

union DescriptorSpace {
  cmsghdr header;
  std::array<char, CMSG_SPACE(sizeof(int) * kMaximumDescriptors)> bytes;
};

ssize_t send_some(int socket, const std::byte* data, std::size_t bytes, const std::vector<Fd>& descriptors) {
  iovec piece{const_cast<std::byte*>(data), bytes};
  DescriptorSpace space{};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = space.bytes.data();
    message.msg_controllen = CMSG_SPACE(sizeof(int) * descriptors.size());
    cmsghdr* control = CMSG_FIRSTHDR(&message);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof(int) * descriptors.size());
    for (std::size_t i = 0; i < descriptors.size(); ++i) {
      const int descriptor = descriptors[i].get();
      std::memcpy(CMSG_DATA(control) + i * sizeof(int), &descriptor, sizeof descriptor);
    }
  }
  return ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

ssize_t receive_some(int socket, std::span<std::byte> into, std::deque<Fd>& descriptors) {
  iovec piece{into.data(), into.size()};
  DescriptorSpace space{};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = space.bytes.data();
  message.msg_controllen = space.bytes.size();
  const ssize_t received = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (received < 0) return received;
  for (cmsghdr* control = CMSG_FIRSTHDR(&message); control != nullptr; control = CMSG_NXTHDR(&message, control)) {
    if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (control->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(control) + i * sizeof(int), sizeof descriptor);
      descriptors.push_back(Fd::of_process(descriptor));
    }
  }
  if ((message.msg_flags & MSG_CTRUNC) != 0) {  // the kernel drops those that this process may not hold
    errno = EMFILE;
    return -1;
  }
  return received;
}

}  // namespace

ControlPlane::ControlPlane(std::vector<Connection> connections, ControlHandler& handler) : handler_(handler) {
  for (Connection& connection : connections) {
    auto peer = std::make_unique<Peer>();
    peer->lost = !connection;
    if (connection) ::fcntl(connection.get(), F_SETFL, ::fcntl(connection.get(), F_GETFL) | O_NONBLOCK);
    peer->connection = std::move(connection);
    peers_.push_back(std::move(peer));
  }
}

void ControlPlane::start(Progress& progress, Progress::Client& client) {
  progress_ = &progress;
  client_ = &client;
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    if (peers_[rank]->connection) progress.watch(peers_[rank]->connection.get(), EPOLLIN, client, rank);
  }
}

void ControlPlane::send(Rank to, ControlMessage message) {
  const Content content(encode_control(message));
  std::vector<Fd> descriptors;
  for (const int descriptor : message.offer.descriptors) descriptors.push_back(Fd::of_process(descriptor));
  message.offer.descriptors.clear();
  enqueue(*peers_[static_cast<std::size_t>(to)], content, std::move(descriptors));
}

void ControlPlane::broadcast(const ControlMessage& message) {
  const Content content(encode_control(message));
  for (const auto& peer : peers_) enqueue(*peer, content, {});
}

void ControlPlane::enqueue(Peer& peer, const Content& content, std::vector<Fd> descriptors) {
  if (!peer.connection) return;
  const std::lock_guard lock(peer.mutex);
  peer.outgoing.push_back({peer.connection.seal.write(content), 0, std::move(descriptors)});
  if (flush(peer) && progress_ != nullptr) progress_->kick();
}

std::string ControlPlane::own_address(Rank peer) const {
  const SocketAddress address = local_address(peers_[static_cast<std::size_t>(peer)]->connection.get());
  return address.is_unix() ? std::string() : address.ip_text();
}

bool ControlPlane::flush() {
  bool waiting = false;
  for (const auto& peer : peers_) {
    const std::lock_guard lock(peer->mutex);
    waiting = flush(*peer) || waiting;
  }
  return waiting;
}

bool ControlPlane::under_way() const {
  return std::ranges::any_of(peers_, [](const auto& peer) {
    const int socket = peer->connection.get();
    return !peer->lost && unacknowledged_bytes(socket) > 0 && !lost_for_good(socket);
  });
}

// Errors are left to the reading side, which learns of the peer's end.
bool ControlPlane::flush(Peer& peer) {
  while (!peer.outgoing.empty()) {
    Frame& frame = peer.outgoing.front();
    const ssize_t sent = send_some(peer.connection.get(), frame.bytes.data() + frame.sent,
                                   frame.bytes.size() - frame.sent, frame.descriptors);
    if (sent < 0 && errno == EINTR) continue;
    // ETOOMANYREFS: a user's descriptors that nobody has received yet are limited by RLIMIT_NOFILE; peers receive them.
    if (sent < 0 && (errno == EAGAIN || errno == ETOOMANYREFS)) return true;
    if (sent < 0) {
      peer.outgoing.clear();
      return false;
    }
    frame.descriptors.clear();
    frame.sent += static_cast<std::size_t>(sent);
    if (frame.sent == frame.bytes.size()) peer.outgoing.pop_front();
  }
  return false;
}

void ControlPlane::lose(Rank from, const std::string& reason, bool closed) {
  Peer& peer = *peers_[static_cast<std::size_t>(from)];
  if (peer.lost) return;
  peer.lost = true;
  progress_->unwatch(peer.connection.get());
  if (peer.process) progress_->unwatch(peer.process.get());
  handler_.on_lost(from, reason, closed);
}

void ControlPlane::on_readable(Rank from) {
  Peer& peer = *peers_[static_cast<std::size_t>(from)];
  while (!peer.lost && receive(from) && parse(from)) {
  }
}

void ControlPlane::watch_process(Rank peer, Fd process) {
  Peer& of = *peers_[static_cast<std::size_t>(peer)];
  if (of.lost || of.process || !process) return;
  of.process = std::move(process);
  progress_->watch_within(of.process.get(), EPOLLIN, *client_, peers_.size() + static_cast<std::size_t>(peer));
}

bool ControlPlane::on_process_end(Rank peer) {
  on_readable(peer);
  if (!open(peer)) return false;
  lose(peer, "its process has ended", true);
  return true;
}

// Whether bytes came.
bool ControlPlane::receive(Rank from) {
  Peer& peer = *peers_[static_cast<std::size_t>(from)];
  std::array<std::byte, 16 * 1024> space;
  const ssize_t received = receive_some(peer.connection.get(), space, peer.descriptors);
  if (received > 0) {
    acknowledge_now(peer.connection.get());  // a rank that leaves waits for it
    peer.incoming.insert(peer.incoming.end(), space.data(), space.data() + received);
    return true;
  }
  if (received < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  const int error = received == 0 ? 0 : errno;
  if (error == EMFILE) handler_.on_unable(os_error("receive a descriptor of a peer", error));
  // A process that ends before it has read all resets its connections; on one host nothing else does.
  const bool reset = error == ECONNRESET || error == EPIPE;
  const bool closed = error == 0 || (reset && local_address(peer.connection.get()).is_unix());
  lose(from, closed ? std::string(kConnectionClosed) : ::strerror(error), closed || reset);
  return false;
}

// Hands on the message at `at` of what came; the bytes of its frame, 0 while it is not whole. Or why the connection is
// of no use any more.
Result<std::size_t> ControlPlane::take_frame(Rank from, std::size_t at) {
  Peer& peer = *peers_[static_cast<std::size_t>(from)];
  const auto bytes = std::span(std::as_const(peer.incoming)).subspan(at);
  if (bytes.size() < kFrameHeaderBytes) return std::size_t{0};
  const auto length = Seal::length(bytes.first<kFrameHeaderBytes>(), kMaximumFrame);
  if (!length) return length;
  const std::size_t size = kFrameHeaderBytes + *length + kSealBytes;
  if (bytes.size() < size) return std::size_t{0};
  const auto content = bytes.subspan(kFrameHeaderBytes, *length);
  WREATH_TRY(peer.connection.seal.read(content, bytes.subspan(kFrameHeaderBytes + *length).first<kSealBytes>()));
  auto message = decode_control(content);
  if (!message) return message.error();
  if (message->offer.descriptors.size() > peer.descriptors.size())
    return Error{ErrorCode::System, "descriptors are missing from a control message"};
  for (int& descriptor : message->offer.descriptors) {
    descriptor = peer.descriptors.front().release();
    peer.descriptors.pop_front();
  }
  handler_.on_message(from, std::move(*message));
  return size;
}

// Hands on all whole messages; false once the connection is given up.
bool ControlPlane::parse(Rank from) {
  Peer& peer = *peers_[static_cast<std::size_t>(from)];
  std::size_t at = 0;
  for (;;) {
    const auto taken = take_frame(from, at);
    if (!taken) lose(from, taken.error().message, false);
    if (!taken) return false;
    if (*taken == 0) break;
    at += *taken;
  }
  peer.incoming.erase(peer.incoming.begin(), peer.incoming.begin() + static_cast<std::ptrdiff_t>(at));
  return true;
}

}  // namespace wreath
