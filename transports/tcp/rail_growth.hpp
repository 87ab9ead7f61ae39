// Decides how many sockets a link between hosts uses where nobody named a number. While the link carries large messages
// it measures twice as many sockets beside those that it has, and keeps them where they gain. It only counts: times and
// bytes are given, and others open the sockets.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace wreath {

// A link has at most so many sockets that it took by itself.
inline constexpr std::size_t kMostGrownRails = 4;

// A link's large messages and rails at some time.
struct RailTraffic {
  std::int64_t now_ns = 0;
  std::size_t rails = 1;            // that work, and that both ends have
  std::uint64_t sent_bytes = 0;     // of large messages, since the link began
  std::uint64_t arrived_bytes = 0;  // of large messages that the peer has, as it said
  bool under_way = false;           // the peer has not said of all of them that it has them
};

// Compares a number of rails with twice as many. Windows of time take turns, and only time counts in which large
// messages are under way.
class RailTrial {
 public:
  static constexpr std::size_t kPairs = 7;

  // Takes note of the traffic, which went over as many rails as uses_more() said at the last call.
  void observe(const RailTraffic& traffic);
  // Says whether twice as many rails carry messages now. Each two windows are a pair, whose order changes, so that a
  // rate that rises or falls by itself says nothing.
  bool uses_more() const { return (window_ + 1) / 2 % 2 == 1; }
  bool done() const { return window_ == rates_.size(); }
  // Returns how many times as much the more rails have carried: the median of the pairs.
  double gain() const;
  // Returns whether the more rails are worth it: the gain is clear, and all pairs but one show some. Chance alone gives
  // this in fewer than one of sixteen trials.
  bool gains() const;

 private:
  std::array<double, kPairs> gains_of_pairs() const;

  std::array<double, 2 * kPairs> rates_{};  // bytes per ns, by window
  std::size_t window_ = 0;
  bool settled_ = false;  // the window is measured: its rails have found their rates
  std::int64_t busy_ns_ = 0;
  std::uint64_t first_byte_ = 0;
  std::int64_t last_ns_ = 0;
  bool under_way_ = false;
};

class RailGrowth {
 public:
  // Takes note of the traffic: often while it measures, and else now and then.
  void observe(const RailTraffic& traffic);
  bool measures() const { return phase_ == Phase::Measuring; }
  // Returns the number of rails that the link should have.
  std::size_t wants() const { return phase_ == Phase::Opening || measures() ? 2 * chosen_ : chosen_; }
  // Returns the number of rails that should carry messages.
  std::size_t uses() const { return measures() && trial_->uses_more() ? 2 * chosen_ : chosen_; }
  // Returns what was decided since the last call, in words; empty where nothing was.
  std::string take_news();

 private:
  enum class Phase { Watching, Opening, Measuring, Resting };

  void watch(const RailTraffic& traffic);
  void measure(const RailTraffic& traffic);
  void begin(Phase phase, std::int64_t now_ns);
  void rest(std::int64_t until_ns);

  Phase phase_ = Phase::Watching;
  std::size_t chosen_ = 1;
  std::int64_t since_ns_ = 0;  // the phase began; while it watches, the present second did
  std::int64_t until_ns_ = 0;  // it rests
  std::uint64_t first_byte_ = 0;
  int busy_seconds_ = 0;  // in a row
  bool said_none_came_ = false;
  std::optional<RailTrial> trial_;
  std::string news_;
};

}  // namespace wreath
