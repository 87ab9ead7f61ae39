// Runs a rank's side of a start: see meeting.hpp.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "src/base/config.hpp"
#include "src/base/log.hpp"
#include "src/base/ports.hpp"
#include "src/base/random.hpp"
#include "src/bootstrap/frame.hpp"
#include "src/bootstrap/host.hpp"
#include "src/bootstrap/interfaces.hpp"
#include "src/bootstrap/launched.hpp"
#include "src/bootstrap/meeting.hpp"
#include "src/bootstrap/mesh.hpp"

namespace wreath {
namespace {

// A rank waits so much longer, for the meeting point's verdict says more than the rank's own clock.
constexpr std::int64_t kGraceMs = 2000;
// The time is doubled per round: a silent stranger must not hold the search up.
constexpr int kFirstSearchMs = 250;
constexpr int kMostSearchMs = 2000;
constexpr std::int64_t kGoneMs = 1000;

std::string range_text(const std::vector<SocketAddress>& candidates) {
  const std::string first = candidates.front().text();
  return candidates.size() == 1 ? first : fmt::format("{} .. {}", first, candidates.back().text());
}

Error version_error(const Greeting& theirs, const Greeting& mine) {
  return {ErrorCode::StartupFailed,
          fmt::format("library versions differ: rank {} runs wreath {} (protocol {}), the meeting point wreath {} "
                      "(protocol {})",
                      mine.rank, mine.version, mine.protocol, theirs.version, theirs.protocol)};
}

// Finds the meeting point among the candidates: it is the one that proves the job's key.
class Search {
 public:
  Search(const MeetingPlace& place, Identity self, const BootstrapRequest& request)
      : place_(place),
        self_(std::move(self)),
        timeout_ms_(request.timeout_ms),
        deadline_(Deadline::after_ms(request.timeout_ms)),
        interrupt_(request.interrupt) {}

  Result<Connection> run() {
    const Deadline gone = Deadline::after_ms(kGoneMs);
    int patience_ms = kFirstSearchMs;
    for (int wait_ms = 2;; wait_ms = std::min(2 * wait_ms, 100)) {
      all_refused_ = true;
      for (const SocketAddress& address : place_.candidates) {
        auto found = attempt(address, sooner(deadline_, Deadline::after_ms(patience_ms)));
        if (found || final_) return found;
      }
      if (deadline_.passed()) return give_up(timeout_ms_);
      const bool interrupted = interrupt_ >= 0 && wait_for(interrupt_, POLLIN, Deadline::after_ms(0));
      if (interrupted) return Error{ErrorCode::NotReady, "interrupted"};
      if (place_.ends_when_refused && all_refused_ && gone.passed()) return give_up(kGoneMs);
      sleep_ms(std::min(wait_ms, deadline_.left_ms() < 0 ? wait_ms : deadline_.left_ms()));
      patience_ms = std::min(2 * patience_ms, kMostSearchMs);
    }
  }

 private:
  Result<Connection> attempt(const SocketAddress& address, Deadline patience) {
    int error = 0;
    auto fd = connect_to(address, patience, &error);
    all_refused_ = all_refused_ && error == ECONNREFUSED;
    silent_ = error == ETIMEDOUT;
    if (!fd) {
      reason_ = fd.error().message;
      final_ = lacks_descriptors(fd.error());
      return fd.error();
    }
    set_no_delay(fd->get());
    auto proved = prove(std::move(*fd), self_, patience);
    if (!proved) {
      if (proved.error().code == ErrorCode::PeerLost) unproved_ = {address.text(), proved.error().message};
      reason_ = fmt::format("{}: {}", address.text(), proved.error().message);
      return proved.error();
    }
    if (proved->peer.protocol != self_.greeting.protocol) {
      final_ = true;
      return version_error(proved->peer, self_.greeting);
    }
    return std::move(proved->connection);
  }

  Error give_up(std::int64_t after_ms) const {
    const std::string way = way_to(place_.candidates.front());
    std::string text =
        fmt::format("rank {} found no meeting point at {}{}{} within {} ms (last: {})", self_.greeting.rank,
                    range_text(place_.candidates), way.empty() ? "" : " from ", way, after_ms, reason_);
    if (silent_ && unproved_.first.empty())
      text += "; no answer at all: does a firewall drop packets, or is the host down?";
    if (!unproved_.first.empty()) text += fmt::format("; {} answered, but {}", unproved_.first, unproved_.second);
    if (!place_.hint.empty()) text += "; " + place_.hint;
    return {ErrorCode::StartupFailed, std::move(text)};
  }

