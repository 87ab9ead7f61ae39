// Counts in windows: see rail_growth.hpp.
#include "transports/tcp/rail_growth.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "src/base/clock.hpp"

namespace wreath {
namespace {

constexpr std::int64_t kSecondNs = 1000 * kNsPerMs;
// A link that sends so much in each of two seconds is worth a trial.
constexpr std::uint64_t kBusySecondBytes = std::uint64_t{1} << 20;
constexpr int kBusySeconds = 2;
// Sockets must have been opened, and a trial must be over, in so long.
constexpr std::int64_t kOpeningNs = 15 * kSecondNs;
constexpr std::int64_t kLongestTrialNs = 120 * kSecondNs;
// The next trial comes so long after one that had no result, and after one without a gain.
constexpr std::int64_t kShortRestNs = 60 * kSecondNs;
constexpr std::int64_t kLongRestNs = 600 * kSecondNs;

// A socket that was idle begins slowly, and what others hold must arrive first.
constexpr std::int64_t kSettleNs = 100 * kNsPerMs;
// A window is so long, and longer where less has arrived in it.
constexpr std::int64_t kWindowNs = 150 * kNsPerMs;
constexpr std::uint64_t kWindowBytes = std::uint64_t{4} << 20;
constexpr std::int64_t kLongestWindowNs = kSecondNs;

constexpr double kLeastGain = 1.15;

}  // namespace

void RailTrial::observe(const RailTraffic& traffic) {
  const bool was_under_way = std::exchange(under_way_, traffic.under_way);
  const std::int64_t before_ns = std::exchange(last_ns_, traffic.now_ns);
  if (done() || !was_under_way) return;
  busy_ns_ += traffic.now_ns - before_ns;
  if (!settled_) {
    if (busy_ns_ < kSettleNs) return;
    settled_ = true;
    busy_ns_ = 0;
    first_byte_ = traffic.arrived_bytes;
    return;
  }
  const std::uint64_t bytes = traffic.arrived_bytes - first_byte_;
  if (busy_ns_ < kWindowNs || (bytes < kWindowBytes && busy_ns_ < kLongestWindowNs)) return;
  rates_[window_++] = static_cast<double>(bytes) / static_cast<double>(busy_ns_);
  settled_ = false;
  busy_ns_ = 0;
}

// Returns the gains in rising order. A pair in which nothing arrived says that there is none.
std::array<double, RailTrial::kPairs> RailTrial::gains_of_pairs() const {
  std::array<double, kPairs> gains{};
  for (std::size_t pair = 0; pair < kPairs; ++pair) {
    double fewer = rates_[2 * pair];
    double more = rates_[2 * pair + 1];
    if (pair % 2 == 1) std::swap(fewer, more);
    gains[pair] = fewer > 0 ? more / fewer : 1;
  }
  std::ranges::sort(gains);
  return gains;
}

double RailTrial::gain() const { return gains_of_pairs()[kPairs / 2]; }

bool RailTrial::gains() const {
  const auto gains = gains_of_pairs();
  return gains[kPairs / 2] >= kLeastGain && gains[1] > 1;
}

void RailGrowth::observe(const RailTraffic& traffic) {
  switch (phase_) {
    case Phase::Watching: watch(traffic); break;
    case Phase::Opening:
      if (traffic.rails >= wants()) {
        begin(Phase::Measuring, traffic.now_ns);
        trial_.emplace();
      } else if (traffic.now_ns - since_ns_ >= kOpeningNs) {
        if (!std::exchange(said_none_came_, true)) {
          news_ = fmt::format("no further socket could be opened within {} s: it stays with {}", kOpeningNs / kSecondNs,
                              chosen_);
        }
        rest(traffic.now_ns + kLongRestNs);
      }
      break;
    case Phase::Measuring: measure(traffic); break;
    case Phase::Resting:
      if (traffic.now_ns >= until_ns_) begin(Phase::Watching, traffic.now_ns);
      break;
  }
}

// Waits for seconds that carry large messages.
void RailGrowth::watch(const RailTraffic& traffic) {
  if (since_ns_ != 0 && traffic.now_ns - since_ns_ < kSecondNs) return;
  // Nobody may have looked for longer than a second, and then the rate counts.
  const double seconds = static_cast<double>(traffic.now_ns - since_ns_) / static_cast<double>(kSecondNs);
  const auto least = static_cast<double>(kBusySecondBytes) * seconds;
  const bool busy = since_ns_ != 0 && static_cast<double>(traffic.sent_bytes - first_byte_) >= least;
  busy_seconds_ = busy ? busy_seconds_ + 1 : 0;
  since_ns_ = traffic.now_ns;
  first_byte_ = traffic.sent_bytes;
  if (busy_seconds_ >= kBusySeconds && 2 * chosen_ <= kMostGrownRails) begin(Phase::Opening, traffic.now_ns);
}

void RailGrowth::measure(const RailTraffic& traffic) {
  if (traffic.rails < wants() || traffic.now_ns - since_ns_ >= kLongestTrialNs) {
    return rest(traffic.now_ns + kShortRestNs);
  }
  trial_->observe(traffic);
  if (!trial_->done()) return;
  const std::string measured =
      fmt::format("{} sockets carried {:.2f} times as much as {}", 2 * chosen_, trial_->gain(), chosen_);
  if (trial_->gains()) {
    chosen_ *= 2;
    news_ = fmt::format("{}: it uses {} from now on", measured, chosen_);
    begin(Phase::Watching, traffic.now_ns);
  } else {
    news_ = fmt::format("{}: it stays with {}", measured, chosen_);
    rest(traffic.now_ns + kLongRestNs);
  }
}

void RailGrowth::begin(Phase phase, std::int64_t now_ns) {
  phase_ = phase;
  // The first second begins when somebody looks next.
  since_ns_ = phase == Phase::Watching ? 0 : now_ns;
  busy_seconds_ = 0;
  trial_.reset();
}

void RailGrowth::rest(std::int64_t until_ns) {
  begin(Phase::Resting, until_ns);
  until_ns_ = until_ns;
}

std::string RailGrowth::take_news() { return std::exchange(news_, {}); }

}  // namespace wreath
