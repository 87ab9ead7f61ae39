// Joining clocks is the expensive part of verify(), so equal snapshots are joined once.
#include "src/schedule/clocks.hpp"

#include <algorithm>

namespace wreath {
namespace {

// Clocks are whole blocks of entries, which a compiler joins by vectors.
constexpr std::size_t kBlock = 8;

void join_entries(std::uint32_t* __restrict mine, const std::uint32_t* __restrict theirs, std::size_t count) {
  for (std::size_t block = 0; block < count; block += kBlock) {
    for (std::size_t i = block; i < block + kBlock; ++i) mine[i] = std::max(mine[i], theirs[i]);
  }
}

}  // namespace

Clocks::Clocks(const Machine& machine) : joined_(machine.fifos().size(), 0) {
  std::vector<std::uint32_t> width(machine.data_lanes(), 0);
  for (const MachineLane& lane : machine.lanes()) {
    lanes_.push_back({.entry = width[lane.data_lane]++, .data_lane = lane.data_lane});
  }
  width_ = (*std::max_element(width.begin(), width.end()) + kBlock - 1) / kBlock * kBlock;
  // Snapshot 0 has heard of nothing.
  snapshots_.push_back({.users = static_cast<std::uint32_t>(lanes_.size()) + 1, .serial = 0});
  entries_.resize(width_);
}

void Clocks::make_private(LaneClock& lane) {
  if (snapshots_[lane.snapshot].users > 1) {
    std::uint32_t copy = 0;
    if (free_.empty()) {
      copy = static_cast<std::uint32_t>(snapshots_.size());
      snapshots_.push_back({});
      entries_.resize(entries_.size() + width_);
    } else {
      copy = free_.back();
      free_.pop_back();
    }
    std::copy_n(entries(lane.snapshot), width_, entries(copy));
    drop(lane.snapshot);
    snapshots_[copy].users = 1;
    lane.snapshot = copy;
  }
  snapshots_[lane.snapshot].serial = ++serial_;
}

void Clocks::join(std::uint32_t id, const Stamp& stamp, std::uint32_t fifo) {
  LaneClock& lane = lanes_[id];
  const LaneClock& sender = lanes_[stamp.lane];
  if (lane.data_lane != sender.data_lane) return;
  const std::uint64_t serial = snapshots_[stamp.snapshot].serial;
  make_private(lane);
  std::uint32_t* const mine = entries(lane.snapshot);
  if (joined_[fifo] != serial) {
    joined_[fifo] = serial;
    // The sender's clock never is this one, which nobody else uses.
    join_entries(mine, entries(stamp.snapshot), width_);
  }
  mine[sender.entry] = std::max(mine[sender.entry], stamp.epoch);
}

}  // namespace wreath
