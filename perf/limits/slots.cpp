// Two threads move messages through rings of slots, with the kernels that the library fills and copies by.
#include "perf/limits/slots.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "kernels/kernels.hpp"
#include "perf/limits/machine.hpp"
#include "perf/limits/team.hpp"

namespace wreath::perf {
namespace {

constexpr std::size_t kLeastRing = std::size_t{64} << 10;
constexpr std::size_t kLargestRing = std::size_t{16} << 20;

// The memory that one thread owns and both reach.
struct End {
  explicit End(std::size_t bytes)
      : inputs{Pages(bytes), Pages(bytes)}, output(bytes), ring(std::max(kLargestRing, 2 * bytes)) {}
  std::array<Pages, 2> inputs;  // in turn, as in the perf tools
  Pages output;
  Pages ring;
  Flag filled;  // the messages that are in slots
  Flag taken;   // the messages that were copied out
};

// The messages of one thread.
class Slots {
 public:
  Slots(TeamMember& member, std::array<End, 2>& ends, std::size_t bytes)
      : own_(ends[static_cast<std::size_t>(member.rank())]),
        other_(ends[static_cast<std::size_t>(1 - member.rank())]),
        sends_first_(member.rank() == 0),
        bytes_(bytes) {}

  void use(std::size_t ring_bytes) { slots_ = ring_bytes / bytes_; }

  // Two slots are enough: message i of the other thread says that it has taken message i - 1.
  void both_ways() {
    const std::size_t at = next();
    fill(own_.ring.data() + at);
    take(other_.ring.data() + at);
  }
  // Two slots change hands with each message, so nobody waits for one.
  void hand_over() {
    const bool keeps = next() == 0;
    fill((keeps ? own_ : other_).ring.data());
    take((keeps ? other_ : own_).ring.data());
  }
  void one_way() {
    const std::size_t at = next();
    if (!sends_first_) {
      take(other_.ring.data() + at);
      return store_release(own_.taken.value, sequence_);
    }
    if (sequence_ > slots_) wait_for(other_.taken.value, sequence_ - slots_);
    fill(own_.ring.data() + at);
  }

  // Stores what the next message sends.
  void rewrite() {
    value_ = value_ % 100 + 1;
    std::memset(input(sequence_ + 1), value_of(sends_first_), bytes_);
  }
  // Does so for the next two messages, which send the same.
  void rewrite_both() {
    rewrite();
    std::memset(input(sequence_), value_of(sends_first_), bytes_);
  }
  bool is_right(bool both_ways) const {
    const std::byte* const output = own_.output.data();
    const bool takes = both_ways || !sends_first_;
    const auto expected = static_cast<std::byte>(value_of(!sends_first_));
    return !takes || std::all_of(output, output + bytes_, [&](std::byte each) { return each == expected; });
  }

 private:
  // Returns the byte that the first or the second thread sends.
  int value_of(bool first) const { return first ? value_ : value_ + 100; }
  std::byte* input(std::uint64_t sequence) const { return own_.inputs[sequence % 2].data(); }
  std::size_t next() { return ++sequence_ % slots_ * bytes_; }
  void fill(std::byte* slot) {
    copy_kernels().fill(slot, input(sequence_), bytes_);
    store_release(own_.filled.value, sequence_);
  }
  void take(const std::byte* slot) {
    wait_for(other_.filled.value, sequence_);
    copy_kernels().plain(own_.output.data(), slot, bytes_);
  }

  End& own_;
  End& other_;
  bool sends_first_;
  std::size_t bytes_;
  std::size_t slots_ = 2;
  std::uint64_t sequence_ = 0;
  int value_ = 0;
};

// Returns the median time of message(), with new inputs before each where `rewrite` says so.
template <typename Message>
double time_us(TeamMember& member, Slots& slots, bool rewrite, const Effort& effort, Message message) {
  slots.rewrite_both();
  if (!rewrite) return member.median_us(effort, message);
  return member.median_prepared_us(
      effort, [&] { slots.rewrite(); }, message);
}

// Runs body(member, slots) on two threads, and returns whether all that came out was right. body returns whether what
// came out is right on its thread.
template <typename Body>
bool run_slots(std::size_t bytes, Body body) {
  if (pick_cores(2).empty()) return false;
  std::array<End, 2> ends{End(bytes), End(bytes)};
  std::array<bool, 2> right{};
  run_team(2, [&](TeamMember& member) {
    Slots slots(member, ends, bytes);
    right[static_cast<std::size_t>(member.rank())] = body(member, slots);
  });
  return right[0] && right[1];
}

}  // namespace

std::vector<RingTime> slots_times(std::size_t bytes, bool both_ways, bool rewrite, const Effort& effort) {
  std::vector<RingTime> times;
  const bool right = run_slots(bytes, [&](TeamMember& member, Slots& slots) {
    bool all_right = true;
    const auto message = [&] { both_ways ? slots.both_ways() : slots.one_way(); };
    for (std::size_t ring = std::max(kLeastRing, 2 * bytes); ring <= std::max(kLargestRing, 2 * bytes); ring *= 2) {
      slots.use(ring);
      const double us = time_us(member, slots, rewrite, effort, message);
      all_right = all_right && slots.is_right(both_ways);
      member.barrier();
      if (member.rank() == 1) times.push_back({ring, us});
    }
    return all_right;
  });
  return right ? times : std::vector<RingTime>{};
}

double handed_over_us(std::size_t bytes, bool rewrite, const Effort& effort) {
  double us = kNotANumber;
  const bool right = run_slots(bytes, [&](TeamMember& member, Slots& slots) {
    const double mine = time_us(member, slots, rewrite, effort, [&] { slots.hand_over(); });
    if (member.rank() == 1) us = mine;
    return slots.is_right(true);
  });
  return right ? us : kNotANumber;
}

RingTime fastest_ring(const std::vector<RingTime>& times) {
  return times.empty() ? RingTime{} : *std::ranges::min_element(times, {}, &RingTime::us);
}

RingTime slowest_ring(const std::vector<RingTime>& times) {
  return times.empty() ? RingTime{} : *std::ranges::max_element(times, {}, &RingTime::us);
}

}  // namespace wreath::perf
