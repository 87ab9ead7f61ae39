// Derives words for ssh and variables for ranks from a request.
#include "tools/run/plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>

#include "src/base/config.hpp"
#include "src/base/random.hpp"
#include "src/base/socket.hpp"
#include "src/bootstrap/interfaces.hpp"

namespace wreath::launcher {
namespace {

// The ports of jobs, which are below the ephemeral ones. Each job has 16 ports, the last one for programs that want
// MASTER_PORT.
constexpr unsigned kFirstPort = 20'480;
constexpr unsigned kPortBlocks = 512;
constexpr unsigned kPortsOfJob = 16;

std::string random_hex(std::size_t bytes) {
  std::string text;
  std::vector<std::byte> random(bytes);
  fill_random(random);
  for (const std::byte each : random) text += fmt::format("{:02x}", std::to_integer<unsigned>(each));
  return text;
}

// Returns the "NAME=value" of this process's environment; empty: it is not set.
std::string own_variable(std::string_view name) {
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (text.substr(0, text.find('=')) == name) return std::string(text);
  }
  return {};
}

bool passed_to_other_hosts(std::string_view name) {
  constexpr std::array<std::string_view, 3> kNames{"PATH", "LD_LIBRARY_PATH", "NO_COLOR"};
  return name.starts_with("WREATH_") || name.starts_with("NCCL_") ||
         std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

// Returns the address at which ranks of other hosts find rank 0. Its name is resolved on this host, since on its own
// host a name may mean the loopback address. Where rank 0 is here, these are addresses of this host that others can
// reach.
Result<std::string> address_of_rank_zero(const Plan& plan) {
  if (!plan.address.empty()) return plan.address;
  // ssh takes a user before the host.
  const std::string& named = plan.placements.front().host;
  const std::string host = named.substr(named.rfind('@') + 1);
  std::vector<std::string> texts;
  if (plan.placements.front().here) {
    const auto own = chosen_addresses(interfaces(), AF_INET);
    if (!own) return own.error();
    // Other hosts have other interfaces, so the address has no zone.
    for (const SocketAddress& one : *own) texts.push_back(one.with_zone(0).ip_text());
    if (texts.empty()) texts.emplace_back("127.0.0.1");
  } else if (const auto addresses = resolve(host, 0)) {
    for (const SocketAddress& address : *addresses) texts.push_back(address.ip_text());
  } else {
    texts.push_back(host);
  }
  return fmt::format("{}", fmt::join(texts, ","));
}

std::vector<std::string> elastic_variables(const Elasticity& elastic, const std::string& folder) {
  return {"WREATH_ELASTIC=" + folder, fmt::format("WREATH_MIN_RANKS={}", elastic.min_ranks),
          fmt::format("WREATH_MAX_RANKS={}", elastic.max_ranks), fmt::format("WREATH_SPARES={}", elastic.size.spares)};
}

}  // namespace

int ranks_of(const Plan& plan) {
  int ranks = 0;
  for (const Placement& placement : plan.placements) ranks += static_cast<int>(placement.ranks.size());
  return ranks;
}

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  bool begun = false;
  char quote = 0;
  for (const char c : text) {
    if (quote != 0) {
      if (c == quote)
        quote = 0;
      else
        word += c;
    } else if (c == '\'' || c == '"') {
      quote = c;
      begun = true;
    } else if (c == ' ' || c == '\t') {
      if (begun) words.push_back(std::exchange(word, {}));
      begun = false;
    } else {
      word += c;
      begun = true;
    }
  }
  if (quote != 0) return {};
  if (begun) words.push_back(word);
  return words;
}

std::string quote(std::string_view word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

Result<JobEnvironment> job_environment(const Plan& plan, const std::string& elastic_folder) {
  JobEnvironment result;
  result.elastic_folder = elastic_folder;
  if (plan.elastic) result.all = elastic_variables(*plan.elastic, elastic_folder);
  const std::string random = random_hex(32);
  if (random.empty()) return Error{ErrorCode::System, "this system gives no random bytes"};
  const bool one_host = plan.placements.size() == 1 && plan.placements.front().here;
  const unsigned block = static_cast<unsigned>(::getpid()) % kPortBlocks;
  const unsigned port = kFirstPort + block * kPortsOfJob;
  std::string address = "127.0.0.1";
  result.meeting = "over UNIX sockets of this host";
  if (!one_host) {
    auto found = address_of_rank_zero(plan);
    if (!found) return found.error();
    address = *found;
    result.all.push_back("WREATH_ADDRESS=" + address);
    if (!is_set(Setting::Port)) result.all.push_back(fmt::format("WREATH_PORT={}-{}", port, port + kPortsOfJob - 2));
    result.meeting = fmt::format("at {}, {}", address, is_set(Setting::Port) ? "WREATH_PORT" : result.all.back());
  }
  result.all.push_back("WREATH_JOB=" + random_hex(8));
  result.all.push_back("MASTER_ADDR=" + address.substr(0, address.find(',')));
  result.all.push_back(fmt::format("MASTER_PORT={}", port + kPortsOfJob - 1));
  result.key_source = is_set(Setting::KeyFile) ? "WREATH_KEY_FILE" : is_set(Setting::Key) ? "WREATH_KEY" : "";
  if (result.key_source.empty()) {
    result.key_source = "made for this job";
    result.all.push_back("WREATH_KEY=" + random);
  }
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (passed_to_other_hosts(text.substr(0, text.find('=')))) result.remote.emplace_back(text);
  }
  for (const std::string& wish : plan.environment) {
    const std::string variable = wish.find('=') == std::string::npos ? own_variable(wish) : wish;
    if (!variable.empty()) result.all.push_back(variable);
  }
  return result;
}

HostJob host_job(const Plan& plan, const Placement& placement, const JobEnvironment& environment, bool here) {
  HostJob job;
  job.ranks = placement.ranks;
  job.all_ranks = ranks_of(plan);
  job.command = plan.command;
  job.bind = plan.bind;
  job.elastic_folder = environment.elastic_folder;
  job.unset = {"TORCHELASTIC_USE_AGENT_STORE",
               "WREATH_FILE",
               "WREATH_ADDRESS",
               "WREATH_ELASTIC",
               "WREATH_MIN_RANKS",
               "WREATH_MAX_RANKS",
               "WREATH_SPARES",
               "WREATH_JOIN"};
  if (!here) {
    std::error_code ignored;
    job.folder = std::filesystem::current_path(ignored).string();
    job.environment = environment.remote;
    std::erase_if(job.environment, [&](const std::string& entry) {
      return std::find(job.unset.begin(), job.unset.end(), entry.substr(0, entry.find('='))) != job.unset.end();
    });
  }
  for (const std::string& entry : environment.all) {
    const std::string name = entry.substr(0, entry.find('=') + 1);
    std::erase_if(job.environment, [&](const std::string& other) { return other.starts_with(name); });
    job.environment.push_back(entry);
  }
  return job;
}

}  // namespace wreath::launcher
