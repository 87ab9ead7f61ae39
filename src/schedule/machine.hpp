// The engine that verify() and simulate() share. It links the lowered steps of all ranks by FIFOs of K slots, and makes
// one greedy run over them.
//
// Every FIFO has one producer and one consumer, and no step waits on "any", so the steps form a marked graph. Firing
// one step never disables another, so one greedy run decides deadlock for every interleaving. A step whose chunks have
// no elements in a tile does nothing there, so ranks may differ in their tiles. The run moves tokens only. Hooks give
// them a meaning: values and clocks for verify, time for simulate.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/schedule/lower.hpp"
#include "src/schedule/shapes.hpp"
#include "src/schedule/step.hpp"
#include "wreath/plan.hpp"
#include "wreath/result.hpp"

namespace wreath {

// A lane of some rank.
struct MachineLane {
  Rank rank;
  std::uint32_t index;       // within its rank
  std::uint32_t first_step;  // into Machine::steps()
  std::uint32_t step_count;
  std::uint16_t data_lane;
};

// The two users of a FIFO. kUnlimited means nobody.
struct MachineFifo {
  FifoEnd source;  // the sender and its lane number
  Rank receiver;
  std::uint32_t producer = kUnlimited;  // lane ids
  std::uint32_t consumer = kUnlimited;
};

// A step with its ends resolved to FIFOs.
struct MachineStep {
  // Machine::part takes source_part and target_part of a step of several chunks.
  Step step;
  std::uint32_t in_first;  // Machine::fifo_of(in_first + i)
  std::uint32_t out_first;
};

class Machine {
 public:
  // Links programs[r], which rank r runs, for all ranks. Mismatch names rank, lane and step where no executor may be
  // given a program. Faults of a step are an unknown op or flag, an index out of its table, and a part or peer that
  // does not exist. Others are a write to Input, a send on another lane's number, and a FIFO with two producers or two
  // consumers.
  static Result<Machine> link(std::span<const Lowered> programs);

  int ranks() const { return ranks_; }
  std::uint32_t parts() const { return parts_; }
  // Returns the number of places of every lane in Scratch: the most of any rank.
  std::uint32_t scratch_slots() const { return scratch_slots_; }
  // Returns the number of places of every lane in Partial: the most of any rank.
  std::uint32_t partial_slots() const { return partial_slots_; }
  std::uint16_t data_lanes() const { return data_lanes_; }
  std::span<const MachineLane> lanes() const { return lanes_; }
  std::span<const MachineFifo> fifos() const { return fifos_; }
  // Returns the id of the first lane of `rank`. The rank's lanes are [first_lane(rank), first_lane(rank + 1)).
  std::uint32_t first_lane(Rank rank) const { return first_lane_[static_cast<std::size_t>(rank)]; }
  const MachineStep& step(std::uint32_t index) const { return steps_[index]; }
  std::uint32_t steps() const { return static_cast<std::uint32_t>(steps_.size()); }
  // Returns the part of chunk `index` of a step whose source_part or target_part is `first`.
  std::uint32_t part(const Step& step, std::uint32_t first, std::uint32_t index) const {
    return step.chunks > 1 ? several_[first + index] : first;
  }
  std::uint32_t fifo_of(std::uint32_t end) const { return ends_[end]; }
  // Returns a place as text: "rank 3 lane 1 step 2 tile 0 (recv_reduce_send)".
  std::string where(std::uint32_t lane, std::uint32_t step, std::uint32_t tile) const;

