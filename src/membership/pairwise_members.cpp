// Sealed messages and passed descriptors go over stream sockets, without blocking.
#include "src/membership/pairwise_members.hpp"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "src/base/log.hpp"
#include "src/base/socket.hpp"
#include "src/fifo/segment_memory.hpp"

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
  // The kernel drops descriptors beyond the limit of this process.
  if ((message.msg_flags & MSG_CTRUNC) != 0) {
    errno = EMFILE;
    return -1;
  }
  return received;
}

}  // namespace

PairwiseMembers::PairwiseMembers(Rank self, std::vector<Member> table, std::vector<Connection> connections)
    : Members(self, std::move(table)) {
  for (Connection& connection : connections) {
    auto peer = std::make_unique<Peer>();
    peer->lost = !connection;
    if (connection) ::fcntl(connection.get(), F_SETFL, ::fcntl(connection.get(), F_GETFL) | O_NONBLOCK);
    peer->connection = std::move(connection);
    peers_.push_back(std::move(peer));
  }
  handlers_.add(MessageKind::Process,
                [this](Rank from, ControlMessage& message) { watch_process(from, message.offer); });
  handlers_.add(MessageKind::Ended, [this](Rank from, ControlMessage& message) { on_ended(from, message.index); });
}

Status PairwiseMembers::start(Progress& progress) {
  WREATH_TRY(handlers_.complete());
  progress_ = &progress;
  progress.add(*this);
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    if (peers_[rank]->connection) progress.watch(peers_[rank]->connection.get(), EPOLLIN, *this, rank);
  }
  offer_process();
  return {};
}

void PairwiseMembers::stop() {
  if (progress_ != nullptr) progress_->remove(*this);
}

// ---- saying ----

void PairwiseMembers::send(Rank to, ControlMessage message) {
  const Content content(encode_control(message));
  std::vector<Fd> descriptors;
  for (const int descriptor : message.offer.descriptors) descriptors.push_back(Fd::of_process(descriptor));
  message.offer.descriptors.clear();
  enqueue(of(to), content, std::move(descriptors));
}

void PairwiseMembers::broadcast(const ControlMessage& message) {
  const Content content(encode_control(message));
  for (const auto& peer : peers_) enqueue(*peer, content, {});
}

void PairwiseMembers::enqueue(Peer& peer, const Content& content, std::vector<Fd> descriptors) {
  if (!peer.connection) return;
  const std::lock_guard lock(peer.mutex);
  peer.outgoing.push_back({peer.connection.seal.write(content), 0, std::move(descriptors)});
  if (flush(peer) && progress_ != nullptr) progress_->kick();
}

std::string PairwiseMembers::address_to(Rank peer) const {
  const SocketAddress address = local_address(of(peer).connection.get());
  return address.is_unix() ? std::string() : address.ip_text();
}

bool PairwiseMembers::flush() {
  bool waiting = false;
  for (const auto& peer : peers_) {
    const std::lock_guard lock(peer->mutex);
    waiting = flush(*peer) || waiting;
  }
  return waiting;
}

bool PairwiseMembers::under_way() {
  return flush() || std::ranges::any_of(peers_, [](const auto& peer) {
           const int socket = peer->connection.get();
           return !peer->lost && unacknowledged_bytes(socket) > 0 && !lost_for_good(socket);
         });
}

