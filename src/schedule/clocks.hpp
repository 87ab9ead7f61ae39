// Happens-before between lanes is kept in vector clocks that travel with messages.
#pragma once

#include <cstdint>
#include <vector>

#include "src/schedule/machine.hpp"

namespace wreath {

// A point in a lane's program, with all that the lane had heard of by then.
struct Stamp {
  std::uint32_t lane = 0;
  std::uint32_t epoch = 0;
  std::uint32_t snapshot = 0;  // counted: release() gives it back
};

// A clock per lane, with an entry per lane of the same data lane. Messages between data lanes carry no clock. Data
// lanes share no memory, and fewer edges only make the check stricter. Clocks are shared with the messages that carry
// them, and copied when they change.
class Clocks {
 public:
  explicit Clocks(const Machine& machine);

  // Starts the next event of `lane`. Its epoch names the event.
  std::uint32_t tick(std::uint32_t lane) { return ++lanes_[lane].epoch; }
  std::uint32_t epoch(std::uint32_t lane) const { return lanes_[lane].epoch; }

  // Returns the stamp that a message sent now carries.
  Stamp stamp(std::uint32_t lane) {
    ++snapshots_[lanes_[lane].snapshot].users;
    return {lane, lanes_[lane].epoch, lanes_[lane].snapshot};
  }
  // Joins the clock of `lane` with the stamp of a message that came through `fifo`.
  void join(std::uint32_t lane, const Stamp& stamp, std::uint32_t fifo);
  void release(const Stamp& stamp) { drop(stamp.snapshot); }

  // Returns whether event `epoch` of `other` is over for everything that `lane` does now.
  bool ordered(std::uint32_t lane, std::uint32_t other, std::uint32_t epoch) const {
    if (lane == other) return true;
    if (lanes_[lane].data_lane != lanes_[other].data_lane) return false;
    return entries(lanes_[lane].snapshot)[lanes_[other].entry] >= epoch;
  }

 private:
  struct LaneClock {
    std::uint32_t epoch = 0;
    std::uint32_t snapshot = 0;
    // The place of this lane in the clocks of its data lane.
    std::uint32_t entry = 0;
    std::uint16_t data_lane = 0;
  };
  struct Snapshot {
    std::uint32_t users = 0;
    std::uint64_t serial = 0;  // names its contents
  };
  std::uint32_t* entries(std::uint32_t snapshot) { return &entries_[std::size_t{snapshot} * width_]; }
  const std::uint32_t* entries(std::uint32_t snapshot) const { return &entries_[std::size_t{snapshot} * width_]; }
  void drop(std::uint32_t snapshot) {
    if (--snapshots_[snapshot].users == 0) free_.push_back(snapshot);
  }
  void make_private(LaneClock& lane);

  std::size_t width_ = 0;
  std::vector<LaneClock> lanes_;
  std::vector<std::uint64_t> joined_;  // by FIFO: last joined snapshot's serial
  std::vector<Snapshot> snapshots_;
  std::vector<std::uint32_t> entries_;
  std::vector<std::uint32_t> free_;
  std::uint64_t serial_ = 0;
};

}  // namespace wreath
