// The tests' double of a wire whose adapter reads and writes memory by itself. Messages go over tcp. The test says when
// the adapter stops, which words the ends say, and sees the sleeps.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "src/base/clock.hpp"
#include "wreath/transport.hpp"

namespace wreath::test {

// The test's side of the wires of one rank.
class DoubleAdapter {
 public:
  static constexpr std::int64_t kNever = -1;
  // stop() returns true once so much time has passed since its first call.
  void stop_after_ms(std::int64_t ms) { stop_after_ms_ = ms; }
  bool stop();
  bool stopped() const { return stopped_; }

  // The next words to the peer.
  void say(const std::string& text);
  std::optional<Offer> take_word();
  // Answers each word that is heard; an error refuses it.
  void on_word(std::function<Status(const std::string& text)> answer);
  Status hear(const Offer& word);
  std::vector<std::string> heard() const;
  // Waits up to 10 s for `count` words.
  bool has_heard(std::size_t count) const;

  // progress() sends so often in vain.
  std::atomic<int> blocked_rounds{0};
  // progress() must be called so often, since what the wire took goes on only then.
  std::atomic<int> needed_rounds{0};
  // Counts the calls of progress(), and how often it was asked for the need of them.
  std::atomic<std::uint64_t> rounds{0};
  std::atomic<std::uint64_t> questions{0};
  // progress() finds that the peer has closed the wire.
  std::atomic<bool> ended{false};
  // Says whether the ends say words to each other. It is set before ranks link.
  std::atomic<bool> speaks{true};
  // Counts the answers of arm() after which the thread may sleep, and the rings of the armed descriptor.
  std::atomic<std::uint64_t> sleeps{0};
  std::atomic<std::uint64_t> rings{0};
  // The most microseconds between a message's coming and its ring.
  std::atomic<int> ring_delay_us{0};

 private:
  std::atomic<std::int64_t> stop_after_ms_{0};
  std::atomic<std::int64_t> stop_asked_ns_{0};
  std::atomic<bool> stopped_{false};
  mutable std::mutex mutex_;
  std::deque<std::string> to_say_;
  std::vector<std::string> heard_;
  std::function<Status(const std::string& text)> answer_;
};

// Returns the adapter of a rank, for the communicators that are made until reset_adapters().
DoubleAdapter& adapter_of(int rank);
// Makes new adapters. Wires that live on keep theirs.
void reset_adapters();

Result<std::unique_ptr<Transport>> make_double(const TransportContext& context);

}  // namespace wreath::test