// Sends the peer's frames. Returns true while some wait. The reading side handles errors, since it learns of the peer's
// end.
bool PairwiseMembers::flush(Peer& peer) {
  while (!peer.outgoing.empty()) {
    Frame& frame = peer.outgoing.front();
    const ssize_t sent = send_some(peer.connection.get(), frame.bytes.data() + frame.sent,
                                   frame.bytes.size() - frame.sent, frame.descriptors);
    if (sent < 0 && errno == EINTR) continue;
    // ETOOMANYREFS means that RLIMIT_NOFILE limits a user's descriptors on their way. Peers will receive them.
    // So does memory of the kernel, for a moment.
    if (sent < 0 && (errno == EAGAIN || errno == ETOOMANYREFS || errno == ENOBUFS || errno == ENOMEM)) return true;
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

// ---- hearing ----

void PairwiseMembers::on_event(std::uint64_t token, std::uint32_t) {
  const LogRank log_rank(rank());
  const auto all = static_cast<std::uint64_t>(ranks());
  if (token < all) return on_readable(static_cast<Rank>(token));
  const auto peer = static_cast<Rank>(token - all);
  if (on_process_end(peer) && !has_left(peer)) tell_of_end(peer);
}

void PairwiseMembers::lose(Rank from, Loss::How how, const std::string& reason) {
  Peer& peer = of(from);
  if (peer.lost) return;
  peer.lost = true;
  progress_->unwatch(peer.connection.get());
  if (peer.process) progress_->unwatch(peer.process.get());
  handlers_.lost({from, how, reason});
}

void PairwiseMembers::on_readable(Rank from) {
  while (reaches(from) && receive(from) && parse(from)) {
  }
}

// Receives bytes. Returns false where none came.
bool PairwiseMembers::receive(Rank from) {
  Peer& peer = of(from);
  std::array<std::byte, 16 * 1024> space;
  const ssize_t received = receive_some(peer.connection.get(), space, peer.descriptors);
  if (received > 0) {
    // A rank that leaves waits for the acknowledgement.
    acknowledge_now(peer.connection.get());
    peer.incoming.insert(peer.incoming.end(), space.data(), space.data() + received);
    return true;
  }
  if (received < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  const int error = received == 0 ? 0 : errno;
  if (error == EMFILE) handlers_.unable(os_error("receive a descriptor of a peer", error));
  // A process that ends before it has read all data resets its connections. On one host nothing else does that.
  const bool reset = error == ECONNRESET || error == EPIPE;
  if (error == 0 || (reset && local_address(peer.connection.get()).is_unix())) {
    lose(from, Loss::How::Ended, "connection closed");
  } else {
    lose(from, reset ? Loss::How::Reset : Loss::How::Broken, ::strerror(error));
  }
  return false;
}

// Gives the message at `at` of the received bytes to its handlers. Returns the bytes of its frame, or 0 while the frame
// is not complete. Returns an error where the connection is of no more use.
Result<std::size_t> PairwiseMembers::take_frame(Rank from, std::size_t at) {
  Peer& peer = of(from);
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
  handlers_.message(from, std::move(*message));
  return size;
}

// Gives all complete messages to their handlers. Returns false once the connection is lost.
bool PairwiseMembers::parse(Rank from) {
  Peer& peer = of(from);
  std::size_t at = 0;
  for (;;) {
    const auto taken = take_frame(from, at);
    if (!taken) lose(from, Loss::How::Broken, taken.error().message);
    if (!taken) return false;
    if (*taken == 0) break;
    at += *taken;
  }
  peer.incoming.erase(peer.incoming.begin(), peer.incoming.begin() + static_cast<std::ptrdiff_t>(at));
  return true;
}

// ---- processes that end ----

// Gives this process's descriptor to the next ranks of this host. A child that was made without fork() holds this
// process's connections open. So those ranks learn of the end by the process itself, and tell the others.
void PairwiseMembers::offer_process() {
  const Fd process = Fd::of_process(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  if (!process) return;  // a kernel before 5.3
  int watchers = 0;
  for (int i = 1; i < ranks() && watchers < kProcessWatchers; ++i) {
    const Rank peer = (rank() + i) % ranks();
    const bool own = (*this)[peer].endpoint.process == (*this)[rank()].endpoint.process;
    if (own || !of_one_host(peer, rank())) continue;
    ControlMessage message;
    message.kind = MessageKind::Process;
    if (add_descriptor(message.offer, process.get(), "this process")) send(peer, std::move(message));
    ++watchers;
  }
}

void PairwiseMembers::watch_process(Rank from, Offer& offer) {
  if (offer.descriptors.size() != 1) return;
  Fd process = Fd::of_process(std::exchange(offer.descriptors.front(), -1));
  Peer& peer = of(from);
  if (peer.lost || peer.process || !process) return;
  peer.process = std::move(process);
  progress_->watch_within(peer.process.get(), EPOLLIN, *this, peers_.size() + static_cast<std::size_t>(from));
}

// Loses the peer, after reading what it sent before. Returns false where it was lost already.
bool PairwiseMembers::on_process_end(Rank peer) {
  on_readable(peer);
  if (!reaches(peer)) return false;
  lose(peer, Loss::How::Ended, "its process has ended");
  return true;
}

// Tells all other ranks of a process's end. Other watchers do so, too, and the first message counts.
void PairwiseMembers::tell_of_end(Rank gone) {
  for (Rank peer = 0; peer < ranks(); ++peer) {
    if (peer == rank() || peer == gone) continue;
    ControlMessage message;
    message.kind = MessageKind::Ended;
    message.index = static_cast<std::uint32_t>(gone);
    send(peer, std::move(message));
  }
}

void PairwiseMembers::on_ended(Rank from, std::uint32_t index) {
  if (index >= static_cast<std::uint32_t>(ranks())) return;
  const auto gone = static_cast<Rank>(index);
  if (gone != rank() && of_one_host(from, gone)) on_process_end(gone);
}

}  // namespace wreath
