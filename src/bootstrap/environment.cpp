// Ranks that a launcher started: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT say where they meet.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "src/base/config.hpp"
#include "src/base/log.hpp"
#include "src/bootstrap/bootstrap.hpp"
#include "src/bootstrap/meeting.hpp"

namespace wreath {
namespace {

constexpr int kPorts = 16;
constexpr std::string_view kVariables = "RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT";

Status require(Setting setting, std::string_view because) {
  if (is_set(setting)) return {};
  return Error{ErrorCode::InvalidArgument, fmt::format("{} is not set, but {}", row(setting).name, because)};
}

struct Ports {
  std::uint16_t first;
  std::uint16_t last;
};

Result<Ports> ports() {
  if (is_set(Setting::Port)) {
    auto port = setting_integer(Setting::Port);
    if (!port) return port.error();
    if (*port > 0) return Ports{static_cast<std::uint16_t>(*port), static_cast<std::uint16_t>(*port)};
  }
  auto port = setting_integer(Setting::MasterPort);
  if (!port) return port.error();
  const std::int64_t last = std::min<std::int64_t>(*port + kPorts - 1, kMaximumPort);
  return Ports{static_cast<std::uint16_t>(*port), static_cast<std::uint16_t>(last)};
}

// Two jobs of one user may look at the same ports: their keys must differ.
std::string job_name() { return "MASTER_PORT=" + setting_text(Setting::MasterPort); }

// Names that only ranks of this user, on this host, with this MASTER_ADDR and MASTER_PORT look for.
std::vector<SocketAddress> unix_candidates(const std::string& host) {
  std::vector<SocketAddress> candidates;
  const std::string job = fmt::format("{}/{}/{}", ::geteuid(), host, job_name());
  const auto hash = Key::none()->tag(std::as_bytes(std::span(job)));
  std::string name = "wreath-job-";
  for (const std::byte byte : std::span(hash).first(16)) name += fmt::format("{:02x}", static_cast<unsigned>(byte));
  candidates.push_back(SocketAddress::abstract_unix(name));
  return candidates;
}

std::vector<SocketAddress> tcp_candidates(const std::vector<SocketAddress>& addresses, Ports range) {
  std::vector<SocketAddress> candidates;
  for (int port = range.first; port <= range.last; ++port) {
    for (const SocketAddress& address : addresses) {
      candidates.push_back(address.with_port(static_cast<std::uint16_t>(port)));
    }
  }
  return candidates;
}

struct Place {
  MeetingPlace meeting;
  std::string master;  // MASTER_ADDR
  Ports range;
};

bool any_local(const std::vector<SocketAddress>& addresses) {
  for (const SocketAddress& address : addresses) {
    if (is_local(address)) return true;
  }
  return false;
}

// Without a key only ranks of one host may meet, and only where no other user can: UNIX sockets.
Status use_unix(Place& place, const std::vector<SocketAddress>& addresses) {
  if (!any_local(addresses)) {
    return Error{ErrorCode::StartupFailed, fmt::format("MASTER_ADDR={} is another host, and this job has no key: {}",
                                                       place.master, key_remedies())};
  }
  place.meeting.self.key = Key::none();
  place.meeting.candidates = unix_candidates(place.master);
  place.meeting.hint = "no key was found on this rank, so it looked for ranks of this host and user only";
  return {};
}

Result<Place> find_place() {
  Place place;
  place.master = setting_text(Setting::MasterAddr);
  place.meeting.self.greeting.version = std::string(library_version());
  auto range = ports();
  if (!range) return range.error();
  place.range = *range;
  auto addresses = resolve(place.master, place.range.first);
  if (!addresses) return Error{addresses.error().code, "MASTER_ADDR: " + addresses.error().message};
  auto found = find_key();
  if (!found) return found.error();
  auto insecure = setting_boolean(Setting::Insecure);
  if (!insecure) return insecure.error();
  if (!found->key && !*insecure) {
    WREATH_TRY(use_unix(place, *addresses));
    return place;
  }
  if (!found->key) {
    log_warning("WREATH_INSECURE=1 and no key: anyone who reaches {} port {} .. {} can join this job and read its data",
                place.master, place.range.first, place.range.last);
  }
  const auto key = found->key ? found->key : Key::none();
  const std::string job = job_name();
  place.meeting.self.key = key->derive("wreath job", std::as_bytes(std::span(job)));
  place.meeting.candidates = tcp_candidates(*addresses, place.range);
  place.meeting.hint =
      fmt::format("rank 0 must be running, and its key must be this rank's (source: {})", found->source);
  log_info("key: {}", found->source);
  return place;
}

Error no_place_to_listen(const Place& place, bool in_use, const std::string& reason) {
  if (!in_use) return {ErrorCode::StartupFailed, reason};
  if (!place.meeting.candidates.front().is_unix()) {
    return {ErrorCode::StartupFailed, fmt::format("all ports {} .. {} at MASTER_ADDR={} are in use", place.range.first,
                                                  place.range.last, place.master)};
  }
  return {ErrorCode::StartupFailed,
          fmt::format("another job of this host, or a second rank 0, has MASTER_ADDR={} and MASTER_PORT={}",
                      place.master, setting_text(Setting::MasterPort))};
}

// Rank 0: listens on the first candidate that is free.
Result<Fd> listen_at(const Place& place) {
  std::string reason = fmt::format("MASTER_ADDR={} is not an address of this host, where rank 0 runs", place.master);
  bool in_use = false;
  for (const SocketAddress& candidate : place.meeting.candidates) {
    int error = 0;
    auto listener = listen_on(candidate, &error);
    if (listener || out_of_descriptors(error)) return listener;
    in_use = in_use || error == EADDRINUSE;
    if (error != EADDRINUSE && error != EADDRNOTAVAIL) reason = listener.error().message;
  }
  return no_place_to_listen(place, in_use, reason);
}

// A host name that means the loopback address on its own host is a common trap.
void warn_of_loopback(const Place& place, const SocketAddress& address) {
  if (!address.is_loopback() || place.master == "localhost" || SocketAddress::parse_ip(place.master, 0)) return;
  log_warning("MASTER_ADDR={} means {} on its own host: ranks of other hosts cannot reach it", place.master,
              address.ip_text());
}

// One of the launcher's variables that is set; empty: none is.
std::string_view variable_present() {
  constexpr std::array kAll{Setting::JobRank, Setting::WorldSize, Setting::MasterAddr, Setting::MasterPort};
  const auto found = std::find_if(kAll.begin(), kAll.end(), is_set);
  return found == kAll.end() ? std::string_view() : row(*found).name;
}

}  // namespace

Result<EnvironmentJob> environment_job() {
  const std::string_view present = variable_present();
  if (present.empty()) return EnvironmentJob{0, 1, fmt::format("alone: none of {} is set", kVariables)};
  const std::string because = fmt::format("{} is", present);
  WREATH_TRY(require(Setting::JobRank, because));
  WREATH_TRY(require(Setting::WorldSize, because));
  auto rank = setting_integer(Setting::JobRank);
  if (!rank) return rank.error();
  auto ranks = setting_integer(Setting::WorldSize);
  if (!ranks) return ranks.error();
  if (*rank >= *ranks) {
    return Error{ErrorCode::InvalidArgument, fmt::format("RANK={} must be less than WORLD_SIZE={}", *rank, *ranks)};
  }
  if (*ranks > 1) {
    WREATH_TRY(require(Setting::MasterAddr, fmt::format("WORLD_SIZE={}", *ranks)));
    WREATH_TRY(require(Setting::MasterPort, fmt::format("WORLD_SIZE={}", *ranks)));
    if (auto range = ports(); !range) return range.error();
  }
  return EnvironmentJob{static_cast<int>(*rank), static_cast<int>(*ranks),
                        fmt::format("torchrun's variables ({})", kVariables)};
}

Result<Membership> join_environment(const EnvironmentJob& job, const BootstrapRequest& request) {
  if (request.rank != job.rank || request.ranks != job.ranks) {
    return Error{ErrorCode::InvalidArgument, fmt::format("rank={} of {} is not the environment's rank {} of {}",
                                                         request.rank, request.ranks, job.rank, job.ranks)};
  }
  if (job.ranks == 1) {
    auto alone = join_local(1, request.settings);
    if (!alone) return alone.error();
    return std::move(alone->front());
  }
  auto place = find_place();
  if (!place) return place.error();
  if (job.rank != 0) return meet(place->meeting, request);
  auto listener = listen_at(*place);
  if (!listener) return listener.error();
  const SocketAddress address = local_address(listener->get());
  warn_of_loopback(*place, address);
  log_info("rank 0 waits for {} ranks at {}", job.ranks, address.text());
  std::vector<Fd> listeners;
  listeners.push_back(std::move(*listener));
  WREATH_TRY(serve_meeting(std::move(listeners), place->meeting.self));
  place->meeting.candidates = {address};
  return meet(place->meeting, request);
}

}  // namespace wreath
