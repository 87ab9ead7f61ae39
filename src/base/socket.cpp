// Implements stream sockets: see socket.hpp. Connecting is non-blocking inside; transfers use MSG_DONTWAIT and poll.
#include "src/base/socket.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

namespace wreath {
namespace {

constexpr int kBacklog = 4096;
constexpr std::size_t kMaxAbstractName = 100;

void set_option(int socket, int level, int option, int value) {
  (void)::setsockopt(socket, level, option, &value, sizeof value);
}

Result<Fd> make_socket(int family) {
  Fd fd = Fd::of_process(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return os_error("open a socket", errno);
  return fd;
}

void set_blocking(int socket) {
  const int flags = ::fcntl(socket, F_GETFL);
  if (flags >= 0) (void)::fcntl(socket, F_SETFL, flags & ~O_NONBLOCK);
}

// Returns the error of a connection attempt that poll() reported ready.
int pending_error(int socket) {
  int error = 0;
  socklen_t length = sizeof error;
  if (::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length) != 0) return errno;
  return error;
}

// Makes one attempt; returns 0 or an errno value.
int connect_once(int socket, const SocketAddress& address, Deadline deadline) {
  if (::connect(socket, address.get(), address.length()) == 0) return 0;
  if (errno != EINPROGRESS && errno != EINTR) return errno;
  if (!wait_for(socket, POLLOUT, deadline)) return ETIMEDOUT;
  return pending_error(socket);
}

// Returns an interface's number, by its name or number; 0 where this host has no such interface.
std::uint32_t zone_number(const std::string& text) {
  const std::uint32_t named = ::if_nametoindex(text.c_str());
  std::uint32_t number = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  std::array<char, IF_NAMESIZE> name{};
  const bool numbered = read.ec == std::errc() && read.ptr == end && ::if_indextoname(number, name.data()) != nullptr;
  return named == 0 && numbered ? number : named;
}

using GetAddress = int (*)(int, sockaddr*, socklen_t*);

SocketAddress address_by(GetAddress get, int socket) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (get(socket, reinterpret_cast<sockaddr*>(&storage), &length) != 0) return {};
  return {reinterpret_cast<const sockaddr*>(&storage), length};
}

}  // namespace

bool out_of_descriptors(int error) { return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM; }

Error os_error(std::string_view action, int error) {
  std::string text = fmt::format("cannot {}: {}", action, std::generic_category().message(error));
  if (error == EMFILE) {
    rlimit limit{};
    (void)::getrlimit(RLIMIT_NOFILE, &limit);
    text += fmt::format(" (RLIMIT_NOFILE is {}; raise it with ulimit -n)", limit.rlim_cur);
  }
  return {ErrorCode::System, std::move(text)};
}

SocketAddress::SocketAddress(const sockaddr* address, socklen_t length)
    : length_(std::min<socklen_t>(length, sizeof storage_)) {
  std::memcpy(&storage_, address, length_);
}

SocketAddress SocketAddress::abstract_unix(std::string_view name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::size_t size = std::min(name.size(), kMaxAbstractName);
  std::memcpy(address.sun_path + 1, name.data(), size);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size);
  return {reinterpret_cast<const sockaddr*>(&address), length};
}

SocketAddress SocketAddress::from_ip(std::span<const std::byte> bytes, std::uint16_t port) {
  if (bytes.size() == sizeof(in_addr)) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    std::memcpy(&v4.sin_addr, bytes.data(), bytes.size());
    return {reinterpret_cast<const sockaddr*>(&v4), sizeof v4};
  }
  if (bytes.size() != sizeof(in6_addr)) return {};
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  std::memcpy(&v6.sin6_addr, bytes.data(), bytes.size());
  return {reinterpret_cast<const sockaddr*>(&v6), sizeof v6};
}

