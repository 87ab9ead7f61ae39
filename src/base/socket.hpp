// Wraps stream sockets, UNIX and TCP, as values: addresses, connecting with a deadline, exact transfers. No call raises
// SIGPIPE, every descriptor is closed on exec, every wait is bounded by its Deadline.
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

// Returns the error "cannot ACTION: REASON"; where descriptors ran out, it names RLIMIT_NOFILE and its value.
Error os_error(std::string_view action, int error);

// Returns true when `error` means that descriptors or socket memory ran out.
bool out_of_descriptors(int error);

// Holds a UNIX (abstract) or TCP address.
class SocketAddress {
 public:
  SocketAddress() = default;
  SocketAddress(const sockaddr* address, socklen_t length);
  // Makes an abstract UNIX name of at most 100 bytes. It has no file, and is gone with its socket.
  static SocketAddress abstract_unix(std::string_view name);
  // Reads "10.0.0.1", "fd00::1", "[fd00::1]" or "fe80::1%eth0", whose interface this host must have. No name is looked
  // up.
  static Result<SocketAddress> parse_ip(std::string_view text, std::uint16_t port);
  // Takes 4 or 16 bytes in network order.
  static SocketAddress from_ip(std::span<const std::byte> bytes, std::uint16_t port);
  static SocketAddress loopback(int family, std::uint16_t port);

  int family() const { return storage_.ss_family; }
  bool is_unix() const { return family() == AF_UNIX; }
  bool is_loopback() const;
  // Returns whether it is an IPv6 address that means something on one network alone, and so needs a zone.
  bool is_link_local() const;
  // Returns the number of the interface that leads to a link-local address, on this host; 0 where it is not known.
  std::uint32_t zone() const;
  // Returns an IPv6 address with another zone; other addresses stay as they are.
  SocketAddress with_zone(std::uint32_t zone) const;
  std::uint16_t port() const;
  SocketAddress with_port(std::uint16_t port) const;
  // Returns "10.0.0.1:29500", "[fe80::1%eth0]:29500" or "UNIX socket @name".
  std::string text() const;
  // Returns "10.0.0.1" or "fe80::1%eth0", as parse_ip reads it.
  std::string ip_text() const;
  // Returns the address in network order: 4 or 16 bytes; empty for UNIX.
  std::span<const std::byte> ip_bytes() const;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t length() const { return length_; }

 private:
  sockaddr_storage storage_{};
  socklen_t length_ = 0;
};

// Returns all stream addresses of a host name or IP text. A name server may be asked, without a bound on its time.
Result<std::vector<SocketAddress>> resolve(const std::string& host, std::uint16_t port);

// Returns whether a socket of this host can be bound to `address`.
bool is_local(const SocketAddress& address);

// Returns a listening socket in non-blocking mode. `error` (if given) receives errno of a failure.
Result<Fd> listen_on(const SocketAddress& address, int* error = nullptr);

// Returns a connected socket in blocking mode. `error` (if given) receives errno of a failure: ECONNREFUSED where no
// process listens, ETIMEDOUT where none answers.
Result<Fd> connect_to(const SocketAddress& address, Deadline deadline, int* error = nullptr);

// Returns the user who listens at a UNIX address; nothing where no process does, or for another kind of address.
std::optional<std::uint32_t> user_who_listens(const SocketAddress& address);

SocketAddress local_address(int socket);
SocketAddress peer_address(int socket);

// Returns whether the process behind a UNIX socket has this process's effective user, and true for TCP.
bool same_user(int socket);

// Waits for `events` on `socket`. Returns true when ready, false when the deadline passed or `watch` (another
// descriptor, -1 for none) became readable.
bool wait_for(int socket, short events, Deadline deadline, int watch = -1);

// Sends exactly all bytes, whatever the mode of the socket.
Status send_all(int socket, std::span<const std::byte> bytes, Deadline deadline);

// Makes one non-blocking attempt to send. Returns the bytes that moved, 0 where it would wait, or -1 where the
// connection is closed or broken.
std::ptrdiff_t try_send(int socket, std::span<const std::byte> bytes);
// Makes one non-blocking attempt to receive. Returns the bytes that moved, 0 where it would wait, or -1 where the
// connection is closed or broken.
std::ptrdiff_t try_recv(int socket, std::span<std::byte> bytes);

// Counts what the peer's kernel has not acknowledged over TCP, with the end of the stream as a byte. A socket that is
// closed sooner may take it back, with a reset for whatever comes after. Returns 0 for other sockets.
std::size_t unacknowledged_bytes(int socket);
// Returns whether the kernel has sent the same bytes five times more in vain: in 6.2 s, or 3.4 s with set_repeats().
bool lost_for_good(int socket);
// Ends the sending of a stream that will be closed, and waits until the peer's kernel has all bytes. Whatever comes
// meanwhile is thrown away: closing with unread input would reset the connection, and the peer would lose what was
// sent. It leaves a peer that takes nothing for 2 s.
void finish_sending(int socket);
// Acknowledges what has been received now, instead of 40 ms later.
void acknowledge_now(int socket);

void set_no_delay(int socket);
// Makes a vanished host seen within 9 s, also when nothing is sent. There is a probe after 1 s of silence and each
// second, and 7 of them must be unanswered. Several must be lost before a host counts as dead, since networks lose
// some.
void set_keepalive(int socket);
// Sends lost packets again each second at least, where the kernel can: Linux 6.15 and newer. Others wait for 0.2 s,
// then twice as long each time, so that the first packet after an outage of 5 s may come when the peer counts as dead.
void set_repeats(int socket);
// Sets options for connections that carry a few bytes at a time. They end also when the peer's kernel does not
// acknowledge bytes in 8 s. Linux takes this time for probes, too, whatever their count (tcp(7), TCP_USER_TIMEOUT). A
// time below the probes' own would end a connection for one of them.
void set_control_options(int socket);
// Chooses reno, which does not pace what it sends, where the kernel allows it: it is faster between two ends on one
// host. Callers best set it before the socket is connected or listens (those it accepts inherit it). A socket that had
// bbr goes on pacing.
void set_unpaced(int socket);

// Sets options for bulk data: no delay, and "reno" where both ends are on one host (research: faster over loopback).
void set_stream_options(int socket);

// Returns a connected TCP pair over the loopback address.
Result<std::pair<Fd, Fd>> loopback_pair();
// Returns a connected UNIX pair.
Result<std::pair<Fd, Fd>> socket_pair();

// Returns the earlier of two deadlines.
Deadline sooner(Deadline a, Deadline b);
void sleep_ms(int milliseconds);

}  // namespace wreath