 private:
  friend class Linker;
  int ranks_ = 0;
  std::uint32_t parts_ = 1;
  std::uint32_t scratch_slots_ = 0;
  std::uint32_t partial_slots_ = 0;
  std::uint16_t data_lanes_ = 1;
  std::vector<MachineLane> lanes_;
  std::vector<std::uint32_t> first_lane_;
  std::vector<MachineStep> steps_;
  std::vector<std::uint32_t> several_;
  std::vector<std::uint32_t> ends_;
  std::vector<MachineFifo> fifos_;
};

// The number of tiles in which each step of a machine has elements. A step does nothing in later tiles. A run of tokens
// depends on nothing else besides the machine.
struct Extents {
  std::vector<std::uint32_t> steps;  // by index into Machine::steps()
  std::vector<std::uint32_t> lanes;  // the most of its steps
  auto operator<=>(const Extents&) const = default;
};
Extents extents_of(const Machine& machine, const Shapes& shapes);

struct RunOptions {
  std::uint32_t slots = kUnlimited;  // K: messages a FIFO holds
  // The number R of a rank's lanes that run at once. These are the lowest-numbered unfinished ones.
  std::uint32_t resident = kUnlimited;
  // The schedule runs so many times, back to back. A rank starts the next operation when all its lanes are done, and
  // all messages that it sent by reference were consumed.
  std::uint32_t operations = 1;
};

// The calls that a run makes, and the order in which lanes go on. With kTimed, the lane whose next part starts first
// goes on, one part at a time, so that lanes take turns with what they share. Otherwise each lane goes as far as it
// can. A false return ends the run, and the hooks keep the reason. FIFOs are named by id. Their messages come out in
// the order in which they went in.
struct RunHooks {
  static constexpr bool kTimed = false;
  // Returns when the receiving part of the lane's step could start. Its messages are there.
  double start_of_receive(std::uint32_t /*lane*/, const MachineStep&) const { return 0; }
  // Returns when the sending part of the lane's step could start. Its slots are there.
  double start_of_send(std::uint32_t /*lane*/, const MachineStep&) const { return 0; }
  // Returns the lane's own clock.
  double clock(std::uint32_t /*lane*/) const { return 0; }
  bool begin(Rank /*rank*/, std::uint32_t /*operation*/) { return true; }
  bool finish(Rank /*rank*/, std::uint32_t /*operation*/) { return true; }
  // A lane begins a tile.
  void start_tile(std::uint32_t /*lane*/) {}
  // Handles the first part of a step (all but Send). Its messages are taken right after this call.
  bool receive(std::uint32_t /*lane*/, const MachineStep&, std::uint32_t /*tile*/) { return true; }
  // Handles the last part of a step that sends. Its messages are put right after this call.
  bool send(std::uint32_t /*lane*/, const MachineStep&, std::uint32_t /*tile*/) { return true; }
};

// Says in words what a run that did not end was waiting for.
class StuckReport {
 public:
  explicit StuckReport(const Machine& machine) : machine_(machine) {}
  // Adds a lane. `wait` is 0 for its turn to be resident, 1 for a message of `fifo`, and 2 for a slot of `fifo`.
  void add_lane(std::uint32_t lane, std::uint32_t step, std::uint32_t tile, std::uint32_t fifo, int wait);
  void add_fifo(std::uint32_t fifo, std::uint32_t messages);
  std::string text() const;

 private:
  const Machine& machine_;
  std::vector<std::string> lanes_;
  std::vector<std::string> fifos_;
  std::uint32_t more_lanes_ = 0;
  std::uint32_t more_fifos_ = 0;
};

// Makes one greedy run. The caller constructs it, calls run(), and reads stuck() where the run ended in Deadlock or
// Leftover.
template <typename Hooks>
class GreedyRun {
 public:
  GreedyRun(const Machine& machine, const Extents& extents, const RunOptions& options, Hooks& hooks)
      : machine_(machine),
        extents_(extents),
        options_(options),
        hooks_(hooks),
        lanes_(machine.lanes().size()),
        fifos_(machine.fifos().size()),
        ranks_(static_cast<std::size_t>(machine.ranks())) {}

  enum class End { Done, Hook, Deadlock, Leftover };

  End run() {
    if (options_.operations == 0) return End::Done;
    for (Rank rank = 0; rank < machine_.ranks(); ++rank) {
      if (!begin(rank)) return End::Hook;
    }
    while (!ready_.empty()) {
      if (!advance(pop_ready())) return End::Hook;
    }
    for (const LaneState& lane : lanes_) {
      if (!lane.done) return End::Deadlock;
    }
    for (const FifoState& fifo : fifos_) {
      if (fifo.published != fifo.consumed) return End::Leftover;
    }
    return End::Done;
  }