Result<SocketAddress> SocketAddress::parse_ip(std::string_view text, std::uint16_t port) {
  const Error refused{ErrorCode::InvalidArgument, fmt::format("'{}' is not an IP address", text)};
  const bool bracketed = text.size() > 2 && text.front() == '[' && text.back() == ']';
  const std::string inside(bracketed ? text.substr(1, text.size() - 2) : text);
  const std::size_t percent = inside.find('%');
  const std::string ip = inside.substr(0, percent);
  std::array<std::byte, sizeof(in6_addr)> bytes{};
  if (percent == std::string::npos && !bracketed && ::inet_pton(AF_INET, ip.c_str(), bytes.data()) == 1) {
    return from_ip(std::span(bytes).first(sizeof(in_addr)), port);
  }
  if (::inet_pton(AF_INET6, ip.c_str(), bytes.data()) != 1) return refused;
  const SocketAddress address = from_ip(bytes, port);
  if (percent == std::string::npos) return address;
  const std::string zone = inside.substr(percent + 1);
  const std::uint32_t number = zone_number(zone);
  if (number != 0) return address.with_zone(number);
  return Error{ErrorCode::InvalidArgument, fmt::format("'{}': this host has no interface '{}'", text, zone)};
}

SocketAddress SocketAddress::loopback(int family, std::uint16_t port) {
  return *parse_ip(family == AF_INET6 ? "::1" : "127.0.0.1", port);
}

bool SocketAddress::is_loopback() const {
  const auto bytes = ip_bytes();
  if (family() == AF_INET) return bytes[0] == std::byte{127};
  if (family() != AF_INET6) return false;
  in6_addr address{};
  std::memcpy(&address, bytes.data(), bytes.size());
  return IN6_IS_ADDR_LOOPBACK(&address);
}

bool SocketAddress::is_link_local() const {
  return family() == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_addr);
}

std::uint32_t SocketAddress::zone() const {
  return family() == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_scope_id : 0;
}

SocketAddress SocketAddress::with_zone(std::uint32_t zone) const {
  SocketAddress copy = *this;
  if (family() == AF_INET6) reinterpret_cast<sockaddr_in6*>(&copy.storage_)->sin6_scope_id = zone;
  return copy;
}

std::uint16_t SocketAddress::port() const {
  if (family() == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in*>(&storage_)->sin_port);
  if (family() == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_port);
  return 0;
}

SocketAddress SocketAddress::with_port(std::uint16_t port) const {
  SocketAddress copy = *this;
  if (family() == AF_INET) reinterpret_cast<sockaddr_in*>(&copy.storage_)->sin_port = htons(port);
  if (family() == AF_INET6) reinterpret_cast<sockaddr_in6*>(&copy.storage_)->sin6_port = htons(port);
  return copy;
}

std::span<const std::byte> SocketAddress::ip_bytes() const {
  if (family() == AF_INET) {
    const auto* address = reinterpret_cast<const sockaddr_in*>(&storage_);
    return {reinterpret_cast<const std::byte*>(&address->sin_addr), sizeof address->sin_addr};
  }
  if (family() == AF_INET6) {
    const auto* address = reinterpret_cast<const sockaddr_in6*>(&storage_);
    return {reinterpret_cast<const std::byte*>(&address->sin6_addr), sizeof address->sin6_addr};
  }
  return {};
}

std::string SocketAddress::ip_text() const {
  if (ip_bytes().empty()) return {};
  std::array<char, INET6_ADDRSTRLEN> buffer{};
  std::string text = ::inet_ntop(family(), ip_bytes().data(), buffer.data(), buffer.size()) ? buffer.data() : "";
  if (zone() == 0) return text;
  std::array<char, IF_NAMESIZE> name{};
  return text + "%" + (::if_indextoname(zone(), name.data()) ? name.data() : std::to_string(zone()));
}

std::string SocketAddress::text() const {
  if (family() == AF_INET) return fmt::format("{}:{}", ip_text(), port());
  if (family() == AF_INET6) return fmt::format("[{}]:{}", ip_text(), port());
  const auto* address = reinterpret_cast<const sockaddr_un*>(&storage_);
  constexpr std::size_t kPrefix = offsetof(sockaddr_un, sun_path) + 1;
  if (!is_unix() || length_ <= kPrefix) return "unnamed socket";
  return fmt::format("UNIX socket @{}", std::string_view(address->sun_path + 1, length_ - kPrefix));
}

