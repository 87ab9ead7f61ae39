// Reads and writes plain memory. The file shares only the geometry and the table of operations with the verifier.
#include "tests/unit/schedule/interpreter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <deque>
#include <limits>
#include <map>
#include <tuple>

#include "src/schedule/lower.hpp"
#include "src/schedule/shapes.hpp"
#include "src/schedule/values.hpp"
#include "tests/unit/schedule/promise.hpp"

namespace wreath {
namespace {

using Elements = Promise::Elements;

// One chunk of a message.
struct Piece {
  Elements copy;
  // Null means that the data is in `copy`.
  const float* reference = nullptr;
  std::size_t elements = 0;
  Elements read() const { return reference == nullptr ? copy : Elements(reference, reference + elements); }
};

struct SentMessage {
  Form form = Form::Data;
  bool reference = false;
  std::vector<Piece> pieces;
};

struct LaneState {
  std::uint32_t step = 0;
  std::uint32_t tile = 0;
  bool received = false;
  bool done = false;
  // The result of a fused step's first part.
  Elements carried;
  std::vector<Elements> own_slots[2];  // Scratch and Partial
};

struct RankState {
  Elements buffers[2];  // Input and Output
  std::vector<LaneState> lanes;
  int operation = 0;
  // The number of messages by reference that their receivers have not yet taken.
  std::size_t references = 0;
};

class Interpreter {
 public:
  Interpreter(std::span<const Lowered> programs, const InterpreterOptions& options, std::mt19937_64& random)
      : programs_(programs),
        options_(options),
        random_(random),
        sums_(reduces(options.problem.collective)),
        shapes_({options.problem.collective, options.problem.ranks, options.traits, programs[0].parts,
                 programs[0].data_lanes},
                VerifyOptions{.count = options.count,
                              .block_counts = options.block_counts,
                              .element_bytes = sizeof(float),
                              .tile_bytes = options.tile_bytes}),
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
    for (const auto& [key, messages] : fifos_) {
      if (fault_.empty() && !messages.empty()) fault_ = "a message is left over";
    }
    return fault_;
  }

 private:
  using Key = std::tuple<Rank, Rank, std::uint16_t>;

  void make_inputs() {
    std::uniform_real_distribution<float> real(-1, 1);
    const auto next = [&] { return options_.whole_numbers ? static_cast<float>(random_() % 1000) : real(random_); };
    const auto count = [&](Rank rank, std::uint32_t part) { return shapes_[rank].input.part(part).count; };
    promises_.emplace_back(options_.problem, options_.op, programs_[0].parts, count, next);
  }
  const Promise& promise(std::size_t rank) const { return promises_[static_cast<std::size_t>(ranks_[rank].operation)]; }

  bool over() const {
    return std::all_of(ranks_.begin(), ranks_.end(),
                       [&](const RankState& r) { return r.operation == options_.operations; });
  }

  // Returns the memory of part `part` of Input or Output. In place the larger buffer holds both.
  std::span<float> memory(std::size_t rank, Buffer buffer, std::uint32_t part, ElementRange range) {
    const Geometry& geometry = shapes_[static_cast<Rank>(rank)];
    const bool one_block = holds_one_block(options_.problem.collective, Buffer::Input);
    const Buffer larger = one_block ? Buffer::Output : Buffer::Input;
    const auto me = static_cast<Rank>(rank);
    const bool both = promise(rank).has_input(me, part) && promise(rank).has_output(me, part);
    const bool moved = options_.in_place && both && buffer != larger;
    if (moved) {
      const PartTable& from = buffer == Buffer::Input ? geometry.input : geometry.output;
      const PartTable& to = buffer == Buffer::Input ? geometry.output : geometry.input;
      range.first += to.part(part).first - from.part(part).first;
    }
    return std::span(ranks_[rank].buffers[static_cast<std::size_t>(moved ? larger : buffer)])
        .subspan(range.first, range.count);
  }
  std::span<float> whole(std::size_t rank, Buffer buffer, std::uint32_t part) {
    const Geometry& geometry = shapes_[static_cast<Rank>(rank)];
    return memory(rank, buffer, part, (buffer == Buffer::Input ? geometry.input : geometry.output).part(part));
  }