  // Returns the lanes that wait, and for what, after Deadlock. After Leftover, returns the messages that nobody took.
  // Both lists have only the first few.
  std::string stuck() const {
    StuckReport report(machine_);
    for (std::uint32_t id = 0; id < lanes_.size(); ++id) {
      const LaneState& lane = lanes_[id];
      if (!lane.done) report.add_lane(id, lane.step, lane.tile, lane.fifo, static_cast<int>(lane.wait));
    }
    for (std::uint32_t id = 0; id < fifos_.size(); ++id) {
      if (fifos_[id].published != fifos_[id].consumed) report.add_fifo(id, fifos_[id].published - fifos_[id].consumed);
    }
    return report.text();
  }

 private:
  enum class Wait : std::uint8_t { Nothing, Message, Credit };
  struct LaneState {
    std::uint32_t step = 0;
    std::uint32_t tile = 0;
    std::uint32_t fifo = 0;  // FIFO that it waits on
    Wait wait = Wait::Nothing;
    bool received = false;
    bool done = false;
  };
  struct FifoState {
    std::uint32_t published = 0;
    std::uint32_t consumed = 0;
    std::uint32_t referenced = 0;  // 1 + the last message sent by reference
  };
  struct RankState {
    std::uint32_t operation = 0;
    std::uint32_t started = 0;  // lanes
    std::uint32_t finished = 0;
    std::uint32_t references = 0;  // FIFOs that hold a referenced message
  };

  bool begin(Rank rank) {
    RankState& state = ranks_[static_cast<std::size_t>(rank)];
    if (!hooks_.begin(rank, state.operation)) return false;
    state.started = state.finished = 0;
    for (std::uint32_t id = machine_.first_lane(rank); id < machine_.first_lane(rank + 1); ++id) lanes_[id] = {};
    start_lanes(rank);
    return end_if_idle(rank);
  }

  std::uint32_t lane_count(Rank rank) const { return machine_.first_lane(rank + 1) - machine_.first_lane(rank); }

  void start_lanes(Rank rank) {
    RankState& state = ranks_[static_cast<std::size_t>(rank)];
    while (state.started < lane_count(rank) && state.started - state.finished < options_.resident) {
      const std::uint32_t id = machine_.first_lane(rank) + state.started++;
      if (extents_.lanes[id] == 0) {
        lanes_[id].done = true;
        ++state.finished;
      } else {
        hooks_.start_tile(id);
        push_ready(id, hooks_.clock(id));
      }
    }
  }

  // Moves a rank whose lanes are done and whose references are consumed on to its next operation.
  bool end_if_idle(Rank rank) {
    RankState& state = ranks_[static_cast<std::size_t>(rank)];
    if (state.finished < lane_count(rank) || state.operation >= options_.operations || state.references > 0)
      return true;
    if (!hooks_.finish(rank, state.operation)) return false;
    return ++state.operation >= options_.operations || begin(rank);
  }

  void wake(std::uint32_t lane, Wait wait, std::uint32_t fifo) {
    if (lane == kUnlimited || lanes_[lane].wait != wait || lanes_[lane].fifo != fifo) return;
    lanes_[lane].wait = Wait::Nothing;
    push_ready(lane, hooks_.clock(lane));
  }

  // Returns the first FIFO without a message for the step's first part, or kUnlimited where there is none.
  std::uint32_t empty_fifo(const MachineStep& step) const {
    for (std::uint32_t i = 0; i < step.step.in_count; ++i) {
      const std::uint32_t fifo = machine_.fifo_of(step.in_first + i);
      if (fifos_[fifo].published == fifos_[fifo].consumed) return fifo;
    }
    return kUnlimited;
  }
  // Returns the first FIFO without a slot for the step's send, or kUnlimited where there is none.
  std::uint32_t full_fifo(const MachineStep& step) const {
    for (std::uint32_t i = 0; i < step.step.out_count; ++i) {
      const std::uint32_t fifo = machine_.fifo_of(step.out_first + i);
      if (fifos_[fifo].published - fifos_[fifo].consumed >= options_.slots) return fifo;
    }
    return kUnlimited;
  }

  bool take(const MachineStep& step) {
    for (std::uint32_t i = 0; i < step.step.in_count; ++i) {
      const std::uint32_t id = machine_.fifo_of(step.in_first + i);
      FifoState& fifo = fifos_[id];
      const MachineFifo& fixed = machine_.fifos()[id];
      if (++fifo.consumed == fifo.referenced) {
        --ranks_[static_cast<std::size_t>(fixed.source.peer)].references;
        if (!end_if_idle(fixed.source.peer)) return false;
      }
      wake(fixed.producer, Wait::Credit, id);
    }
    return true;
  }

