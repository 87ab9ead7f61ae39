// Makes the greedy run with clocks, on a machine of equal links.
#include <algorithm>
#include <vector>

#include "src/schedule/verify.hpp"

namespace wreath {
namespace {

// Returns the microseconds that `bytes` take at a speed.
double time_of(std::uint64_t bytes, double gb_s) { return static_cast<double>(bytes) / (gb_s * 1e3); }

class Timing : public RunHooks {
 public:
  static constexpr bool kTimed = true;

  Timing(const Machine& machine, const Shapes& shapes, const FlatModel& model, std::uint32_t slots)
      : machine_(machine),
        shapes_(shapes),
        model_(model),
        slots_(slots),
        lanes_(machine.lanes().size()),
        fifos_(machine.fifos().size()),
        ranks_(static_cast<std::size_t>(machine.ranks())) {}

  double clock(std::uint32_t lane) const { return lanes_[lane].time; }

  double start_of_receive(std::uint32_t lane, const MachineStep& step) const {
    double time = lanes_[lane].time;
    for (std::uint32_t i = 0; i < step.step.in_count; ++i) {
      const Fifo& fifo = fifos_[machine_.fifo_of(step.in_first + i)];
      time = std::max(time, fifo.sent[fifo.taken.size()].time);
    }
    return time;
  }

  double start_of_send(std::uint32_t lane, const MachineStep& step) const {
    double time = lanes_[lane].time;
    for (std::uint32_t i = 0; i < step.step.out_count; ++i) {
      const Fifo& fifo = fifos_[machine_.fifo_of(step.out_first + i)];
      if (fifo.sent.size() >= slots_) time = std::max(time, fifo.taken[fifo.sent.size() - slots_]);
    }
    return time;
  }

  bool receive(std::uint32_t id, const MachineStep& step, std::uint32_t tile) {
    Lane& lane = lanes_[id];
    RankState& rank = ranks_[static_cast<std::size_t>(machine_.lanes()[id].rank)];
    lane.time = start_of_receive(id, step);
    const std::uint64_t bytes = bytes_of(id, step.step, tile);
    const unsigned sources =
        step.step.in_count + (reads_source(step.step.op) ? 1U : 0U) + (step.step.op == StepOp::Reduce ? 1U : 0U);
    work(lane, rank, model_.message_us * step.step.in_count);
    work(lane, rank, sources == 1 ? time_of(bytes, model_.copy_gb_s) : time_of(bytes * sources, model_.reduction_gb_s));
    for (std::uint32_t i = 0; i < step.step.in_count; ++i) {
      Fifo& fifo = fifos_[machine_.fifo_of(step.in_first + i)];
      lane.depth = std::max(lane.depth, fifo.sent[fifo.taken.size()].depth);
      fifo.taken.push_back(lane.time);
    }
    end_ = std::max(end_, lane.time);
    return true;
  }

  bool send(std::uint32_t id, const MachineStep& step, std::uint32_t tile) {
    Lane& lane = lanes_[id];
    RankState& rank = ranks_[static_cast<std::size_t>(machine_.lanes()[id].rank)];
    const std::uint64_t bytes = bytes_of(id, step.step, tile);
    lane.time = start_of_send(id, step);
    if (model_.staged || (step.step.flags & kStaged) != 0) work(lane, rank, time_of(bytes, model_.copy_gb_s));
    for (std::uint32_t i = 0; i < step.step.out_count; ++i) {
      work(lane, rank, model_.message_us);
      rank.link_free = std::max(rank.link_free, lane.time) + time_of(bytes, model_.bandwidth_gb_s);
      Fifo& fifo = fifos_[machine_.fifo_of(step.out_first + i)];
      fifo.sent.push_back({rank.link_free + model_.latency_us, lane.depth + 1});
      rank.bytes += bytes;
      ++rank.messages;
    }
    steps_ = std::max(steps_, lane.depth + 1);
    end_ = std::max(end_, lane.time);
    return true;
  }

  Simulated result() const {
    Simulated result{.time_us = end_, .steps = steps_};
    for (const RankState& rank : ranks_) {
      result.bytes = std::max(result.bytes, rank.bytes);
      result.messages = std::max(result.messages, rank.messages);
    }
    return result;
  }

 private:
  struct Lane {
    double time = 0;
    // The number of messages on the longest chain that the lane waited for.
    int depth = 0;
  };
  struct Message {
    double time;  // of arrival
    int depth;
  };
  struct Fifo {
    std::vector<Message> sent;
    std::vector<double> taken;  // times, by message
  };
  struct RankState {
    double link_free = 0;
    double core_free = 0;
    std::uint64_t bytes = 0;
    std::uint64_t messages = 0;
  };

  // Makes the rank's core busy for `us` microseconds.
  void work(Lane& lane, RankState& rank, double us) {
    if (model_.one_core) lane.time = std::max(lane.time, rank.core_free);
    lane.time += us;
    rank.core_free = lane.time;
  }

  // Returns the bytes of all chunks of a step together.
  std::uint64_t bytes_of(std::uint32_t id, const Step& step, std::uint32_t tile) const {
    const MachineLane& lane = machine_.lanes()[id];
    const bool target = has_first_part(step.op);
    std::uint64_t elements = 0;
    for (std::uint32_t i = 0; i < step.chunks; ++i) {
      const std::uint32_t part = machine_.part(step, target ? step.target_part : step.source_part, i);
      elements +=
          shapes_[lane.rank].range(target ? step.target_buffer : step.source_buffer, part, lane.data_lane, tile).count;
    }
    return elements * shapes_[lane.rank].element_bytes;
  }

  const Machine& machine_;
  const Shapes& shapes_;
  const FlatModel& model_;
  std::uint32_t slots_;
  std::vector<Lane> lanes_;
  std::vector<Fifo> fifos_;
  std::vector<RankState> ranks_;
  double end_ = 0;
  int steps_ = 0;
};

}  // namespace

Result<Simulated> simulate(const Algorithm& algorithm, const Problem& problem, const VerifyOptions& shape,
                           const FlatModel& model) {
  const Claim claim{problem, algorithm.order, algorithm.traits};
  WREATH_TRY(check_options(claim, shape));
  Result<std::vector<Lowered>> programs = lower_all(algorithm, problem, shape.data_lanes);
  if (!programs) return programs.error();
  Result<Machine> machine = Machine::link(*programs);
  if (!machine) return machine.error();
  const Shapes shapes({problem.collective, problem.ranks, algorithm.traits, machine->parts(), machine->data_lanes()},
                      shape);
  Timing timing(*machine, shapes, model, shape.slots);
  const Extents extents = extents_of(*machine, shapes);
  WREATH_TRY(run_to_end(*machine, extents, {.slots = shape.slots, .resident = shape.resident}, timing));
  return timing.result();
}

}  // namespace wreath