  // Starts the rank's next operation, for which its memory is filled anew.
  void begin(std::size_t rank) {
    RankState& state = ranks_[rank];
    if (state.operation == options_.operations) return;
    const float undefined = std::numeric_limits<float>::quiet_NaN();
    const Geometry& geometry = shapes_[static_cast<Rank>(rank)];
    for (std::size_t buffer = 0; buffer < 2; ++buffer) {
      std::uint64_t end = 0;
      for (std::uint32_t part = 0; part < programs_[rank].parts; ++part) {
        const bool held = buffer == 0 ? promise(rank).has_input(static_cast<Rank>(rank), part)
                                      : promise(rank).has_output(static_cast<Rank>(rank), part);
        const ElementRange range = (buffer == 0 ? geometry.input : geometry.output).part(part);
        if (held) end = std::max(end, range.first + range.count);
      }
      state.buffers[buffer].assign(end, undefined);
    }
    for (std::uint32_t part = 0; part < programs_[rank].parts; ++part) {
      if (!promise(rank).has_input(static_cast<Rank>(rank), part)) continue;
      const Elements& data = promise(rank).input(static_cast<Rank>(rank), part);
      std::copy(data.begin(), data.end(), whole(rank, Buffer::Input, part).begin());
    }
    state.lanes.assign(programs_[rank].lanes.size(), {});
    for (std::size_t lane = 0; lane < state.lanes.size(); ++lane) {
      state.lanes[lane].done = geometry.tiles == 0 || programs_[rank].lanes[lane].step_count == 0;
      forget_slots(rank, lane);
    }
    end_if_idle(rank);
  }

  void forget_slots(std::size_t rank, std::size_t lane) {
    const Elements undefined(shapes_[static_cast<Rank>(rank)].tile, std::numeric_limits<float>::quiet_NaN());
    ranks_[rank].lanes[lane].own_slots[0].assign(programs_[rank].scratch_slots, undefined);
    ranks_[rank].lanes[lane].own_slots[1].assign(programs_[rank].partial_slots, undefined);
  }

  void end_if_idle(std::size_t rank) {
    RankState& state = ranks_[rank];
    const bool busy = std::any_of(state.lanes.begin(), state.lanes.end(), [](const LaneState& l) { return !l.done; });
    if (busy || state.references > 0 || state.operation == options_.operations) return;
    for (std::uint32_t part = 0; part < programs_[rank].parts; ++part) {
      if (!promise(rank).has_output(static_cast<Rank>(rank), part)) continue;
      const std::span<const float> found = whole(rank, Buffer::Output, part);
      const Elements wanted = promise(rank).output(static_cast<Rank>(rank), part);
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        if (std::bit_cast<std::uint32_t>(found[i]) == std::bit_cast<std::uint32_t>(wanted[i])) continue;
        fault_ = fmt::format("rank {} operation {} part {} element {} is {}, not {}", rank, state.operation, part, i,
                             found[i], wanted[i]);
      }
    }
    ++state.operation;
    begin(rank);
  }

  // Advances one lane by one part of a step. Takes a random lane that can advance, or the first one in an order that
  // changes slowly.
  bool advance_one() {
    if (random_() % 8 == 0) {
      const auto [rank, lane] = order_[random_() % order_.size()];
      land_some(rank, lane);
    }
    if (by_priority_ && random_() % 32 == 0)
      std::swap(order_[random_() % order_.size()], order_[random_() % order_.size()]);
    for (std::size_t i = 0; i < order_.size(); ++i) {
      if (!by_priority_) std::swap(order_[i], order_[i + random_() % (order_.size() - i)]);
      const auto [rank, lane] = order_[i];
      if (!ranks_[rank].lanes[lane].done && advance(rank, lane)) return true;
    }
    return false;
  }

