// A rail's rate is measured only while it has something to do.
#include "src/put/rail_shares.hpp"

#include <algorithm>

namespace wreath {
namespace {

// What a rail did counts half after so many bytes more.
constexpr double kRemembered = 4.0 * 1024 * 1024;

}  // namespace

// A rail that has carried nothing yet counts as fast as the fastest, so that it is tried.
std::size_t RailShares::next(std::uint32_t bytes, std::uint32_t usable) const {
  double fastest = 0;
  for (const Rail& rail : rails_) fastest = std::max(fastest, rail.ns > 0 ? rail.bytes / rail.ns : 0);
  if (fastest == 0) fastest = 1;
  std::size_t best = kMostRails;
  double least = 0;
  for (std::size_t i = 0; i < kMostRails; ++i) {
    if ((usable & 1U << i) == 0) continue;
    const double rate = rails_[i].ns > 0 && rails_[i].bytes > 0 ? rails_[i].bytes / rails_[i].ns : fastest;
    const double ns = static_cast<double>(rails_[i].under_way + bytes) / rate;
    if (best != kMostRails && ns >= least) continue;
    best = i;
    least = ns;
  }
  return best;
}

void RailShares::on_added(std::size_t rail, std::uint32_t bytes, std::int64_t now_ns) {
  Rail& own = rails_[rail];
  if (own.under_way == 0) own.since_ns = now_ns;
  own.under_way += bytes;
}

void RailShares::on_ended(std::size_t rail, std::uint32_t bytes, std::int64_t now_ns) {
  Rail& own = rails_[rail];
  const double kept = kRemembered / (kRemembered + bytes);
  own.bytes = own.bytes * kept + bytes;
  own.ns = own.ns * kept + static_cast<double>(now_ns - own.since_ns);
  own.since_ns = now_ns;
  own.under_way -= bytes;
}

}  // namespace wreath
