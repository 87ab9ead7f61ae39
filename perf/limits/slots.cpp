// Two threads move messages through rings of slots, with the kernels that the library fills and copies by.
#include "perf/limits/slots.hpp"

#include <algorithm>
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
  explicit End(std::size_t bytes) : input(bytes), output(bytes), ring(std::max(kLargestRing, 2 * bytes)) {}
  Pages input;
  Pages output;
  Pages ring;
  Flag filled;  // the messages that are in slots
  Flag taken;   // the messages that were copied out
};

// The messages of one thread.
class Slots {
 public:
  Slots(TeamMember& member, std::vector<End>& ends, std::size_t bytes)
      : own_(ends[static_cast<std::size_t>(member.rank())]),
        other_(ends[static_cast<std::size_t>(1 - member.rank())]),
        sends_first_(member.rank() == 0),
        bytes_(bytes) {}

  void use(std::size_t ring_bytes) { slots_ = ring_bytes / bytes_; }

  // Two slots are enough: message i of the other thread says that it has taken message i - 1.
  void both_ways() {
    const std::size_t at = next();
    fill(at);
    take(at);
  }
  void one_way() {
    const std::size_t at = next();
    if (!sends_first_) {
      take(at);
      return store_release(own_.taken.value, sequence_);
    }
    if (sequence_ > slots_) wait_for(other_.taken.value, sequence_ - slots_);
    fill(at);
  }

  // Stores an input that is the same on both threads.
  void rewrite() {
    value_ = value_ % 100 + 1;
    std::memset(own_.input.data(), value_, bytes_);
  }
  bool is_right(bool both_ways) const {
    const std::byte* const output = own_.output.data();
    const bool takes = both_ways || !sends_first_;
    return !takes || std::all_of(output, output + bytes_, [&](std::byte each) { return each == std::byte(value_); });
  }

 private:
  std::size_t next() { return ++sequence_ % slots_ * bytes_; }
  void fill(std::size_t at) {
    copy_kernels().fill(own_.ring.data() + at, own_.input.data(), bytes_);
    store_release(own_.filled.value, sequence_);
  }
  void take(std::size_t at) {
    wait_for(other_.filled.value, sequence_);
    copy_kernels().plain(own_.output.data(), other_.ring.data() + at, bytes_);
  }

  End& own_;
  End& other_;
  bool sends_first_;
  std::size_t bytes_;
  std::size_t slots_ = 2;
  std::uint64_t sequence_ = 0;
  int value_ = 0;
};

}  // namespace

std::vector<RingTime> slots_times(std::size_t bytes, bool both_ways, bool rewrite, const Effort& effort) {
  if (pick_cores(2).empty()) return {};
  std::vector<End> ends;
  for (int i = 0; i < 2; ++i) ends.emplace_back(bytes);
  std::vector<RingTime> times;
  bool right[2] = {true, true};
  run_team(2, [&](TeamMember& member) {
    Slots slots(member, ends, bytes);
    const auto message = [&] { both_ways ? slots.both_ways() : slots.one_way(); };
    for (std::size_t ring = std::max(kLeastRing, 2 * bytes); ring <= std::max(kLargestRing, 2 * bytes); ring *= 2) {
      slots.use(ring);
      slots.rewrite();
      const double us = rewrite ? member.median_prepared_us(
                                      effort, [&] { slots.rewrite(); }, message)
                                : member.median_us(effort, message);
      right[member.rank()] = right[member.rank()] && slots.is_right(both_ways);
      member.barrier();
      if (member.rank() == 1) times.push_back({ring, us});
    }
  });
  return right[0] && right[1] ? times : std::vector<RingTime>{};
}

RingTime fastest_ring(const std::vector<RingTime>& times) {
  return times.empty() ? RingTime{} : *std::ranges::min_element(times, {}, &RingTime::us);
}

RingTime slowest_ring(const std::vector<RingTime>& times) {
  return times.empty() ? RingTime{} : *std::ranges::max_element(times, {}, &RingTime::us);
}

}  // namespace wreath::perf