  void put(const MachineStep& step) {
    for (std::uint32_t i = 0; i < step.step.out_count; ++i) {
      const std::uint32_t id = machine_.fifo_of(step.out_first + i);
      FifoState& fifo = fifos_[id];
      ++fifo.published;
      if ((step.step.flags & kStaged) == 0) {
        if (fifo.consumed >= fifo.referenced)
          ++ranks_[static_cast<std::size_t>(machine_.fifos()[id].source.peer)].references;
        fifo.referenced = fifo.published;
      }
      wake(machine_.fifos()[id].consumer, Wait::Message, id);
    }
  }

  // A lane that can go on, and the time since when it can.
  struct Ready {
    double time;
    std::uint32_t lane;
    bool operator<(const Ready& other) const { return time > other.time; }  // the earliest is on top
  };
  void push_ready(std::uint32_t lane, double time) {
    ready_.push_back({time, lane});
    if constexpr (Hooks::kTimed) std::push_heap(ready_.begin(), ready_.end());
  }
  std::uint32_t pop_ready() {
    if constexpr (Hooks::kTimed) std::pop_heap(ready_.begin(), ready_.end());
    const std::uint32_t lane = ready_.back().lane;
    ready_.pop_back();
    return lane;
  }
  // Returns whether another lane starts before `time`. This one waits then.
  bool yields(std::uint32_t lane, double time) {
    if (!Hooks::kTimed || ready_.empty() || ready_.front().time >= time) return false;
    push_ready(lane, time);
    return true;
  }

  enum class Went : std::uint8_t { On, StepOver, Later, Failed };

  // Runs a lane until it blocks or is done.
  bool advance(std::uint32_t id) {
    LaneState& lane = lanes_[id];
    const MachineLane& fixed = machine_.lanes()[id];
    while (true) {
      const std::uint32_t index = fixed.first_step + lane.step;
      const bool has_elements = lane.tile < extents_.steps[index];
      const Went went = has_elements ? do_part(id, lane, machine_.step(index)) : Went::StepOver;
      if (went == Went::Failed) return false;
      if (went == Went::Later) return true;
      if (went == Went::StepOver && ++lane.step == fixed.step_count) {
        lane.step = 0;
        if (++lane.tile == extents_.lanes[id]) return finish(id);
        hooks_.start_tile(id);
      }
      if (has_elements && yields(id, hooks_.clock(id))) return true;
    }
  }

  // Does the first part of a step, or its send.
  Went do_part(std::uint32_t id, LaneState& lane, const MachineStep& step) {
    const bool sends = step.step.out_count > 0;
    if (!lane.received && has_first_part(step.step.op)) {
      if (const std::uint32_t fifo = empty_fifo(step); fifo != kUnlimited) return block(lane, Wait::Message, fifo);
      if (yields(id, hooks_.start_of_receive(id, step))) return Went::Later;
      if (!hooks_.receive(id, step, lane.tile) || !take(step)) return Went::Failed;
      lane.received = sends;
      return sends ? Went::On : Went::StepOver;
    }
    if (const std::uint32_t fifo = full_fifo(step); fifo != kUnlimited) return block(lane, Wait::Credit, fifo);
    if (yields(id, hooks_.start_of_send(id, step))) return Went::Later;
    if (!hooks_.send(id, step, lane.tile)) return Went::Failed;
    put(step);
    lane.received = false;
    return Went::StepOver;
  }

  static Went block(LaneState& lane, Wait wait, std::uint32_t fifo) {
    lane.wait = wait;
    lane.fifo = fifo;
    return Went::Later;
  }

  bool finish(std::uint32_t id) {
    lanes_[id].done = true;
    const Rank rank = machine_.lanes()[id].rank;
    ++ranks_[static_cast<std::size_t>(rank)].finished;
    start_lanes(rank);
    return end_if_idle(rank);
  }

  const Machine& machine_;
  const Extents& extents_;
  RunOptions options_;
  Hooks& hooks_;
  std::vector<LaneState> lanes_;
  std::vector<FifoState> fifos_;
  std::vector<RankState> ranks_;
  std::vector<Ready> ready_;
};

}  // namespace wreath
