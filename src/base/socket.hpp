// Stream sockets, UNIX and TCP, as values: addresses, connecting with a deadline, exact transfers.
// No call raises SIGPIPE, every descriptor is closed on exec, every wait is bounded by its Deadline.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/clock.hpp"
#include "src/base/fd.hpp"
#include "wreath/result.hpp"

namespace wreath {

// "cannot ACTION: REASON"; running out of descriptors names RLIMIT_NOFILE and its value.
Error os_error(std::string_view action, int error);

// True when `error` means that descriptors or socket memory ran out.
bool out_of_descriptors(int error);

// A UNIX (abstract) or TCP address.
class SocketAddress {
 public:
  SocketAddress() = default;
  SocketAddress(const sockaddr* address, socklen_t length);
  // An abstract UNIX name: no file, gone with its socket. At most 100 bytes.
  static SocketAddress abstract_unix(std::string_view name);
  // "10.0.0.1", "fd00::1", "[fd00::1]" or "fe80::1%eth0", whose interface this host must have; no name is looked up.
  static Result<SocketAddress> parse_ip(std::string_view text, std::uint16_t port);
  // 4 or 16 bytes in network order.
  static SocketAddress from_ip(std::span<const std::byte> bytes, std::uint16_t port);
  static SocketAddress loopback(int family, std::uint16_t port);

  int family() const { return storage_.ss_family; }
  bool is_unix() const { return family() == AF_UNIX; }
  bool is_loopback() const;
  // IPv6 that means something on one network alone, and so needs a zone.
  bool is_link_local() const;
  // The number of the interface that leads to a link-local address, on this host; 0: it is not known.
  std::uint32_t zone() const;
  // IPv6 only; others stay as they are.
  SocketAddress with_zone(std::uint32_t zone) const;
  std::uint16_t port() const;
  SocketAddress with_port(std::uint16_t port) const;
  // "10.0.0.1:29500", "[fe80::1%eth0]:29500" or "UNIX socket @name".
  std::string text() const;
  // "10.0.0.1" or "fe80::1%eth0", as parse_ip reads it.
  std::string ip_text() const;
  // The address in network order: 4 or 16 bytes; empty for UNIX.
  std::span<const std::byte> ip_bytes() const;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t length() const { return length_; }

 private:
  sockaddr_storage storage_{};
  socklen_t length_ = 0;
};

// All stream addresses of a host name or IP text. A name server may be asked: not bounded by us.
Result<std::vector<SocketAddress>> resolve(const std::string& host, std::uint16_t port);

// Whether a socket of this host can be bound to `address`.
bool is_local(const SocketAddress& address);

// A listening socket in non-blocking mode. `error` (if given) receives errno of a failure.
Result<Fd> listen_on(const SocketAddress& address, int* error = nullptr);

// A connected socket in blocking mode. `error` (if given) receives errno of a failure: ECONNREFUSED where nobody
// listens, ETIMEDOUT where nobody answers.
Result<Fd> connect_to(const SocketAddress& address, Deadline deadline, int* error = nullptr);

// The user who listens at a UNIX address; nothing where nobody does, or at another kind.
std::optional<std::uint32_t> user_who_listens(const SocketAddress& address);

SocketAddress local_address(int socket);
SocketAddress peer_address(int socket);

// Whether the process behind a UNIX socket has this process's effective user. True for TCP.
bool same_user(int socket);

// Waits for `events` on `socket`: true when ready, false when the deadline passed or `watch` (another
// descriptor, -1: none) became readable.
bool wait_for(int socket, short events, Deadline deadline, int watch = -1);

// Moves exactly all bytes, whatever the mode of the socket.
Status send_all(int socket, std::span<const std::byte> bytes, Deadline deadline);
Status recv_all(int socket, std::span<std::byte> bytes, Deadline deadline);

// What one non-blocking attempt moved: bytes > 0; 0: would wait; -1: closed or broken.
std::ptrdiff_t try_send(int socket, std::span<const std::byte> bytes);
std::ptrdiff_t try_recv(int socket, std::span<std::byte> bytes);

// Counts what the peer's kernel has not acknowledged over TCP, the end of the stream as a byte: a socket
// that is closed sooner may take it back, with a reset for whatever comes after. 0 for other sockets.
std::size_t unacknowledged_bytes(int socket);
// The kernel has sent the same bytes five times more, after 0.2 s and then twice as long (6.2 s in all), in vain.
bool lost_for_good(int socket);
// Acknowledges what has been received, instead of 40 ms later.
void acknowledge_now(int socket);

void set_no_delay(int socket);
// A vanished host is seen within 9 s, also when nothing is sent: a probe after 1 s of silence and each second, and 7 of
// them unanswered. Several are lost before anyone is called dead, since networks lose some.
void set_keepalive(int socket);
// For connections that carry a few bytes at a time, additionally for bytes that the peer's kernel does not acknowledge
// in 8 s. Linux takes this time for probes, too, whatever their count (tcp(7), TCP_USER_TIMEOUT): below the probes' own
// it would end a connection for one of them.
void set_control_options(int socket);
// Chooses reno, which does not pace what it sends, where the kernel lets it: faster between two ends on one host. Best
// before the socket is connected or listens (those it accepts inherit it): one that had bbr goes on pacing.
void set_unpaced(int socket);

// For bulk data: no delay; "reno" where both ends are on one host (research: faster over loopback).
void set_stream_options(int socket);

// A connected TCP pair over the loopback address.
Result<std::pair<Fd, Fd>> loopback_pair();
// A connected UNIX pair.
Result<std::pair<Fd, Fd>> socket_pair();

// The earlier of two deadlines.
Deadline sooner(Deadline a, Deadline b);
void sleep_ms(int milliseconds);

}  // namespace wreath
