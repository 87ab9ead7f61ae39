// Places ranks on hosts (see hosts.hpp).
#include "tools/run/hosts.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>

#include "src/base/socket.hpp"

namespace wreath::launcher {
namespace {

constexpr int kMostSlots = 4096;

Error refuse(std::string_view what, std::string_view why) {
  return {ErrorCode::InvalidArgument, fmt::format("{}: {}", what, why)};
}

bool read_slots(std::string_view text, int& slots) {
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, slots);
  return read.ec == std::errc() && read.ptr == end && slots >= 1 && slots <= kMostSlots;
}

// Parses "name", "name:4" or "[address]:4". An address with several colons and no brackets has no slots.
Result<Host> parse_host(std::string_view text) {
  Host host;
  std::string_view slots;
  if (text.starts_with('[')) {
    const std::size_t close = text.find(']');
    if (close == std::string_view::npos) return refuse(text, "there is no ] in it");
    host.name = text.substr(1, close - 1);
    slots = text.substr(close + 1);
  } else if (std::count(text.begin(), text.end(), ':') <= 1) {
    host.name = text.substr(0, text.find(':'));
    slots = text.substr(host.name.size());
  } else {
    host.name = text;
  }
  // Refuses a name that begins with a dash, since ssh would take it for an option.
  if (host.name.empty() || host.name.front() == '-')
    return refuse(fmt::format("'{}'", text), "this is no name of a host");
  if (!slots.empty() && (slots.front() != ':' || !read_slots(slots.substr(1), host.slots)))
    return refuse(text, fmt::format("slots are a number from 1 to {}, as in {}:4", kMostSlots, host.name));
  return host;
}

Status add(std::vector<Host>& hosts, Host host) {
  const bool twice =
      std::any_of(hosts.begin(), hosts.end(), [&](const Host& other) { return other.name == host.name; });
  if (twice) return refuse(host.name, fmt::format("this host comes twice; {}:2 puts two ranks there", host.name));
  hosts.push_back(std::move(host));
  return {};
}

bool slotted(const std::vector<Host>& hosts) {
  return std::any_of(hosts.begin(), hosts.end(), [](const Host& host) { return host.slots > 0; });
}

// Returns the slots of all hosts. Where any host states its slots, a host without a number has one.
int slots_of(const std::vector<Host>& hosts) {
  int slots = 0;
  for (const Host& host : hosts) slots += std::max(host.slots, 1);
  return slots;
}

}  // namespace

Result<std::vector<Host>> parse_hosts(std::string_view text) {
  std::vector<Host> hosts;
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), one.size() + 1));
    auto host = parse_host(one);
    if (!host) return host.error();
    WREATH_TRY(add(hosts, std::move(*host)));
  }
  if (hosts.empty()) return refuse("--hosts", "there is no host in it");
  return hosts;
}

Result<std::vector<Host>> parse_hostfile(std::string_view text, std::string_view path) {
  std::vector<Host> hosts;
  std::istringstream lines{std::string(text)};
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream words(line.substr(0, line.find('#')));
    std::string name;
    if (!(words >> name)) continue;
    auto host = parse_host(name);
    if (!host) return refuse(fmt::format("{}:{}", path, number), host.error().message);
    for (std::string word; words >> word;) {
      if (word.starts_with("slots=") && read_slots(std::string_view(word).substr(6), host->slots)) continue;
      return refuse(fmt::format("{}:{}", path, number), fmt::format("'{}' is not slots=NUMBER", word));
    }
    if (const Status added = add(hosts, std::move(*host)); !added)
      return refuse(fmt::format("{}:{}", path, number), added.error().message);
  }
  if (hosts.empty()) return refuse(path, "there is no host in it");
  return hosts;
}

Result<std::vector<Placement>> place(const std::vector<Host>& hosts, int ranks) {
  const bool by_slots = slotted(hosts);
  const int slots = slots_of(hosts);
  if (ranks == 0 && !by_slots) return refuse("-n", "how many ranks? Give -n, or slots as in --hosts a:4,b:4");
  if (ranks == 0) ranks = slots;
  if (by_slots && ranks > slots)
    return refuse(fmt::format("-n {}", ranks), fmt::format("the hosts have {} slots; --hosts {}:{} has more", slots,
                                                           hosts.front().name, hosts.front().slots + ranks - slots));
  std::vector<Placement> placed;
  int next = 0;
  const int count = static_cast<int>(hosts.size());
  for (int i = 0; i < count; ++i) {
    const Host& host = hosts[static_cast<std::size_t>(i)];
    const int even = ranks / count + (i < ranks % count ? 1 : 0);
    Placement one{host.name, {}};
    for (int left = by_slots ? std::max(host.slots, 1) : even; left > 0 && next < ranks; --left)
      one.ranks.push_back(next++);
    if (!one.ranks.empty()) placed.push_back(std::move(one));
  }
  return placed;
}

Size fitting(const std::vector<Host>& hosts, Size wished) {
  if (!slotted(hosts)) return hosts.empty() ? Size{} : wished;
  const int slots = slots_of(hosts);
  const int ranks = std::min(wished.ranks, slots);
  return {ranks, std::min(wished.spares, slots - ranks)};
}

bool has_room(const std::vector<Host>& hosts, const std::string& name, int running) {
  if (!slotted(hosts)) return true;
  const auto host = std::find_if(hosts.begin(), hosts.end(), [&](const Host& one) { return one.name == name; });
  return host != hosts.end() && running < std::max(host->slots, 1);
}

bool is_here(const std::string& name) {
  std::array<char, 256> own{};
  (void)::gethostname(own.data(), own.size() - 1);
  if (name == "localhost" || name == own.data()) return true;
  const auto addresses = resolve(name, 0);
  return addresses && std::any_of(addresses->begin(), addresses->end(), is_local);
}

void mark_here(std::vector<Placement>& placements) {
  for (Placement& placement : placements) placement.here = is_here(placement.host);
}

}  // namespace wreath::launcher
