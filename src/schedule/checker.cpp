// Defines what each step means to values and to memory.
#include "src/schedule/checker.hpp"

#include <fmt/format.h>

#include <bit>
#include <utility>

#include "src/schedule/show.hpp"

namespace wreath {

Checker::Checker(const Machine& machine, const Claim& claim, const Shapes& shapes, bool in_place, const Values& values)
    : machine_(machine),
      claim_(claim),
      shapes_(shapes),
      sums_(reduces(claim.problem.collective)),
      values_(values),
      clocks_(machine),
      cells_(machine, claim.problem, shapes, in_place),
      queues_(machine.fifos().size()),
      carried_(machine.lanes().size()) {
  for (std::uint32_t share = 0; sums_ && share < cells_.shares(); ++share) {
    // The complete values of shares differ only in their names where values are exact.
    const bool known = values_.exact() && share > 0;
    complete_.push_back(known ? complete_[0] : values_.full(share));
    complete_.back().cell = share;
    // The first rank to end sets the tree.
    if (claim.order != Order::Canonical) complete_.back().tree = 0;
  }
}

bool Checker::fault(std::string text) {
  fault_ = std::move(text);
  return false;
}

bool Checker::begin(Rank rank, std::uint32_t) {
  cells_.reset(rank, values_);
  return true;
}

std::string Checker::wrong_with(const Value* value, const Owed& owed, std::uint32_t share) {
  if (value == nullptr) return "undefined";
  if (value->cell != share) return "made of other elements";
  if (!owed.sum) {
    return value->contributions == values_.leaf(owed.rank, share).contributions ? "" : "from another rank";
  }
  Value& wanted = complete_[share];
  if (value->stage != Stage::Finished) return "an input, not a result";
  if (value->contributions != wanted.contributions) {
    if (!values_.exact()) return "not the sum over all ranks";
    return fmt::format("made of {} of {} ranks", std::popcount(value->contributions), machine_.ranks());
  }
  if (values_.overlapping()) return {};
  if (wanted.tree == 0) wanted.tree = value->tree;
  if (value->tree == wanted.tree) return {};
  return claim_.order == Order::Canonical ? "summed in another order than the canonical one"
                                          : "summed in another order than on another rank";
}

bool Checker::finish(Rank rank, std::uint32_t operation) {
  const auto [first, count] = cells_.held(rank, Buffer::Output);
  for (std::uint32_t part = first; part < first + count; ++part) {
    const Owed due = owed(claim_.problem, rank, part);
    for (std::uint16_t data_lane = 0; data_lane < machine_.data_lanes(); ++data_lane) {
      for (std::uint32_t tile = 0; tile < cells_.tiles(); ++tile) {
        if (shapes_[rank].range(Buffer::Output, part, data_lane, tile).count == 0) continue;
        const Value* value = cells_.peek(cells_.cell(rank, Buffer::Output, part, data_lane, tile));
        const std::string wrong = wrong_with(value, due, cells_.share(due.part, data_lane, tile));
        if (wrong.empty()) continue;
        return fault(fmt::format("rank {} ends operation {} with output part {} {}", rank, operation, part, wrong));
      }
    }
  }
  return true;
}

bool Checker::find(Operand& operand, std::uint32_t lane, std::uint32_t part, std::uint32_t slot, std::uint32_t tile) {
  const MachineLane& fixed = machine_.lanes()[lane];
  operand.elements = shapes_[fixed.rank].range(operand.buffer, part, fixed.data_lane, tile).count;
  if (is_lanes_own(operand.buffer)) {
    operand.cell = cells_.slot(lane, operand.buffer, slot);
    return sums_ || operand.buffer == Buffer::Scratch || fault("uses Partial, but the collective has no sums");
  }
  operand.cell = cells_.cell(fixed.rank, operand.buffer, part, fixed.data_lane, tile);
  return operand.cell != kUnlimited || operand.elements == 0 ||
         fault(fmt::format("uses {} part {}, which the rank does not have", name(operand.buffer), part));
}

bool Checker::find_places(std::uint32_t lane, const Step& step, std::uint32_t tile) {
  places_.assign(step.chunks, {});
  for (std::uint32_t i = 0; i < step.chunks; ++i) {
    Operand &source = places_[i].source, &target = places_[i].target;
    source.buffer = step.source_buffer;
    target.buffer = step.target_buffer;
    if (reads_source(step.op) &&
        !find(source, lane, machine_.part(step, step.source_part, i), step.source_slot + i, tile)) {
      return false;
    }
    if (has_first_part(step.op) &&
        !find(target, lane, machine_.part(step, step.target_part, i), step.target_slot + i, tile)) {
      return false;
    }
    if (reads_source(step.op) && has_first_part(step.op) && source.elements != target.elements) {
      return fault(fmt::format("works on {} and {} elements", source.elements, target.elements));
    }
  }
  return true;
}

bool Checker::fail(std::uint32_t lane, const MachineStep& step, std::uint32_t tile, std::string_view why) {
  const auto index = static_cast<std::uint32_t>(&step - &machine_.step(machine_.lanes()[lane].first_step));
  fault_ = fmt::format("{}: {}", machine_.where(lane, index, tile), why);
  return false;
}

bool Checker::load(std::uint32_t lane, const Operand& operand, Value& value) {
  const Value* loaded = cells_.load(clocks_, lane, operand.cell, fault_);
  if (loaded == nullptr) return false;
  value = *loaded;
  if (!sums_ || is_lanes_own(operand.buffer)) return true;
  if (operand.buffer == Buffer::Input && value.stage != Stage::Untouched) {
    return fault(fmt::format("reads {} as an input, but it holds a result", cells_.describe(operand.cell)));
  }
  if (operand.buffer == Buffer::Output && value.stage != Stage::Finished) {
    return fault(fmt::format("reads {} as a result, but it holds an input", cells_.describe(operand.cell)));
  }
  return true;
}

bool Checker::read(std::uint32_t lane, const Operand& operand, Value& value) {
  if (!load(lane, operand, value)) return false;
  cells_.note_read(clocks_, lane, operand.cell);
  return true;
}

std::uint32_t Checker::pop(std::uint32_t fifo) {
  Queue& queue = queues_[fifo];
  const std::uint32_t index = queue.head;
  queue.head = pieces_[index].next;
  pieces_[index].next = free_piece_;
  free_piece_ = index;
  return index;
}

bool Checker::take_piece(std::uint32_t lane, const Step& step, const Piece& piece, std::uint64_t elements) {
  if (piece.elements != elements) {
    return fault(fmt::format("takes a message of {} elements where it works on {}", piece.elements, elements));
  }
  taken_.push_back(piece.value);
  if (elements == 0) return true;
  const StepOp first = first_part(step.op);
  if (sums_ && first == StepOp::Recv && piece.value.stage == Stage::Untouched) {
    return fault("receives an input as it is: only a reduction may take it");
  }
  if (piece.cell == kUnlimited) return true;
  if (cells_.version(piece.cell) != piece.version) {
    return fault(
        fmt::format("reads {} after its owner overwrote what it had sent by reference", cells_.describe(piece.cell)));
  }
  cells_.note_read(clocks_, lane, piece.cell);
  return true;
}

// Takes one message into taken_.
bool Checker::take(std::uint32_t lane, const Step& step, std::uint32_t fifo) {
  const Piece& first = pieces_[queues_[fifo].head];
  clocks_.join(lane, first.stamp, fifo);
  clocks_.release(first.stamp);
  if (first.chunks != step.chunks) {
    return fault(fmt::format("takes a message of {} chunks where it works on {}", first.chunks, step.chunks));
  }
  const Form wanted = (step.flags & kPartialIncoming) != 0 ? Form::Partial : Form::Data;
  if (first.form != wanted) {
    return fault(fmt::format("takes a message of {}",
                             wanted == Form::Data ? "unfinished sums as data" : "data as unfinished sums"));
  }
  for (std::uint32_t i = 0; i < step.chunks; ++i) {
    if (!take_piece(lane, step, pieces_[pop(fifo)], places_[i].target.elements)) return false;
  }
  return true;
}

// Changes a value to what it is in `target`.
bool Checker::settle(Value& value, Buffer target) {
  if (!sums_) return true;
  if (target == Buffer::Scratch) {
    return value.stage == Stage::Finished || fault("puts what is not finished into Scratch");
  }
  if (target == Buffer::Partial) {
    if (value.stage == Stage::Finished) return fault("takes a finished sum for an unfinished one");
    value.stage = Stage::Unfinished;
    return true;
  }
  if (value.stage != Stage::Finished && value.contributions != complete_[value.cell].contributions) {
    if (!values_.exact()) return fault("finishes what is not the sum over all ranks");
    return fault(fmt::format("finishes a sum of {} of {} ranks", std::popcount(value.contributions), machine_.ranks()));
  }
  value.stage = Stage::Finished;
  return true;
}

bool Checker::compute(std::uint32_t lane, const Step& step, std::uint32_t chunk, Value& result) {
  const Place& at = places_[chunk];
  ValueFault wrong{};
  Value source{};
  if (reads_source(step.op) && !read(lane, at.source, source)) return false;
  switch (first_part(step.op)) {
    case StepOp::Recv: result = taken_[chunk]; return true;
    case StepOp::Copy: result = source; return true;
    case StepOp::RecvReduce: result = values_.combine(source, taken_[chunk], wrong); break;
    case StepOp::LoadReduce:
      taken_.insert(taken_.begin() + step.own_place, source);
      result = values_.canonical(taken_, wrong);
      break;
    default: {
      Value target{};
      if (!read(lane, at.target, target)) return false;
      result = values_.combine(target, source, wrong);
    }
  }
  if (!sums_) return fault("adds, but the collective has no sums");
  switch (wrong) {
    case ValueFault::None: return true;
    case ValueFault::CountedTwice: return fault("adds a rank's contribution a second time");
    case ValueFault::OtherElements: return fault("adds elements that do not belong together");
    case ValueFault::Finished: return fault("adds a finished sum");
  }
  return false;
}

bool Checker::do_first_part(std::uint32_t lane, const MachineStep& linked) {
  const Step& step = linked.step;
  taken_.clear();
  for (std::uint32_t i = 0; i < step.in_count; ++i) {
    if (!take(lane, step, machine_.fifo_of(linked.in_first + i))) return false;
  }
  const bool dead = (step.flags & kTargetDead) != 0;
  for (std::uint32_t i = 0; i < step.chunks; ++i) {
    const Place& at = places_[i];
    if (at.target.elements == 0) continue;
    Value result{};
    if (!compute(lane, step, i, result) || !settle(result, at.target.buffer)) return false;
    carried_[lane] = result;
    if ((step.flags & kLands) != 0 && cells_.is_touched(at.target.cell)) {
      return fault(fmt::format("takes a message that may have landed in {} before that was read or written",
                               cells_.describe(at.target.cell)));
    }
    // A copy onto itself (in place) moves nothing. A sum of one rank may still be divided.
    if (step.op == StepOp::Copy && at.source.cell == at.target.cell && !dead && !sums_) continue;
    if (!cells_.store(clocks_, lane, at.target.cell, dead ? nullptr : &result, fault_)) return false;
  }
  return true;
}

bool Checker::receive(std::uint32_t lane, const MachineStep& linked, std::uint32_t tile) {
  clocks_.tick(lane);
  if (find_places(lane, linked.step, tile) && do_first_part(lane, linked)) return true;
  return fail(lane, linked, tile, fault_);
}

bool Checker::do_send(std::uint32_t lane, const MachineStep& linked) {
  const Step& step = linked.step;
  const bool fused = has_first_part(step.op);
  const bool staged = (step.flags & kStaged) != 0;
  const bool carried = fused && (step.flags & kTargetDead) != 0;
  for (std::uint32_t i = 0; i < step.chunks; ++i) {
    const Operand& sent = fused ? places_[i].target : places_[i].source;
    Piece piece{.value = carried_[lane],
                .elements = sent.elements,
                .cell = staged || sent.elements == 0 ? kUnlimited : sent.cell,
                .version = sent.elements == 0 ? 0 : cells_.version(sent.cell),
                .stamp = {},
                .next = kUnlimited,
                .chunks = step.chunks,
                .form = form_of(sent.buffer)};
    if (sent.elements > 0 && !carried && !load(lane, sent, piece.value)) return false;
    if (sent.elements > 0 && !carried && staged) cells_.note_read(clocks_, lane, sent.cell);
    for (std::uint32_t out = 0; out < step.out_count; ++out) {
      if (i == 0) piece.stamp = clocks_.stamp(lane);
      push(machine_.fifo_of(linked.out_first + out), piece);
    }
  }
  return true;
}

bool Checker::send(std::uint32_t lane, const MachineStep& linked, std::uint32_t tile) {
  clocks_.tick(lane);
  if (find_places(lane, linked.step, tile) && do_send(lane, linked)) return true;
  return fail(lane, linked, tile, fault_);
}

void Checker::push(std::uint32_t fifo, const Piece& piece) {
  std::uint32_t index = free_piece_;
  if (index == kUnlimited) {
    index = static_cast<std::uint32_t>(pieces_.size());
    pieces_.push_back(piece);
  } else {
    free_piece_ = pieces_[index].next;
    pieces_[index] = piece;
  }
  Queue& queue = queues_[fifo];
  (queue.head == kUnlimited ? queue.head : pieces_[queue.tail].next) = index;
  queue.tail = index;
}

}  // namespace wreath