Result<std::vector<SocketAddress>> resolve(const std::string& host, std::uint16_t port) {
  if (auto numeric = SocketAddress::parse_ip(host, port)) return std::vector{*numeric};
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &list); error != 0) {
    return Error{ErrorCode::StartupFailed, fmt::format("cannot look up host '{}': {}", host, ::gai_strerror(error))};
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_family != AF_INET && entry->ai_family != AF_INET6) continue;
    addresses.push_back(SocketAddress(entry->ai_addr, entry->ai_addrlen).with_port(port));
  }
  return addresses;
}

bool is_local(const SocketAddress& address) {
  const SocketAddress any_port = address.with_port(0);
  const Fd fd(::socket(any_port.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  return fd && ::bind(fd.get(), any_port.get(), any_port.length()) == 0;
}

Result<Fd> listen_on(const SocketAddress& address, int* error) {
  Fd fd = Fd::of_process(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd && !address.is_unix()) set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (fd && address.family() == AF_INET6) set_option(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
  if (fd && address.is_loopback()) set_unpaced(fd.get());
  const bool listens =
      fd && ::bind(fd.get(), address.get(), address.length()) == 0 && ::listen(fd.get(), kBacklog) == 0;
  if (listens) return fd;
  const int reason = errno;
  if (error != nullptr) *error = reason;
  return os_error(fmt::format("listen at {}", address.text()), reason);
}

Result<Fd> connect_to(const SocketAddress& address, Deadline deadline, int* error_number) {
  if (error_number != nullptr) *error_number = 0;
  for (;;) {
    auto fd = make_socket(address.family());
    if (!fd) return fd;
    if (!address.is_unix() && is_local(address)) set_unpaced(fd->get());
    const int error = connect_once(fd->get(), address, deadline);
    if (error == 0) {
      set_blocking(fd->get());
      return fd;
    }
    // A UNIX listener with a full backlog answers EAGAIN at once.
    if (error == EAGAIN && address.is_unix() && !deadline.passed()) {
      sleep_ms(2);
      continue;
    }
    const int reason = error == EAGAIN ? ETIMEDOUT : error;
    if (error_number != nullptr) *error_number = reason;
    return os_error(fmt::format("connect to {}", address.text()), reason);
  }
}

SocketAddress local_address(int socket) { return address_by(&::getsockname, socket); }
SocketAddress peer_address(int socket) { return address_by(&::getpeername, socket); }

namespace {

// Returns the user at the other end of a connected UNIX socket.
std::optional<std::uint32_t> user_of_peer(int socket) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) return std::nullopt;
  return credentials.uid;
}

}  // namespace

bool same_user(int socket) {
  return !local_address(socket).is_unix() || user_of_peer(socket) == std::optional<std::uint32_t>(::geteuid());
}

std::optional<std::uint32_t> user_who_listens(const SocketAddress& address) {
  constexpr int kPatienceMs = 100;
  if (!address.is_unix()) return std::nullopt;
  const auto socket = connect_to(address, Deadline::after_ms(kPatienceMs));
  return socket ? user_of_peer(socket->get()) : std::nullopt;
}

bool wait_for(int socket, short events, Deadline deadline, int watch) {
  for (;;) {
    std::array<pollfd, 2> set{pollfd{socket, events, 0}, pollfd{watch, POLLIN, 0}};
    const int ready = ::poll(set.data(), set.size(), deadline.left_ms());
    if (ready < 0 && errno != EINTR) return false;
    if (ready > 0 && set[0].revents != 0) return true;
    if (ready > 0 && set[1].revents != 0) return false;
    if (deadline.passed()) return false;
  }
}

std::ptrdiff_t try_send(int socket, std::span<const std::byte> bytes) {
  for (;;) {
    const ssize_t moved = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (moved >= 0) return moved;
    if (errno == EINTR) continue;
    return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -1;
  }
}

std::ptrdiff_t try_recv(int socket, std::span<std::byte> bytes) {
  for (;;) {
    const ssize_t moved = ::recv(socket, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (moved > 0) return moved;
    if (moved == 0) {
      errno = ECONNRESET;
      return -1;
    }
    if (errno == EINTR) continue;
    return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -1;
  }
}

Status send_all(int socket, std::span<const std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const std::ptrdiff_t moved = try_send(socket, bytes);
    if (moved < 0) return Error{ErrorCode::PeerLost, "connection closed by the other end"};
    bytes = bytes.subspan(static_cast<std::size_t>(moved));
    if (moved == 0 && !wait_for(socket, POLLOUT, deadline)) {
      return Error{ErrorCode::Timeout, "the other end did not answer in time"};
    }
  }
  return {};
}

namespace {

// Returns nothing where the socket is none of TCP's.
std::optional<tcp_info> info_of(int socket) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return std::nullopt;
  return info;
}

void discard_input(int socket) {
  std::array<std::byte, 4096> discarded;
  while (try_recv(socket, discarded) > 0) {
  }
}

}  // namespace

