// Reads and writes plain memory; shares no code with the verifier but the table of operations.
#include "tests/unit/schedule/interpreter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <tuple>

#include "src/schedule/lower.hpp"
#include "src/schedule/values.hpp"

namespace wreath {
namespace {

struct Message {
  std::vector<float> copy;
  const float* reference = nullptr;  // null: the data is in `copy`
  std::size_t elements = 0;
  std::vector<float> read() const { return reference == nullptr ? copy : std::vector(reference, reference + elements); }
};

struct Fifo {
  std::deque<Message> messages;
};

struct LaneState {
  std::uint32_t step = 0;
  std::uint32_t tile = 0;
  bool received = false;
  bool done = false;
  std::vector<float> carried;  // what a fused step's first part made
};

struct RankState {
  std::vector<float> buffers[3];
  std::vector<LaneState> lanes;
  int operation = 0;
  std::size_t references = 0;  // messages by reference that nobody took yet
};

class Interpreter {
 public:
  Interpreter(std::span<const Lowered> programs, const InterpreterOptions& options, std::mt19937_64& random)
      : programs_(programs),
        options_(options),
        random_(random),
        geometry_(
            make_geometry(options.count, sizeof(float), programs[0].parts, programs[0].data_lanes, options.tile_bytes)),
        ranks_(programs.size()),
        by_priority_(random() % 2 == 0),
        reference_percent_(random() % 3 * 50) {}

  std::string run() {
    for (int operation = 0; operation < options_.operations; ++operation) make_inputs();
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      for (std::size_t lane = 0; lane < programs_[rank].lanes.size(); ++lane) order_.push_back({rank, lane});
    }
    std::shuffle(order_.begin(), order_.end(), random_);
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) begin(rank);
    while (fault_.empty() && !over()) {
      if (!advance_one()) return "deadlock";
    }
    for (const auto& [key, fifo] : fifos_) {
      if (fault_.empty() && !fifo.messages.empty()) fault_ = "a message is left over";
    }
    return fault_;
  }

 private:
  using Key = std::tuple<Rank, Rank, std::uint16_t>;

  void make_inputs() {
    std::vector<std::vector<float>> inputs(ranks_.size());
    std::uniform_real_distribution<float> real(-1, 1);
    for (std::vector<float>& input : inputs) {
      for (std::uint64_t i = 0; i < options_.count; ++i) {
        input.push_back(options_.whole_numbers ? static_cast<float>(random_() % 1000) : real(random_));
      }
    }
    std::vector<float> expected;
    for (std::uint64_t i = 0; i < options_.count; ++i) {
      std::vector<float> values;
      for (const std::vector<float>& input : inputs) values.push_back(input[i]);
      expected.push_back(canonical_fold(std::span(values), [](float a, float b) { return a + b; }));
    }
    inputs_.push_back(std::move(inputs));
    expected_.push_back(std::move(expected));
  }

  bool over() const {
    return std::all_of(ranks_.begin(), ranks_.end(),
                       [&](const RankState& r) { return r.operation == options_.operations; });
  }

  // Starts the rank's next operation: its memory is filled anew.
  void begin(std::size_t rank) {
    RankState& state = ranks_[rank];
    if (state.operation == options_.operations) return;
    const float undefined = std::numeric_limits<float>::quiet_NaN();
    state.buffers[0] = inputs_[static_cast<std::size_t>(state.operation)][rank];
    state.buffers[1].assign(options_.count, undefined);
    state.buffers[2].assign(programs_[0].scratch_parts * geometry_.part_stride, undefined);
    state.lanes.assign(programs_[rank].lanes.size(), {});
    for (std::size_t i = 0; i < state.lanes.size(); ++i) {
      state.lanes[i].done = geometry_.tiles == 0 || programs_[rank].lanes[i].step_count == 0;
    }
    end_if_idle(rank);
  }

