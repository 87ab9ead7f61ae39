// A rail's rate is measured only while it has something to do.
#include "src/put/rail_shares.hpp"

#include <algorithm>

#include "src/base/clock.hpp"

namespace wreath {
namespace {

// The work of a rail counts half after so long, and not at all after the other time without any. Whatever holds up all
// rails, as a program that does something else, then weighs the same for each.
constexpr double kRememberedNs = 100.0 * kNsPerMs;
constexpr std::int64_t kForgottenNs = 1000 * kNsPerMs;

}  // namespace

// A rail that was held up once, by a packet that was lost, is tried again when that is forgotten.
double RailShares::Rail::rate(std::int64_t now_ns) const {
  const bool known = ns > 0 && (under_way > 0 || now_ns - since_ns <= kForgottenNs);
  return known ? bytes / ns : 0;
}

// A rail whose rate is not known counts as fast as the fastest, so that it is tried.
std::size_t RailShares::next(std::uint32_t bytes, std::uint32_t usable, std::int64_t now_ns) const {
  double fastest = 0;
  for (const Rail& rail : rails_) fastest = std::max(fastest, rail.rate(now_ns));
  if (fastest == 0) fastest = 1;
  std::size_t best = kMostRails;
  double least = 0;
  for (std::size_t i = 0; i < kMostRails; ++i) {
    if ((usable & 1U << i) == 0) continue;
    const double rate = rails_[i].rate(now_ns);
    const double ns = static_cast<double>(rails_[i].under_way + bytes) / (rate > 0 ? rate : fastest);
    if (best != kMostRails && ns >= least) continue;
    best = i;
    least = ns;
  }
  return best;
}

void RailShares::on_added(std::size_t rail, std::uint32_t bytes, std::int64_t now_ns) {
  if (bytes < kLeastMeasured) return;
  Rail& own = rails_[rail];
  if (own.under_way == 0) {
    if (now_ns - own.since_ns > kForgottenNs) own.bytes = own.ns = 0;
    own.since_ns = now_ns;
  }
  own.under_way += bytes;
}

void RailShares::on_ended(std::size_t rail, std::uint32_t bytes, std::int64_t now_ns) {
  if (bytes < kLeastMeasured) return;
  Rail& own = rails_[rail];
  const auto took = static_cast<double>(now_ns - own.since_ns);
  const double kept = kRememberedNs / (kRememberedNs + took);
  own.bytes = own.bytes * kept + bytes;
  own.ns = own.ns * kept + took;
  own.since_ns = now_ns;
  own.under_way -= bytes;
}

void RailShares::on_dropped(std::size_t rail, std::uint32_t bytes) {
  if (bytes >= kLeastMeasured) rails_[rail].under_way -= bytes;
}

}  // namespace wreath