std::size_t unacknowledged_bytes(int socket) {
  int bytes = 0;
  return info_of(socket) && ::ioctl(socket, SIOCOUTQ, &bytes) == 0 && bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
}

bool lost_for_good(int socket) {
  constexpr int kTimes = 5;
  const auto info = info_of(socket);
  return info && info->tcpi_retransmits >= kTimes;
}

// The end of the stream is not waited for: a peer that has nothing to say acknowledges it some 40 ms later. The kernel
// sends a lost packet again after 0.2 s and more. A host that vanished has lost several by now.
void finish_sending(int socket) {
  constexpr int kQuietMs = 2000;
  // The end of the stream counts as a byte in unacknowledged_bytes().
  constexpr std::size_t kEndOfStream = 1;
  ::shutdown(socket, SHUT_WR);
  discard_input(socket);
  std::size_t left = unacknowledged_bytes(socket);
  for (int quiet_ms = 0; quiet_ms < kQuietMs && left > kEndOfStream && !lost_for_good(socket);) {
    sleep_ms(1);
    discard_input(socket);
    const std::size_t before = std::exchange(left, unacknowledged_bytes(socket));
    quiet_ms = left == before ? quiet_ms + 1 : 0;
  }
}

void acknowledge_now(int socket) { set_option(socket, IPPROTO_TCP, TCP_QUICKACK, 1); }

void set_no_delay(int socket) { set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1); }

void set_keepalive(int socket) {
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 7);
}

void set_repeats(int socket) {
  constexpr int kTcpRtoMaxMs = 44;  // TCP_RTO_MAX_MS of newer headers
  set_option(socket, IPPROTO_TCP, kTcpRtoMaxMs, 1000);
}

void set_control_options(int socket) {
  set_no_delay(socket);
  set_repeats(socket);
  set_keepalive(socket);
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, 8000);
}

void set_stream_options(int socket) {
  set_no_delay(socket);
  set_repeats(socket);
  const SocketAddress local = local_address(socket);
  const SocketAddress peer = peer_address(socket);
  if (std::ranges::equal(local.ip_bytes(), peer.ip_bytes())) set_unpaced(socket);
}

void set_unpaced(int socket) {
  constexpr std::string_view kReno = "reno";
  (void)::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, kReno.data(), static_cast<socklen_t>(kReno.size()));
}

Result<std::pair<Fd, Fd>> loopback_pair() {
  auto listener = listen_on(SocketAddress::loopback(AF_INET, 0));
  if (!listener) return listener.error();
  const Deadline deadline = Deadline::after_ms(2000);
  auto near = connect_to(local_address(listener->get()), deadline);
  if (!near) return near.error();
  const std::string expected = local_address(near->get()).text();
  while (wait_for(listener->get(), POLLIN, deadline)) {
    Fd far = Fd::of_process(::accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!far && out_of_descriptors(errno)) return os_error("accept a connection", errno);
    if (far && peer_address(far.get()).text() == expected) return std::pair(std::move(*near), std::move(far));
  }
  return Error{ErrorCode::System, "cannot connect two sockets over the loopback address: timed out"};
}

Result<std::pair<Fd, Fd>> socket_pair() {
  std::array<int, 2> ends{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return os_error("open a socket pair", errno);
  }
  return std::pair(Fd::of_process(ends[0]), Fd::of_process(ends[1]));
}

Deadline sooner(Deadline a, Deadline b) {
  const int left_a = a.left_ms();
  const int left_b = b.left_ms();
  if (left_a < 0) return b;
  if (left_b < 0) return a;
  return left_a < left_b ? a : b;
}

void sleep_ms(int milliseconds) { (void)::poll(nullptr, 0, milliseconds); }

}  // namespace wreath
