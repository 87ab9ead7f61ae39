// Makes the links between ranks: see mesh.hpp.
#include "src/bootstrap/mesh.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "src/bootstrap/interfaces.hpp"

namespace wreath {
namespace {

// Limits the wait for one of a peer's addresses, then is doubled: the next address may answer.
constexpr int kFirstPatienceMs = 2000;
constexpr int kMostPatienceMs = 8000;

// Returns a share of the time for links. The end that connects gives up first, for it knows why; then the end that
// waits; then the meeting point.
Deadline share_of(std::int64_t link_ms, std::int64_t eighths) {
  return Deadline::after_ms(link_ms < 0 ? -1 : link_ms * eighths / 8);
}

void set_options(int socket, Purpose purpose) {
  if (local_address(socket).is_unix()) return;
  if (purpose == Purpose::Control) {
    set_control_options(socket);
  } else {
    set_stream_options(socket);
  }
}

}  // namespace

NetAddress to_net_address(const SocketAddress& address) {
  NetAddress result;
  const auto bytes = address.ip_bytes();
  if (bytes.empty()) return result;
  result.family = bytes.size() == 4 ? 4 : 6;
  std::ranges::copy(bytes, result.ip.begin());
  result.port = address.port();
  return result;
}

SocketAddress to_socket_address(const NetAddress& address) {
  if (address.family == 4) return SocketAddress::from_ip(std::span(address.ip).first(4), address.port);
  if (address.family == 6) return SocketAddress::from_ip(address.ip, address.port);
  return {};
}

bool lacks_descriptors(const Error& error) { return error.message.find("RLIMIT_NOFILE") != std::string::npos; }

Mesh::Mesh(Rank rank, Table table, std::shared_ptr<const Key> key, std::vector<Fd> listeners, std::uint32_t zone)
    : rank_(rank),
      table_(std::move(table)),
      key_(std::move(key)),
      zone_(zone),
      acceptor_(std::move(listeners), identity(Purpose::Control)) {}

Identity Mesh::identity(Purpose purpose) const {
  return {key_, {kProtocol, rank_, purpose, std::string(library_version())}};
}

std::string Mesh::describe(Rank peer) const {
  const TableRow& row = table_.rows[static_cast<std::size_t>(peer)];
  return fmt::format("rank {} (host {}, pid {})", peer, row.host_name, row.pid);
}

std::vector<SocketAddress> Mesh::addresses_of(Rank peer, Purpose purpose) const {
  const TableRow& mine = table_.rows[static_cast<std::size_t>(rank_)];
  const TableRow& theirs = table_.rows[static_cast<std::size_t>(peer)];
  // Ranks of one host pass descriptors with messages, which TCP would lose.
  if (purpose == Purpose::Control && mine.host == theirs.host) return {SocketAddress::abstract_unix(theirs.unix_name)};
  std::vector<SocketAddress> addresses;
  for (const NetAddress& address : theirs.tcp)
    std::ranges::copy(with_zones(to_socket_address(address), zone_), std::back_inserter(addresses));
  const auto worked = last_worked_.find(peer);
  if (worked != last_worked_.end() && worked->second < addresses.size())
    std::swap(addresses.front(), addresses[worked->second]);
  return addresses;
}

std::string Mesh::listening_text() const {
  std::vector<std::string> texts;
  for (const NetAddress& address : table_.rows[static_cast<std::size_t>(rank_)].tcp)
    texts.push_back(to_socket_address(address).text());
  return texts.empty() ? "its UNIX socket" : fmt::format("{}", fmt::join(texts, ", "));
}

// Fails with NotReady where it was interrupted, and with PeerLost where no process listens there. After another error
// it may help to try again.
Result<Connection> Mesh::attempt(Rank peer, Purpose purpose, const SocketAddress& address, Deadline deadline,
                                 int watch) const {
  int error = 0;
  auto fd = connect_to(address, deadline, &error);
  if (!fd) {
    const std::string way = way_to(address);
    const std::string_view silent = error == ETIMEDOUT ? " (no answer at all: does a firewall drop packets?)" : "";
    return Error{error == ECONNREFUSED ? ErrorCode::PeerLost : ErrorCode::StartupFailed,
                 fmt::format("{}{}{}{}", fd.error().message, way.empty() ? "" : ", from ", way, silent)};
  }
  set_options(fd->get(), purpose);
  auto proved = prove(std::move(*fd), identity(purpose), deadline, watch);
  if (proved && proved->peer.rank == peer) return std::move(proved->connection);
  const bool interrupted = watch >= 0 && wait_for(watch, POLLIN, Deadline::after_ms(0));
  if (interrupted) return Error{ErrorCode::NotReady, "interrupted"};
  return Error{ErrorCode::StartupFailed,
               fmt::format("{}: {}", address.text(), proved ? "another rank answered" : proved.error().message)};
}

// Tries the peer's addresses in order until one leads to it. A handshake can be dropped when strangers crowd the peer's
// listener, so that is tried again. A connection that all addresses refuse is final.
Result<Connection> Mesh::connect(Rank peer, Purpose purpose, Deadline deadline, int watch, std::size_t number) {
  std::vector<SocketAddress> addresses = addresses_of(peer, purpose);
  if (addresses.empty()) return Error{ErrorCode::StartupFailed, fmt::format("{} has no address", describe(peer)), peer};
  const auto first = static_cast<std::ptrdiff_t>(number % addresses.size());
  std::rotate(addresses.begin(), addresses.begin() + first, addresses.end());
  int patience_ms = kFirstPatienceMs;
  for (int wait_ms = 1;; wait_ms = std::min(2 * wait_ms, 100)) {
    std::vector<std::string> reasons;
    bool all_refused = true;
    bool hopeless = false;
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      const Deadline patience = sooner(deadline, Deadline::after_ms(patience_ms));
      auto made = attempt(peer, purpose, addresses[i], patience, watch);
      if (made && i > 0 && number == 0) last_worked_[peer] = i;
      if (made || made.error().code == ErrorCode::NotReady) return made;
      all_refused = all_refused && made.error().code == ErrorCode::PeerLost;
      hopeless = hopeless || lacks_descriptors(made.error());
      reasons.push_back(made.error().message);
    }
    const bool interrupted = watch >= 0 && wait_for(watch, POLLIN, Deadline::after_ms(0));
    if (interrupted) return Error{ErrorCode::NotReady, "interrupted"};
    if (all_refused || hopeless || deadline.passed()) {
      return Error{ErrorCode::StartupFailed,
                   fmt::format("no connection to {}: {}", describe(peer), fmt::join(reasons, "; ")), peer};
    }
    sleep_ms(wait_ms);
    patience_ms = std::min(2 * patience_ms, kMostPatienceMs);
  }
}