  std::span<float> operand(std::size_t rank, std::size_t lane, Buffer buffer, std::uint32_t part, std::size_t slot) {
    LaneState& state = ranks_[rank].lanes[lane];
    const ElementRange range =
        shapes_[static_cast<Rank>(rank)].range(buffer, part, programs_[rank].lanes[lane].data_lane, state.tile);
    if (!is_lanes_own(buffer)) return memory(rank, buffer, part, range);
    return std::span(state.own_slots[buffer == Buffer::Scratch ? 0 : 1][slot]).first(range.count);
  }
  std::span<float> source(std::size_t rank, std::size_t lane, const Step& step, std::uint32_t chunk) {
    return operand(rank, lane, step.source_buffer, part_of(programs_[rank], step, step.source_part, chunk),
                   step.source_slot + chunk);
  }
  std::span<float> target(std::size_t rank, std::size_t lane, const Step& step, std::uint32_t chunk) {
    return operand(rank, lane, step.target_buffer, part_of(programs_[rank], step, step.target_part, chunk),
                   step.target_slot + chunk);
  }
  // Returns the memory that a step sends.
  std::span<float> sent(std::size_t rank, std::size_t lane, const Step& step, std::uint32_t chunk) {
    return has_first_part(step.op) ? target(rank, lane, step, chunk) : source(rank, lane, step, chunk);
  }

  // Lets some messages land where steps ahead of the lane want them, as they may from the operation's begin on.
  void land_some(std::size_t rank, std::size_t lane) {
    LaneState& state = ranks_[rank].lanes[lane];
    const LaneState present = state;
    const LoweredLane& fixed = programs_[rank].lanes[lane];
    std::map<const std::deque<SentMessage>*, std::size_t> passed;
    for (; state.tile < shapes_[static_cast<Rank>(rank)].tiles && !present.done; ++state.tile, state.step = 0) {
      for (; state.step < fixed.step_count; ++state.step) {
        const Step& step = programs_[rank].steps[fixed.first_step + state.step];
        const bool taken = state.received && state.step == present.step && state.tile == present.tile;
        if (!taken && has_elements(rank, lane, step)) land(rank, lane, step, passed);
      }
    }
    state = present;
  }
  void land(std::size_t rank, std::size_t lane, const Step& step,
            std::map<const std::deque<SentMessage>*, std::size_t>& passed) {
    for (std::uint32_t i = 0; i < step.in_count; ++i) {
      const std::deque<SentMessage>& messages = in(rank, step, i);
      const std::size_t place = passed[&messages]++;
      if ((step.flags & kLands) == 0 || place >= messages.size() || random_() % 2 == 0) continue;
      const Elements data = messages[place].pieces[0].read();
      const std::span<float> to = target(rank, lane, step, 0);
      std::copy_n(data.begin(), std::min(data.size(), to.size()), to.begin());
    }
  }

  bool has_elements(std::size_t rank, std::size_t lane, const Step& step) {
    for (std::uint32_t chunk = 0; chunk < step.chunks; ++chunk) {
      if (reads_source(step.op) && !source(rank, lane, step, chunk).empty()) return true;
      if (has_first_part(step.op) && !target(rank, lane, step, chunk).empty()) return true;
    }
    return false;
  }

  std::deque<SentMessage>& in(std::size_t rank, const Step& step, std::uint32_t i) {
    const FifoEnd end = programs_[rank].sources[step.in_first + i];
    return fifos_[Key{end.peer, static_cast<Rank>(rank), end.lane}];
  }
  std::deque<SentMessage>& out(std::size_t rank, const Step& step, std::uint32_t i) {
    const FifoEnd end = programs_[rank].targets[step.out_first + i];
    return fifos_[Key{static_cast<Rank>(rank), end.peer, end.lane}];
  }

