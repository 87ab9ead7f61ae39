// Ranks tell each other their clocks, and begin somewhat later than the latest of them.
#include "perf/common/common_start.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "perf/base/machine.hpp"

namespace wreath::perf {
namespace {

using Clock = CommonStart::Clock;

// All ranks know the instant before it comes. While they wait longer, the hypervisor disturbs more of them.
constexpr double kLeastWaitNs = 1e3;
constexpr double kMostWaitNs = 1e6;
// Ranks of longer calls write longer inputs between two of them.
constexpr Clock::duration kMostQuiet = std::chrono::microseconds(100);

double ns_of(Clock::duration duration) { return std::chrono::duration<double, std::nano>(duration).count(); }

void wait_until(Clock::time_point instant) {
  while (Clock::now() < instant) {
  }
}

}  // namespace

Result<bool> have_one_clock(Member& member) {
  const auto places = gather_text(member, fmt::format("{}\t{}", sched_getcpu(), host_name()));
  if (!places) return places.error();
  const auto host_of = [](const std::string& place) { return place.substr(place.find('\t')); };
  const bool one_host =
      std::ranges::all_of(*places, [&](const std::string& each) { return host_of(each) == host_of(places->front()); });
  return one_host && std::set(places->begin(), places->end()).size() == places->size();
}

Result<Clock::time_point> CommonStart::wait() {
  if (!one_clock_) {
    const auto one = have_one_clock(member_);
    if (!one) return one.error();
    one_clock_ = *one;
  }
  if (!*one_clock_) {
    WREATH_TRY(barrier(member_));
    return Clock::now();
  }
  const Clock::time_point called = Clock::now();
  if (started_) wait_until(called + std::min(called - *started_, kMostQuiet));
  const Clock::time_point entered = Clock::now();
  const auto all = gather(member_, std::vector{ns_of(entered.time_since_epoch()), meeting_ns_});
  if (!all) return all.error();
  meeting_ns_ = ns_of(Clock::now() - entered);
  double latest_ns = 0;
  double longest_ns = kLeastWaitNs;
  for (std::size_t i = 0; i < all->size(); i += 2) {
    latest_ns = std::max(latest_ns, (*all)[i]);
    longest_ns = std::max(longest_ns, (*all)[i + 1]);
  }
  // All clocks lie so close to this rank's that their differences are exact.
  const double left_ns = latest_ns - ns_of(entered.time_since_epoch()) + std::min(longest_ns, kMostWaitNs);
  const Clock::time_point start = entered + std::chrono::nanoseconds(std::llround(left_ns));
  wait_until(start);
  started_ = start;
  return start;
}

}  // namespace wreath::perf