  void end_if_idle(std::size_t rank) {
    RankState& state = ranks_[rank];
    const bool busy = std::any_of(state.lanes.begin(), state.lanes.end(), [](const LaneState& l) { return !l.done; });
    if (busy || state.references > 0 || state.operation == options_.operations) return;
    const std::vector<float>& output = state.buffers[options_.in_place ? 0 : 1];
    const std::vector<float>& wanted = expected_[static_cast<std::size_t>(state.operation)];
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (std::bit_cast<std::uint32_t>(output[i]) == std::bit_cast<std::uint32_t>(wanted[i])) continue;
      fault_ =
          fmt::format("rank {} operation {} element {} is {}, not {}", rank, state.operation, i, output[i], wanted[i]);
    }
    ++state.operation;
    begin(rank);
  }

  // Advances one lane by one part of a step: any that can, or the first that can in an order that changes slowly.
  bool advance_one() {
    if (by_priority_ && random_() % 32 == 0)
      std::swap(order_[random_() % order_.size()], order_[random_() % order_.size()]);
    for (std::size_t i = 0; i < order_.size(); ++i) {
      if (!by_priority_) std::swap(order_[i], order_[i + random_() % (order_.size() - i)]);
      const auto [rank, lane] = order_[i];
      if (!ranks_[rank].lanes[lane].done && advance(rank, lane)) return true;
    }
    return false;
  }

  std::span<float> memory(std::size_t rank, Buffer buffer, std::uint32_t part, std::size_t lane) {
    const LaneState& state = ranks_[rank].lanes[lane];
    const ElementRange range = geometry_.range(part, programs_[rank].lanes[lane].data_lane, state.tile);
    const bool alias = options_.in_place && buffer == Buffer::Output;
    return std::span(ranks_[rank].buffers[alias ? 0 : static_cast<std::size_t>(buffer)])
        .subspan(range.first, range.count);
  }

  Fifo& in(std::size_t rank, const Step& step, std::uint32_t i) {
    const FifoEnd end = programs_[rank].sources[step.in_first + i];
    return fifos_[Key{end.peer, static_cast<Rank>(rank), end.lane}];
  }
  Fifo& out(std::size_t rank, const Step& step, std::uint32_t i) {
    const FifoEnd end = programs_[rank].targets[step.out_first + i];
    return fifos_[Key{static_cast<Rank>(rank), end.peer, end.lane}];
  }

  bool advance(std::size_t rank, std::size_t lane) {
    LaneState& state = ranks_[rank].lanes[lane];
    const LoweredLane& fixed = programs_[rank].lanes[lane];
    const Step& step = programs_[rank].steps[fixed.first_step + state.step];
    if (has_first_part(step.op) && !state.received) {
      for (std::uint32_t i = 0; i < step.in_count; ++i) {
        if (in(rank, step, i).messages.empty()) return false;
      }
      receive(rank, lane, step);
      state.received = true;
      if (step.out_count > 0) return true;
    }
    for (std::uint32_t i = 0; i < step.out_count; ++i) {
      if (out(rank, step, i).messages.size() >= options_.slots) return false;
    }
    if (step.out_count > 0) send(rank, lane, step);
    state.received = false;
    if (++state.step < fixed.step_count) return true;
    state.step = 0;
    state.done = ++state.tile == geometry_.tiles;
    if (state.done) end_if_idle(rank);
    return true;
  }

  void receive(std::size_t rank, std::size_t lane, const Step& step) {
    const std::span<float> target = memory(rank, step.target_buffer, step.target_part, lane);
    std::vector<std::vector<float>> operands;
    for (std::uint32_t i = 0; i < step.in_count; ++i) operands.push_back(in(rank, step, i).messages.front().read());
    if (reads_source(step.op)) {
      const std::span<float> source = memory(rank, step.source_buffer, step.source_part, lane);
      const std::size_t place = first_part(step.op) == StepOp::LoadReduce ? step.own_place : 0;
      operands.insert(operands.begin() + static_cast<std::ptrdiff_t>(place), std::vector(source.begin(), source.end()));
    }
    if (step.op == StepOp::Reduce) operands.insert(operands.begin(), std::vector(target.begin(), target.end()));
    std::vector<float> result;
    for (const std::vector<float>& operand : operands) {
      if (operand.size() != target.size()) fault_ = "sizes differ";
    }
    for (std::size_t e = 0; fault_.empty() && e < target.size(); ++e) {
      std::vector<float> values;
      for (const std::vector<float>& operand : operands) values.push_back(operand[e]);
      result.push_back(canonical_fold(std::span(values), [](float a, float b) { return a + b; }));
    }
    if (!fault_.empty()) return;
    ranks_[rank].lanes[lane].carried = result;
    if ((step.flags & kTargetDead) == 0 || random_() % 2 == 0) std::copy(result.begin(), result.end(), target.begin());
    for (std::uint32_t i = 0; i < step.in_count; ++i) pop(rank, step, i);
  }

  void pop(std::size_t rank, const Step& step, std::uint32_t i) {
    const bool reference = in(rank, step, i).messages.front().reference != nullptr;
    in(rank, step, i).messages.pop_front();
    if (!reference) return;
    const auto owner = static_cast<std::size_t>(programs_[rank].sources[step.in_first + i].peer);
    --ranks_[owner].references;
    end_if_idle(owner);
  }

  void send(std::size_t rank, std::size_t lane, const Step& step) {
    const bool fused = has_first_part(step.op);
    const std::span<float> source = fused ? memory(rank, step.target_buffer, step.target_part, lane)
                                          : memory(rank, step.source_buffer, step.source_part, lane);
    const bool dead = fused && (step.flags & kTargetDead) != 0;
    const bool reference = (step.flags & kStaged) == 0 && random_() % 100 < reference_percent_ && !source.empty();
    Message message;
    message.elements = source.size();
    if (dead) {
      // The first part may have left the target alone: by reference it is written now.
      const std::vector<float>& carried = ranks_[rank].lanes[lane].carried;
      if (reference) std::copy(carried.begin(), carried.end(), source.begin());
      message.copy = carried;
    } else {
      message.copy.assign(source.begin(), source.end());
    }
    if (reference) message.reference = source.data();
    for (std::uint32_t i = 0; i < step.out_count; ++i) {
      out(rank, step, i).messages.push_back(message);
      if (reference) ++ranks_[rank].references;
    }
  }

  std::span<const Lowered> programs_;
  const InterpreterOptions& options_;
  std::mt19937_64& random_;
  Geometry geometry_;
  std::vector<RankState> ranks_;
  std::vector<std::vector<std::vector<float>>> inputs_;  // by operation and rank
  std::vector<std::vector<float>> expected_;             // by operation
  std::map<Key, Fifo> fifos_;
  std::vector<std::pair<std::size_t, std::size_t>> order_;  // ranks and lanes, in the order in which they are tried
  bool by_priority_;
  std::uint64_t reference_percent_;
  std::string fault_;
};

}  // namespace

std::string interpret(std::span<const Lowered> programs, const InterpreterOptions& options, std::mt19937_64& random) {
  return Interpreter(programs, options, random).run();
}

}  // namespace wreath