  bool advance(std::size_t rank, std::size_t lane) {
    LaneState& state = ranks_[rank].lanes[lane];
    const LoweredLane& fixed = programs_[rank].lanes[lane];
    const Step& step = programs_[rank].steps[fixed.first_step + state.step];
    if (!has_elements(rank, lane, step)) return end_step(rank, lane);
    if (has_first_part(step.op) && !state.received) {
      for (std::uint32_t i = 0; i < step.in_count; ++i) {
        if (in(rank, step, i).empty()) return false;
      }
      receive(rank, lane, step);
      state.received = true;
      if (step.out_count > 0) return true;
    }
    for (std::uint32_t i = 0; i < step.out_count; ++i) {
      if (out(rank, step, i).size() >= options_.slots) return false;
    }
    if (step.out_count > 0) send(rank, lane, step);
    return end_step(rank, lane);
  }

  bool end_step(std::size_t rank, std::size_t lane) {
    LaneState& state = ranks_[rank].lanes[lane];
    state.received = false;
    if (++state.step < programs_[rank].lanes[lane].step_count) return true;
    state.step = 0;
    forget_slots(rank, lane);
    state.done = ++state.tile == shapes_[static_cast<Rank>(rank)].tiles;
    if (state.done) end_if_idle(rank);
    return true;
  }

  // Returns an operand of a reduction. An operand of form Data is an input that enters the sum here.
  Elements entered(std::size_t rank, std::span<const float> data, Form form) const {
    Elements result(data.begin(), data.end());
    if (form == Form::Partial) return result;
    for (float& value : result) value = promise(rank).enter(static_cast<Rank>(rank), value);
    return result;
  }

  // Returns what is written to `buffer`: a single operand as it is, or several operands combined.
  Elements settled(std::size_t rank, std::vector<Elements> operands, Buffer buffer, bool finished) const {
    Elements result;
    for (std::size_t e = 0; e < operands[0].size(); ++e) {
      Elements values;
      for (const Elements& operand : operands) values.push_back(operand[e]);
      const float sum =
          canonical_fold(std::span(values), [&](float a, float b) { return promise(rank).combine(a, b); });
      result.push_back(sums_ && form_of(buffer) == Form::Data && !finished ? promise(rank).finish(sum) : sum);
    }
    return result;
  }

  // Returns the result of a step's first part for one chunk.
  Elements compute(std::size_t rank, std::size_t lane, const Step& step, std::uint32_t chunk) {
    const Form incoming = (step.flags & kPartialIncoming) != 0 ? Form::Partial : Form::Data;
    const bool adds = reads_source(step.op) && step.op != StepOp::Copy;
    std::vector<Elements> operands;
    for (std::uint32_t i = 0; i < step.in_count; ++i) {
      operands.push_back(in(rank, step, i).front().pieces[chunk].read());
    }
    bool finished = incoming == Form::Data && !adds;
    if (reads_source(step.op)) {
      const std::span<const float> own = source(rank, lane, step, chunk);
      const bool input = step.source_buffer == Buffer::Input;
      const std::size_t place = first_part(step.op) == StepOp::LoadReduce ? step.own_place : 0;
      operands.insert(operands.begin() + static_cast<std::ptrdiff_t>(place),
                      entered(rank, own, sums_ && input ? Form::Data : Form::Partial));
      finished = step.op == StepOp::Copy && !input && step.source_buffer != Buffer::Partial;
    }
    if (step.op == StepOp::Reduce) {
      const std::span<const float> old = target(rank, lane, step, chunk);
      operands.insert(operands.begin(), Elements(old.begin(), old.end()));
    }
    for (const Elements& operand : operands) {
      if (operand.size() != operands[0].size()) fault_ = "sizes differ";
    }
    return fault_.empty() ? settled(rank, std::move(operands), step.target_buffer, finished) : Elements{};
  }

