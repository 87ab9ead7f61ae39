// A table has the edits, and a random number selects one.
#include "tests/support/mutate.hpp"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "src/schedule/lower.hpp"

namespace wreath {
namespace {

// The spot of an edit: a step of a lane of one program, and a random number for the edit to use.
struct Spot {
  Lowered& program;
  LoweredLane& lane;
  std::uint32_t index;  // into program.steps
  std::uint64_t dice;
  Step& step() const { return program.steps[index]; }
};

// Adds -1 or +1.
template <typename T>
bool nudge(T& value, std::uint64_t dice) {
  value = static_cast<T>(dice % 2 == 0 ? value + 1 : value - 1);
  return true;
}

bool has_target(const Step& step) { return has_first_part(step.op); }
bool is_fused(const Step& step) { return has_first_part(step.op) && has_send(step.op); }

// Edits the end of a message that a step names, in this step alone. The step's run is first copied to the table's end.
bool edit_end(std::vector<FifoEnd>& table, std::uint16_t& first, std::uint16_t count, std::uint64_t dice, bool lane) {
  if (count == 0) return false;
  const std::vector<FifoEnd> run(table.begin() + first, table.begin() + first + count);
  first = static_cast<std::uint16_t>(table.size());
  table.insert(table.end(), run.begin(), run.end());
  FifoEnd& end = table[first + dice / 2 % count];
  return lane ? nudge(end.lane, dice) : nudge(end.peer, dice);
}

void move_later_lanes(Lowered& program, std::uint32_t after, int by) {
  for (LoweredLane& lane : program.lanes) {
    if (lane.first_step > after) lane.first_step = static_cast<std::uint32_t>(static_cast<int>(lane.first_step) + by);
  }
}

bool drop_step(Spot& at) {
  move_later_lanes(at.program, at.lane.first_step, -1);
  at.program.steps.erase(at.program.steps.begin() + at.index);
  --at.lane.step_count;
  return true;
}

bool repeat_step(Spot& at) {
  move_later_lanes(at.program, at.lane.first_step, 1);
  const Step copy = at.step();
  at.program.steps.insert(at.program.steps.begin() + at.index, copy);
  ++at.lane.step_count;
  return true;
}

std::uint32_t another_step(const Spot& at) {
  return at.lane.first_step + static_cast<std::uint32_t>(at.dice % at.lane.step_count);
}

bool swap_steps(Spot& at) {
  std::swap(at.step(), at.program.steps[another_step(at)]);
  return another_step(at) != at.index;
}

bool swap_ends(Spot& at) {
  Step& other = at.program.steps[another_step(at)];
  const bool differ = at.step().in_first != other.in_first || at.step().out_first != other.out_first;
  std::swap(at.step().in_first, other.in_first);
  std::swap(at.step().out_first, other.out_first);
  return differ;
}

bool drop_send_half(Spot& at) {
  if (!is_fused(at.step())) return false;
  at.step().op = first_part(at.step().op);
  at.step().out_count = 0;
  return true;
}

bool drop_first_half(Spot& at) {
  Step& step = at.step();
  if (!is_fused(step)) return false;
  step.op = StepOp::Send;
  step.in_count = 0;
  step.source_buffer = step.target_buffer;
  step.source_part = step.target_part;
  step.source_slot = step.target_slot;
  return true;
}

bool forget_source(Spot& at) {
  Step& step = at.step();
  if (first_part(step.op) != StepOp::RecvReduce) return false;
  step.op = is_fused(step) ? StepOp::RecvSend : StepOp::Recv;
  return true;
}

bool change_width(Spot& at) { return nudge(at.dice / 2 % 2 == 0 ? at.step().in_count : at.step().out_count, at.dice); }

bool end_early(Spot& at) {
  --at.lane.step_count;
  return true;
}

// Edits one chunk's part, or the place where the parts of several chunks start.
bool source_part(Spot& at) { return reads_source(at.step().op) && nudge(at.step().source_part, at.dice); }
bool target_part(Spot& at) { return has_target(at.step()) && nudge(at.step().target_part, at.dice); }

bool source_slot(Spot& at) {
  Step& step = at.step();
  return reads_source(step.op) && is_lanes_own(step.source_buffer) && nudge(step.source_slot, at.dice);
}
bool target_slot(Spot& at) {
  Step& step = at.step();
  return has_target(step) && is_lanes_own(step.target_buffer) && nudge(step.target_slot, at.dice);
}

bool chunk_count(Spot& at) { return nudge(at.step().chunks, at.dice); }

// Exchanges two entries of the table of parts, for all steps that use them.
bool several_parts(Spot& at) {
  std::vector<std::uint32_t>& table = at.program.several;
  if (table.empty()) return false;
  std::uint32_t& one = table[at.dice % table.size()];
  std::uint32_t& other = table[at.dice / table.size() % table.size()];
  std::swap(one, other);
  return one != other;
}

bool change_buffer(Buffer& buffer, std::uint64_t dice) {
  const auto changed = static_cast<Buffer>((static_cast<std::uint64_t>(buffer) + 1 + dice % (kBuffers - 1)) % kBuffers);
  buffer = changed;
  return true;
}
bool source_buffer(Spot& at) { return reads_source(at.step().op) && change_buffer(at.step().source_buffer, at.dice); }
bool target_buffer(Spot& at) { return has_target(at.step()) && change_buffer(at.step().target_buffer, at.dice); }

bool change_op(Spot& at) {
  const auto op = static_cast<StepOp>(at.dice % 9);
  return std::exchange(at.step().op, op) != op;
}

bool flip_staged(Spot& at) {
  at.step().flags ^= kStaged;
  return has_send(at.step().op);
}
bool flip_form(Spot& at) {
  at.step().flags ^= kPartialIncoming;
  return at.step().in_count > 0;
}
bool flip_dead(Spot& at) {
  at.step().flags ^= kTargetDead;
  return has_target(at.step());
}
bool flip_lands(Spot& at) {
  at.step().flags ^= kLands;
  return first_part(at.step().op) == StepOp::Recv;
}
bool own_place(Spot& at) {
  return first_part(at.step().op) == StepOp::LoadReduce && nudge(at.step().own_place, at.dice);
}
bool first_in(Spot& at) { return at.step().in_count > 0 && nudge(at.step().in_first, at.dice); }
bool first_out(Spot& at) { return at.step().out_count > 0 && nudge(at.step().out_first, at.dice); }

template <bool kLane>
bool end_in(Spot& at) {
  return edit_end(at.program.sources, at.step().in_first, at.step().in_count, at.dice, kLane);
}
template <bool kLane>
bool end_out(Spot& at) {
  return edit_end(at.program.targets, at.step().out_first, at.step().out_count, at.dice, kLane);
}
bool data_lane(Spot& at) { return nudge(at.lane.data_lane, at.dice); }

// `apply` returns false where the edit does not apply, or no executor would see it.
struct Edit {
  const char* name;
  bool (*apply)(Spot& at);
};

constexpr Edit kEdits[] = {
    {"drop the step", drop_step},
    {"repeat the step", repeat_step},
    {"swap it with another", swap_steps},
    {"swap its peers with another's", swap_ends},
    {"drop its send", drop_send_half},
    {"drop its first part", drop_first_half},
    {"forget its source", forget_source},
    {"change a count of messages", change_width},
    {"end the lane a step early", end_early},
    {"source part +-1", source_part},
    {"target part +-1", target_part},
    {"source slot +-1", source_slot},
    {"target slot +-1", target_slot},
    {"chunks +-1", chunk_count},
    {"parts of several chunks", several_parts},
    {"source buffer", source_buffer},
    {"target buffer", target_buffer},
    {"operation", change_op},
    {"flip kStaged", flip_staged},
    {"flip kTargetDead", flip_dead},
    {"flip kPartialIncoming", flip_form},
    {"flip kLands", flip_lands},
    {"own place +-1", own_place},
    {"first message in +-1", first_in},
    {"first message out +-1", first_out},
    {"peer in +-1", end_in<false>},
    {"peer out +-1", end_out<false>},
    {"lane in +-1", end_in<true>},
    {"lane out +-1", end_out<true>},
    {"data lane +-1", data_lane},
};

// Tries one edit, of one rank or of all. Returns an empty text where it changed nothing.
std::string try_edit(std::vector<Lowered>& programs, std::mt19937_64& random) {
  const Edit& edit = kEdits[random() % std::size(kEdits)];
  const std::size_t rank = random() % programs.size();
  const bool everywhere = random() % 3 == 0;
  const std::uint64_t lane_dice = random(), step_dice = random(), dice = random();
  std::string where;
  for (std::size_t i = 0; i < programs.size(); ++i) {
    if (!everywhere && i != rank) continue;
    LoweredLane& lane = programs[i].lanes[lane_dice % programs[i].lanes.size()];
    if (lane.step_count == 0) continue;
    const auto step = static_cast<std::uint32_t>(step_dice % lane.step_count);
    Spot at{programs[i], lane, lane.first_step + step, dice};
    if (edit.apply(at)) where = fmt::format("lane {} step {}", lane.number, step);
  }
  if (where.empty()) return {};
  return fmt::format("{} {}: {}", everywhere ? "all ranks" : fmt::format("rank {}", rank), where, edit.name);
}

}  // namespace

std::string mutate(std::vector<Lowered>& programs, std::mt19937_64& random) {
  while (true) {
    std::vector<Lowered> edited = programs;
    if (std::string edit = try_edit(edited, random); !edit.empty()) {
      programs = std::move(edited);
      return edit;
    }
  }
}

}  // namespace wreath
