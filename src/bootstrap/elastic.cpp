// Reads the elastic job of this process from the environment.
#include <fmt/format.h>

#include <algorithm>

#include "src/base/config.hpp"
#include "src/bootstrap/interfaces.hpp"
#include "wreath/environment.hpp"

namespace wreath {
namespace {

// Returns the address of the interface that the user names. Without such a name, it is of the interface that leads to
// the address where the job's first ranks met.
Result<std::string> own_address() {
  const std::string hosts = setting_text(Setting::Address);
  if (hosts.empty()) return std::string();
  const auto addresses = addresses_of_host(hosts.substr(0, hosts.find(',')), 1);
  if (!addresses) return addresses.error();
  if (addresses->empty()) return std::string();
  const auto reachable = std::ranges::find_if_not(*addresses, &SocketAddress::is_loopback);
  const SocketAddress& met_at = reachable == addresses->end() ? addresses->front() : *reachable;
  if (is_set(Setting::SocketInterface)) {
    const auto chosen = chosen_addresses(interfaces(), met_at.family());
    if (!chosen) return chosen.error();
    if (!chosen->empty()) return chosen->front().ip_text();
  }
  const std::string way = way_to(met_at);
  return way.substr(0, way.find(' '));
}

}  // namespace

Result<std::optional<ElasticJob>> elastic_job() {
  if (!is_set(Setting::ElasticFolder)) return std::optional<ElasticJob>();
  if (!is_set(Setting::MaxRanks)) {
    return Error{ErrorCode::InvalidArgument, fmt::format("{} is not set, but {} is", row(Setting::MaxRanks).name,
                                                         row(Setting::ElasticFolder).name)};
  }
  ElasticJob job;
  job.folder = setting_text(Setting::ElasticFolder);
  WREATH_TRY(read_setting(Setting::MinRanks, job.min_ranks));
  WREATH_TRY(read_setting(Setting::MaxRanks, job.max_ranks));
  WREATH_TRY(read_setting(Setting::SpareRanks, job.spares));
  if (is_set(Setting::JoinNumber)) WREATH_TRY(read_setting(Setting::JoinNumber, job.joiner));
  if (job.min_ranks > job.max_ranks) {
    return Error{ErrorCode::InvalidArgument,
                 fmt::format("WREATH_MIN_RANKS={} is more than WREATH_MAX_RANKS={}", job.min_ranks, job.max_ranks)};
  }
  auto address = own_address();
  if (!address) return address.error();
  job.address = std::move(*address);
  return std::optional(std::move(job));
}

}  // namespace wreath