  void receive(std::size_t rank, std::size_t lane, const Step& step) {
    const Form incoming = (step.flags & kPartialIncoming) != 0 ? Form::Partial : Form::Data;
    for (std::uint32_t i = 0; i < step.in_count; ++i) {
      const SentMessage& message = in(rank, step, i).front();
      if (message.form != incoming) fault_ = "forms differ";
      if (message.pieces.size() != step.chunks) fault_ = "chunks differ";
    }
    for (std::uint32_t chunk = 0; fault_.empty() && chunk < step.chunks; ++chunk) {
      const std::span<float> to = target(rank, lane, step, chunk);
      const Elements result = compute(rank, lane, step, chunk);
      if (result.size() != to.size()) fault_ = "sizes differ";
      if (!fault_.empty()) return;
      ranks_[rank].lanes[lane].carried = result;
      if ((step.flags & kTargetDead) == 0 || random_() % 2 == 0) std::copy(result.begin(), result.end(), to.begin());
    }
    for (std::uint32_t i = 0; fault_.empty() && i < step.in_count; ++i) pop(rank, step, i);
  }

  void pop(std::size_t rank, const Step& step, std::uint32_t i) {
    const bool reference = in(rank, step, i).front().reference;
    in(rank, step, i).pop_front();
    const FifoEnd end = programs_[rank].sources[step.in_first + i];
    if (reference && --ranks_[static_cast<std::size_t>(end.peer)].references == 0) {
      end_if_idle(static_cast<std::size_t>(end.peer));
    }
  }

  void send(std::size_t rank, std::size_t lane, const Step& step) {
    const bool dead = has_first_part(step.op) && (step.flags & kTargetDead) != 0;
    const Buffer buffer = has_first_part(step.op) ? step.target_buffer : step.source_buffer;
    // An input that is multiplied before it is sent must be a copy.
    const bool changed = sums_ && buffer == Buffer::Input && options_.op == ReduceOp::PremultipliedSum;
    const bool may_refer = (step.flags & kStaged) == 0 && !changed;
    SentMessage message{
        .form = form_of(buffer), .reference = may_refer && random_() % 100 < reference_percent_, .pieces = {}};
    for (std::uint32_t chunk = 0; chunk < step.chunks; ++chunk) {
      const std::span<float> from = sent(rank, lane, step, chunk);
      const Elements& carried = ranks_[rank].lanes[lane].carried;
      // The first part may not have written a dead target. A message by reference needs the data there, so it is
      // written now.
      if (dead && message.reference) std::copy(carried.begin(), carried.end(), from.begin());
      Piece piece{.copy = dead ? carried : Elements(from.begin(), from.end()),
                  .reference = message.reference ? from.data() : nullptr,
                  .elements = from.size()};
      if (changed) piece.copy = entered(rank, from, Form::Data);
      message.pieces.push_back(std::move(piece));
    }
    for (std::uint32_t i = 0; i < step.out_count; ++i) {
      out(rank, step, i).push_back(message);
      if (message.reference) ++ranks_[rank].references;
    }
  }

  std::span<const Lowered> programs_;
  const InterpreterOptions& options_;
  std::mt19937_64& random_;
  bool sums_;
  Shapes shapes_;
  std::vector<RankState> ranks_;
  std::vector<Promise> promises_;  // by operation
  std::map<Key, std::deque<SentMessage>> fifos_;
  // The ranks and lanes, in the order in which they are tried.
  std::vector<std::pair<std::size_t, std::size_t>> order_;
  bool by_priority_;
  std::uint64_t reference_percent_;
  std::string fault_;
};

}  // namespace

std::string interpret(std::span<const Lowered> programs, const InterpreterOptions& options, std::mt19937_64& random) {
  return Interpreter(programs, options, random).run();
}

}  // namespace wreath
