// Finds where ranks that a launcher started meet, and what each proves to the others (launched.hpp reads the
// variables).
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <span>

#include "src/base/config.hpp"
#include "src/base/log.hpp"
#include "src/base/name_choice.hpp"
#include "src/bootstrap/bootstrap.hpp"
#include "src/bootstrap/interfaces.hpp"
#include "src/bootstrap/launched.hpp"
#include "src/bootstrap/meeting.hpp"
#include "src/bootstrap/meeting_file.hpp"

namespace wreath {
namespace {

// Returns a name that only ranks of this user, on this host, with this job and address look for. It is no other user's
// name, whatever the job is called. Any process that has the job's key knows the name.
std::vector<SocketAddress> unix_candidates(const Rendezvous& where, const Key& key) {
  const std::string job = fmt::format("{}/{}/{}", ::geteuid(), where.said, where.job);
  const auto hash = key.tag(std::as_bytes(std::span(job)));
  std::string name = "wreath-job-";
  for (const std::byte byte : std::span(hash).first(16)) name += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return {SocketAddress::abstract_unix(name)};
}

std::vector<SocketAddress> tcp_candidates(const std::vector<SocketAddress>& addresses, const Rendezvous& where) {
  std::vector<SocketAddress> candidates;
  for (const std::uint16_t port : where.ports) {
    for (const SocketAddress& address : addresses) candidates.push_back(address.with_port(port));
  }
  return candidates;
}

std::string ports_text(const Rendezvous& where) {
  const auto [first, last] = std::pair(where.ports.front(), where.ports.back());
  return first == last ? fmt::format("port {}", first) : fmt::format("ports {} .. {}", first, last);
}

struct Place {
  MeetingPlace meeting;
  Rendezvous where;
};

// Makes ranks meet at UNIX sockets. Without a key only ranks of one host may meet, and only where no other user can.
// Ranks that are all said to be on one host do the same.
Status use_unix(Place& place, const std::vector<SocketAddress>& addresses, const FoundKey& found) {
  if (!addresses.empty() && !std::any_of(addresses.begin(), addresses.end(), is_local)) {
    return Error{ErrorCode::StartupFailed,
                 fmt::format("{} is another host, and this job has no key: {}", place.where.said, key_remedies())};
  }
  place.meeting.candidates = unix_candidates(place.where, *place.meeting.self.key);
  const std::string_view address =
      place.where.hosts.empty() ? "WREATH_ADDRESS must name rank 0's host on each rank" : "";
  if (found.key) {
    place.meeting.hint = fmt::format(
        "rank 0 must be running on this host, for all ranks are said to be, with this rank's key (source: {})",
        found.source);
    place.meeting.unfit_for_hosts = fmt::format("all are said to be on one host: {}", address);
    return {};
  }
  place.meeting.hint = fmt::format(
      "no key was found on this rank, so it looked for ranks of this host and user only, which have {} and {} as well; "
      "ranks of several hosts need one: run `wreath key` once, and see WREATH_KEY_FILE and WREATH_KEY",
      place.where.said, place.where.job);
  place.meeting.unfit_for_hosts =
      fmt::format("this job has no key: {}{}{}", key_remedies(), address.empty() ? "" : "; besides, ", address);
  return {};
}

Result<std::vector<SocketAddress>> resolve_all(const Rendezvous& where, bool may_use_tcp) {
  std::vector<SocketAddress> all;
  std::optional<Error> failure;
  for (const std::string& host : where.hosts) {
    auto addresses = addresses_of_host(host, where.ports.front());
    if (!addresses) {
      const std::string key = may_use_tcp ? "" : fmt::format("; besides, this job has no key: {}", key_remedies());
      failure =
          Error{addresses.error().code, fmt::format("{}: {}; WREATH_ADDRESS can name rank 0's host by an address{}",
                                                    where.said, addresses.error().message, key)};
      continue;
    }
    // Two names may mean one address. Rank 0 would take its own listener there for another job's.
    for (const SocketAddress& address : *addresses) {
      const auto same = [&](const SocketAddress& other) { return other.text() == address.text(); };
      if (std::ranges::none_of(all, same)) all.push_back(address);
    }
  }
  if (all.empty() && failure) return *failure;
  return all;
}

// Returns the addresses of rank 0 that are of this host and that others can use: on interfaces that run. Where there
// are none, this is another host. On rank 0's own host the way to an address says nothing about the way from elsewhere.
std::vector<SocketAddress> usable(const std::vector<SocketAddress>& addresses) {
  const std::vector<Interface> all = interfaces();
  std::vector<SocketAddress> good;
  for (const SocketAddress& address : addresses) {
    const bool runs = std::any_of(all.begin(), all.end(), [&](const Interface& one) {
      return one.running && !one.loopback && one.address.ip_text() == address.ip_text();
    });
    if (runs) good.push_back(address.with_port(0));
  }
  return good;
}

Result<Place> find_place(const Rendezvous& where) {
  Place place;
  place.where = where;
  place.meeting.server = 0;
  place.meeting.self = {Key::none(), {kProtocol, -1, Purpose::Meet, std::string(library_version())}};
  auto found = where.key ? Result<FoundKey>(FoundKey{where.key, std::string(name(where.carrier))}) : find_key();
  if (!found) return found.error();
  auto insecure = setting_boolean(Setting::Insecure);
  if (!insecure) return insecure.error();
  const bool may_use_tcp = found->key || *insecure;
  const auto addresses = resolve_all(where, may_use_tcp);
  if (!addresses) return addresses.error();
  const std::string job = where.job;
  if (found->key) place.meeting.self.key = found->key->derive("wreath job", std::as_bytes(std::span(job)));
  if (found->key) log_info("key: {}", found->source);
  if (where.hosts.empty() || !may_use_tcp) {
    WREATH_TRY(use_unix(place, *addresses, *found));
    return place;
  }
  if (!found->key) {
    log_warning("WREATH_INSECURE=1 and no key: anyone who reaches {}, {}, can join this job and read its data",
                place.where.said, ports_text(where));
    place.meeting.self.key = Key::none()->derive("wreath job", std::as_bytes(std::span(job)));
  }
  place.meeting.candidates = tcp_candidates(*addresses, where);
  place.meeting.interfaces = usable(*addresses);
  place.meeting.hint =
      fmt::format("rank 0 must be running, and its key must be this rank's (source: {})", found->source);
  return place;
}

Error no_place_to_listen(const Place& place, bool in_use, const std::string& reason) {
  if (!in_use) return {ErrorCode::StartupFailed, reason};
  if (!place.meeting.candidates.front().is_unix()) {
    return {ErrorCode::StartupFailed, fmt::format("{} at {}: all in use", ports_text(place.where), place.where.said)};
  }
  const auto user = user_who_listens(place.meeting.candidates.front());
  if (user && *user != ::geteuid())
    return {ErrorCode::StartupFailed,
            fmt::format(
                "user {} of this host holds the place where this job would meet ({}, {}): WREATH_JOB names another, "
                "and with a WREATH_KEY nobody else knows it",
                *user, place.where.said, place.where.job)};
  return {ErrorCode::StartupFailed, fmt::format("another job of this host has the same place to meet ({}, {}): "
                                                "WREATH_JOB tells them apart",
                                                place.where.said, place.where.job)};
}

// Holds what rank 0 found when it looked for a place to listen.
struct Listening0 {
  std::vector<Fd> listeners;
  // Is the address where another process serves this very job: that process claims to be rank 0, too.
  std::optional<SocketAddress> twin;
};

// Says why rank 0 could not listen at some of its addresses.
struct Trouble {
  std::string reason;
  bool in_use = false;
};

// Listens at all of rank 0's addresses that are free at one port. `trouble` gets the reason where some are not.
Result<Listening0> listen_at_port(std::span<const SocketAddress> addresses, const Identity& self, Trouble& trouble) {
  Listening0 result;
  for (const SocketAddress& address : addresses) {
    int error = 0;
    auto listener = listen_on(address, &error);
    if (!listener && out_of_descriptors(error)) return listener.error();
    if (listener) {
      result.listeners.push_back(std::move(*listener));
      continue;
    }
    trouble.in_use = trouble.in_use || error == EADDRINUSE;
    if (error == EADDRINUSE && answers(address, self)) result.twin = address;
    if (result.twin) return result;
    if (error != EADDRINUSE && error != EADDRNOTAVAIL) trouble.reason = listener.error().message;
  }
  return result;
}

// Listens at the first port that is free at all of its addresses, or else at the first that is free at some.
Result<Listening0> listen_at(const Place& place) {
  Listening0 partly;
  Trouble all{fmt::format("{} is not an address of this host, where rank 0 runs", place.where.said)};
  const std::vector<SocketAddress>& candidates = place.meeting.candidates;
  for (auto first = candidates.begin(); first != candidates.end();) {
    const auto last = std::find_if(first, candidates.end(),
                                   [&](const SocketAddress& other) { return other.port() != first->port(); });
    Trouble trouble{all.reason};
    auto found = listen_at_port({first, last}, place.meeting.self, trouble);
    if (!found || found->twin || (!found->listeners.empty() && !trouble.in_use)) return found;
    if (partly.listeners.empty()) partly = std::move(*found);
    all = {trouble.reason, all.in_use || trouble.in_use};
    first = last;
  }
  if (partly.listeners.empty()) return no_place_to_listen(place, all.in_use, all.reason);
  return partly;
}

// Drops the addresses of rank 0 that WREATH_SOCKET_IFNAME does not admit, except loopback, where it admits others.
// Where it admits none, all are kept: they were given on purpose.
void keep_admitted(std::vector<SocketAddress>& candidates) {
  const std::string choice = setting_text(Setting::SocketInterface);
  const std::vector<Interface> all = interfaces();
  const auto admitted = [&](const SocketAddress& one) {
    const std::string name = interface_of(all, one);
    return !name.empty() && admits(choice, name);
  };
  const auto others = [&](const SocketAddress& one) { return !one.is_unix() && !one.is_loopback() && !admitted(one); };
  if (std::any_of(candidates.begin(), candidates.end(), admitted)) std::erase_if(candidates, others);
}

// Warns where host names mean nothing but the loopback address on their own host, unless they say so themselves.
void warn_of_loopback(const Place& place, const std::vector<SocketAddress>& addresses) {
  if (place.where.hosts.empty() || !std::all_of(addresses.begin(), addresses.end(),
                                                [](const SocketAddress& address) { return address.is_loopback(); }))
    return;
  if (std::all_of(place.where.hosts.begin(), place.where.hosts.end(), means_itself)) return;
  log_warning("{} means {} on its own host, which has no other interface: ranks of other hosts cannot reach it",
              place.where.said, addresses.front().ip_text());
}

void log_disagreements(const EnvironmentJob& job) {
  for (const Disagreement& one : disagreements(job)) {
    const std::string text =
        fmt::format("rank {} of {}, said by {}; {}", job.rank, job.ranks, job.source, one.sentence);
    one.alarming ? log_warning("{}", text) : log_info("{}", text);
  }
}

// Serves the meeting point as rank 0 and joins it. Where another process serves it already, rank 0 only joins it.
Result<Membership> serve_and_meet(Place& place, const BootstrapRequest& request) {
  keep_admitted(place.meeting.candidates);
  auto served = listen_at(place);
  if (!served) return served.error();
  if (served->twin) {
    place.meeting.candidates = {*served->twin};
    return meet(place.meeting, request);
  }
  std::vector<SocketAddress> addresses;
  for (const Fd& listener : served->listeners) {
    addresses.push_back(local_address(listener.get()));
    log_info("rank 0 waits for {} ranks at {}", request.ranks, addresses.back().text());
  }
  warn_of_loopback(place, addresses);
  WREATH_TRY(serve_meeting(std::move(served->listeners), place.meeting.self));
  place.meeting.candidates = addresses;
  return meet(place.meeting, request);
}

// Returns the addresses where rank 0 waits, for ranks of any host. A host without a network has only its own.
Result<std::vector<std::string>> addresses_to_carry() {
  const auto chosen = chosen_addresses(interfaces(), AF_INET);
  if (!chosen) return chosen.error();
  std::vector<std::string> texts;
  // Other hosts have other interfaces, so the address has no zone.
  for (const SocketAddress& address : *chosen) texts.push_back(address.with_zone(0).ip_text());
  if (texts.empty()) texts.push_back(SocketAddress::loopback(AF_INET, 0).ip_text());
  return texts;
}

// Fills `where` with what the launcher carries from rank 0 to all ranks.
Status take_carried(Rendezvous& where, const BootstrapRequest& request, const Deadline& deadline) {
  Carriage carriage{request.rank, request.ranks, {}, deadline, request.interrupt};
  if (request.rank == 0) {
    const auto addresses = addresses_to_carry();
    if (!addresses) return addresses.error();
    carriage.text = make_carried_text(!is_set(Setting::Key) && !is_set(Setting::KeyFile), *addresses);
  }
  auto place = carried_place(where.carrier, carriage);
  if (!place) return place.error();
  where.said = fmt::format("{}, which {} brought", fmt::join(place->addresses, ","), name(where.carrier));
  where.hosts = std::move(place->addresses);
  where.job += place->name;
  where.key = std::move(place->key);
  if (where.ports.empty()) where.ports = ports_from(place->port);
  return {};
}

// Returns the file through which ranks of several nodes meet where nothing carries a key. Empty where they have a key.
Result<std::string> file_of_step(const Rendezvous& where) {
  const auto found = find_key();
  if (!found) return found.error();
  const auto insecure = setting_boolean(Setting::Insecure);
  if (!insecure) return insecure.error();
  if (found->key || *insecure) return std::string();
  const std::string home = home_directory();
  if (!home.empty() && is_shared_storage(home)) return make_key_folder(where.step);
  return Error{
      ErrorCode::StartupFailed,
      fmt::format("{} has several nodes, and this job has no key: srun --mpi=pmix and --mpi=pmi2 carry one; or "
                  "set WREATH_FILE to a new file on storage that all nodes share (HOME={} is on none that is "
                  "known to be); or {}",
                  where.said, home, key_remedies())};
}

}  // namespace

Result<Membership> join_environment(const EnvironmentJob& job, const BootstrapRequest& request) {
  if (request.rank != job.rank || request.ranks != job.ranks) {
    return Error{ErrorCode::InvalidArgument, fmt::format("rank={} of {} is not the environment's rank {} of {}",
                                                         request.rank, request.ranks, job.rank, job.ranks)};
  }
  if (!job.strangers.empty()) {
    return Error{ErrorCode::InvalidArgument,
                 job.strangers +
                     ", so this process would be alone: start it by `wreath run`, or set WREATH_RANK and "
                     "WREATH_RANKS (0 and 1 where it is to be alone)"};
  }
  log_disagreements(job);
  if (job.ranks == 1) {
    auto alone = join_local(1, request.settings, {&request.device, 1});
    if (!alone) return alone.error();
    return std::move(alone->front());
  }
  auto where = rendezvous();
  if (!where) return where.error();
  if (!where->file.empty()) return join_file(where->file, request);
  const Deadline deadline = Deadline::after_ms(request.timeout_ms);
  const bool carried = where->carrier != Carrier::None;
  if (carried) WREATH_TRY(take_carried(*where, request, deadline));
  if (!where->step.empty()) {
    const auto file = file_of_step(*where);
    if (!file) return file.error();
    if (!file->empty()) return join_file(*file, request);
  }
  auto place = find_place(*where);
  if (!place) return place.error();
  const BootstrapRequest rest = carried ? rest_of(request, deadline) : request;
  return job.rank == 0 ? serve_and_meet(*place, rest) : meet(place->meeting, rest);
}

}  // namespace wreath