Result<Connection> Mesh::accept(Rank peer, Purpose purpose, Deadline deadline, int watch) {
  for (;;) {
    const auto found = std::ranges::find_if(
        waiting_, [&](const Proved& proved) { return proved.peer.rank == peer && proved.peer.purpose == purpose; });
    if (found != waiting_.end()) {
      Connection connection = std::move(found->connection);
      waiting_.erase(found);
      return connection;
    }
    auto proved = acceptor_.next(deadline, watch);
    if (!proved && proved.error().code == ErrorCode::Timeout) {
      return Error{
          ErrorCode::StartupFailed,
          fmt::format("no connection from {} in time, which was to come to {}", describe(peer), listening_text()),
          peer};
    }
    if (!proved) return proved.error();
    set_options(proved->connection.get(), proved->peer.purpose);
    waiting_.push_back(std::move(*proved));
  }
}

Result<std::vector<Connection>> Mesh::link_all(int watch) {
  const Deadline connecting = share_of(table_.link_ms, 6);
  const Deadline accepting = share_of(table_.link_ms, 7);
  const auto ranks = static_cast<Rank>(table_.rows.size());
  std::vector<Connection> control(table_.rows.size());
  for (Rank peer = 0; peer < ranks; ++peer) {
    if (peer == rank_) continue;
    auto connection = peer < rank_ ? connect(peer, Purpose::Control, connecting, watch)
                                   : accept(peer, Purpose::Control, accepting, watch);
    if (!connection) return connection.error();
    control[static_cast<std::size_t>(peer)] = std::move(*connection);
  }
  acceptor_.close_unix_listeners();
  return control;
}

Result<Fd> Mesh::open_stream(Rank peer, Deadline deadline, int watch, std::size_t number) {
  if (peer < 0 || peer >= static_cast<Rank>(table_.rows.size()) || peer == rank_) {
    return Error{ErrorCode::InvalidArgument,
                 fmt::format("peer={} is not another rank of {}", peer, table_.rows.size())};
  }
  auto connection = peer < rank_ ? connect(peer, Purpose::Stream, deadline, watch, number)
                                 : accept(peer, Purpose::Stream, deadline, watch);
  if (!connection) return connection.error();
  return std::move(connection->fd);
}

}  // namespace wreath