  const MeetingPlace& place_;
  Identity self_;
  std::int64_t timeout_ms_;
  Deadline deadline_;
  int interrupt_;
  std::string reason_;
  // Holds the address that answered without a proof of the key, and what happened.
  std::pair<std::string, std::string> unproved_;
  bool all_refused_ = true;
  // Is true where the last candidate did not even refuse.
  bool silent_ = false;
  // Is true where it is of no use to try again.
  bool final_ = false;
};

// Returns the error where no message came from the meeting point, or one that cannot be read.
Error no_message(const Connection& meeting, int server, const Error& error) {
  const std::string where = fmt::format("the meeting point at {}", peer_address(meeting.get()).text());
  const std::string whose = server < 0 ? "the process that serves it" : fmt::format("the process of rank {}", server);
  switch (error.code) {
    case ErrorCode::NotReady: return {ErrorCode::StartupFailed, "this rank gave the start up while ranks met"};
    case ErrorCode::PeerLost: return {error.code, fmt::format("{} is lost: {} has ended", where, whose), server};
    case ErrorCode::Timeout:
      return {ErrorCode::StartupFailed,
              fmt::format("{} does not answer: {} may be stopped, or the way to it is cut", where, whose), server};
    default: return {ErrorCode::StartupFailed, fmt::format("from {}: {}", where, error.message)};
  }
}

// Receives the next message, which must be an M; a Refusal becomes its error.
template <typename M>
Result<M> expect(Connection& meeting, int server, Deadline deadline, int interrupt) {
  auto message = recv_message(meeting, deadline, interrupt);
  if (!message) return no_message(meeting, server, message.error());
  if (auto* refusal = std::get_if<Refusal>(&*message)) {
    return Error{refusal->code, std::move(refusal->text), refusal->failed_rank};
  }
  if (auto* content = std::get_if<M>(&*message)) return std::move(*content);
  return Error{ErrorCode::StartupFailed, "the meeting point sent what it should not"};
}

std::string random_unix_name() { return fmt::format("wreath-{:016x}{:016x}", random_u64(), random_u64()); }

Hello make_hello(const MeetingPlace& place, const BootstrapRequest& request, const std::string& unix_name) {
  Hello hello;
  hello.rank = request.rank;
  hello.ranks = request.ranks;
  hello.pid = ::getpid();
  hello.process = process_id();
  hello.host = place.host;
  hello.host_name = host_name();
  hello.library_version = place.self.greeting.version;
  hello.unix_name = unix_name;
  hello.device = request.device;
  hello.need_streams = request.need_streams;
  hello.timeout_ms = request.timeout_ms;
  hello.settings = request.settings;
  hello.cores = allowed_cores();
  return hello;
}

// Returns the addresses that this rank's listeners bind for ranks of other hosts.
Result<std::vector<SocketAddress>> interfaces_for(const MeetingPlace& place, const SocketAddress& mine) {
  if (is_set(Setting::SocketInterface)) return chosen_addresses(interfaces(), mine.family());
  if (!place.interfaces.empty()) return place.interfaces;
  if (!mine.ip_bytes().empty()) return std::vector{mine};
  if (mine.is_unix())
    return Error{ErrorCode::StartupFailed,
                 fmt::format("ranks are on several hosts, or in containers with networks of their own, but met at a "
                             "UNIX socket of one: {}",
                             place.unfit_for_hosts)};
  return Error{ErrorCode::StartupFailed, "ranks are on several hosts, but this one knows no IP address of its host"};
}

// Opens the TCP listeners that the meeting point asks for: one for each interface, at most kMaxAddresses. An interface
// that refuses is passed over while there are others.
Result<std::vector<Fd>> open_tcp(const Summons& summons, const MeetingPlace& place, int meeting) {
  std::vector<Fd> listeners;
  if (!summons.open_tcp) return listeners;
  const SocketAddress mine = local_address(meeting);
  if (summons.loopback) {
    auto listener = listen_on(SocketAddress::loopback(mine.family() == AF_INET6 ? AF_INET6 : AF_INET, 0));
    if (!listener) return listener.error();
    listeners.push_back(std::move(*listener));
    return listeners;
  }
  const auto addresses = interfaces_for(place, mine);
  if (!addresses) return addresses.error();
  std::optional<Error> refused;
  for (const SocketAddress& address : *addresses) {
    if (listeners.size() == kMaxAddresses) break;
    auto listener = listen_in_range(address);
    if (!listener) {
      refused = listener.error();
      continue;
    }
    log_info("other hosts reach this rank at {}", local_address(listener->get()).text());
    listeners.push_back(std::move(*listener));
  }
  if (listeners.empty() && refused) return *refused;
  return listeners;
}

Listening make_listening(const Result<std::vector<Fd>>& listeners) {
  Listening listening;
  if (!listeners) {
    listening.error = listeners.error().message;
    return listening;
  }
  for (const Fd& listener : *listeners) listening.tcp.push_back(to_net_address(local_address(listener.get())));
  return listening;
}

Status check_table(const Table& table, const BootstrapRequest& request) {
  if (table.rows.size() == static_cast<std::size_t>(request.ranks)) return {};
  return Error{ErrorCode::StartupFailed, fmt::format("the meeting point sent a table of {} ranks instead of {}",
                                                     table.rows.size(), request.ranks)};
}

Membership make_membership(const BootstrapRequest& request, std::shared_ptr<Mesh> mesh,
                           std::vector<Connection> control) {
  Membership result;
  result.rank = request.rank;
  result.ranks = request.ranks;
  result.communicator = mesh->table().communicator;
  result.settings = mesh->table().settings;
  for (const TableRow& row : mesh->table().rows) {
    const auto rank = static_cast<Rank>(result.members.size());
    result.members.push_back(
        {{rank, row.process, row.host, row.device}, row.pid, row.host_name, row.library_version, row.host_cores});
  }
  result.control = std::move(control);
  if (!request.need_streams) mesh.reset();
  result.open_stream = [mesh = std::move(mesh)](Rank peer, Deadline deadline, int interrupt,
                                                std::size_t number) -> Result<Fd> {
    if (!mesh) return Error{ErrorCode::InvalidUsage, "open_stream: need_streams was not set in the request"};
    return mesh->open_stream(peer, deadline, interrupt, number);
  };
  return result;
}

// Links to all ranks and waits until all are linked, or for the reason why they are not.
Result<std::vector<Connection>> link(Mesh& mesh, Connection& meeting, int server, Deadline deadline, int interrupt) {
  auto control = mesh.link_all(meeting.get());
  const bool told = !control && control.error().code == ErrorCode::NotReady;
  if (!told) {
    Ready ready;
    if (!control) ready.error = control.error().message;
    (void)send_message(meeting, ready, deadline);
  }
  const Deadline verdict = sooner(deadline, Deadline::after_ms(control ? -1 : kGraceMs));
  if (auto go = expect<Go>(meeting, server, verdict, interrupt); !go) {
    const bool own_reason = !control && !told && go.error().failed_rank < 0;
    return own_reason ? control.error() : go.error();
  }
  return control;
}

}  // namespace

bool answers(const SocketAddress& address, const Identity& self) {
  const Deadline patience = Deadline::after_ms(kFirstSearchMs);
  auto fd = connect_to(address, patience);
  return fd && prove(std::move(*fd), self, patience);
}

BootstrapRequest rest_of(const BootstrapRequest& request, const Deadline& deadline) {
  BootstrapRequest rest = request;
  if (const std::int64_t left_ms = deadline.left_ms(); left_ms >= 0) {
    rest.timeout_ms = std::min(request.timeout_ms, std::max(left_ms, kLeastLinkMs));
  }
  return rest;
}

Result<Membership> meet(const MeetingPlace& place, const BootstrapRequest& request) {
  if (request.ranks < 1 || request.ranks > kMaximumRanks) {
    return Error{ErrorCode::InvalidArgument, fmt::format("ranks={} must be 1 .. {}", request.ranks, kMaximumRanks)};
  }
  if (request.settings.size() > kMaxSettingsBytes) {
    return Error{ErrorCode::InvalidArgument,
                 fmt::format("settings of {} bytes exceed {}", request.settings.size(), kMaxSettingsBytes)};
  }
  Deadline deadline = Deadline::after_ms(request.timeout_ms < 0 ? -1 : request.timeout_ms + kGraceMs);
  Identity self = place.self;
  self.greeting.rank = request.rank;
  self.greeting.purpose = Purpose::Meet;
  auto meeting = Search(place, self, request).run();
  if (!meeting) return meeting.error();
  const int socket = meeting->get();
  set_keepalive(socket);

  const std::string unix_name = random_unix_name();
  auto unix_listener = listen_on(SocketAddress::abstract_unix(unix_name));
  // When a send fails, the next message that is read says why.
  (void)send_message(*meeting, make_hello(place, request, unix_name), deadline);

  auto summons = expect<Summons>(*meeting, place.server, deadline, request.interrupt);
  if (!summons) return summons.error();
  auto listeners = open_tcp(*summons, place, socket);
  // The error is sent like any other, so that no rank waits for this one.
  if (!unix_listener) listeners = unix_listener.error();
  (void)send_message(*meeting, make_listening(listeners), deadline);

  auto table = expect<Table>(*meeting, place.server, deadline, request.interrupt);
  if (!table) return table.error();
  if (!listeners) return listeners.error();
  WREATH_TRY(check_table(*table, request));
  if (deadline.left_ms() >= 0 && deadline.left_ms() < kLeastLinkMs + kGraceMs) {
    deadline = Deadline::after_ms(kLeastLinkMs + kGraceMs);
  }
  auto key = self.key->derive("wreath links", table->salt);
  listeners->push_back(std::move(*unix_listener));
  auto mesh = std::make_shared<Mesh>(request.rank, std::move(*table), std::move(key), std::move(*listeners),
                                     local_address(socket).zone());
  auto control = link(*mesh, *meeting, place.server, deadline, request.interrupt);
  if (!control) return control.error();
  return make_membership(request, std::move(mesh), std::move(*control));
}

}  // namespace wreath
