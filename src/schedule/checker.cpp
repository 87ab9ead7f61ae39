// What each step means to values and to memory.
#include "src/schedule/checker.hpp"

#include <fmt/format.h>

#include <bit>

#include "src/schedule/show.hpp"

namespace wreath {

Checker::Checker(const Machine& machine, Order order, const Geometry& geometry, bool in_place)
    : machine_(machine),
      order_(order),
      values_(machine.ranks()),
      clocks_(machine),
      cells_(machine, geometry, in_place),
      queues_(machine.fifos().size()),
      carried_(machine.lanes().size()) {
  for (std::uint32_t share = 0; share < cells_.shares(); ++share) {
    // Exactly, the complete value differs from share to share in its name only.
    const bool known = values_.exact() && share > 0;
    expected_.push_back(known ? expected_[0] : values_.full(share));
    expected_.back().cell = share;
    if (order_ != Order::Canonical) expected_.back().tree = 0;  // the first rank to end sets it
  }
}

bool Checker::begin(Rank rank, std::uint32_t) {
  cells_.reset(rank, values_);
  return true;
}

std::string Checker::wrong_with(const Value* value, std::uint32_t share) {
  if (value == nullptr) return "undefined";
  if (value->cell != share) return "made of other elements";
  Value& wanted = expected_[share];
  if (value->contributions != wanted.contributions) {
    if (!values_.exact()) return "not the sum over all ranks";
    return fmt::format("made of {} of {} ranks", std::popcount(value->contributions), machine_.ranks());
  }
  if (wanted.tree == 0) wanted.tree = value->tree;
  if (value->tree == wanted.tree) return {};
  return order_ == Order::Canonical ? "summed in another order than the canonical one"
                                    : "summed in another order than on another rank";
}

bool Checker::finish(Rank rank, std::uint32_t operation) {
  for (std::uint32_t part = 0; part < machine_.parts(); ++part) {
    const std::uint32_t first = cells_.share(part, 0, 0);
    const std::uint32_t end = part + 1 < machine_.parts() ? cells_.share(part + 1, 0, 0) : cells_.shares();
    for (std::uint32_t share = first; share < end; ++share) {
      if (cells_.elements(share) == 0) continue;
      const std::string wrong = wrong_with(cells_.peek(cells_.cell(rank, Buffer::Output, share)), share);
      if (wrong.empty()) continue;
      fault_ = fmt::format("rank {} ends operation {} with output part {} {}", rank, operation, part, wrong);
      return false;
    }
  }
  return true;
}

Checker::Place Checker::place(std::uint32_t lane, const Step& step, std::uint32_t tile) const {
  const MachineLane& fixed = machine_.lanes()[lane];
  Place at{.lane = lane, .tile = tile, .source = 0, .target = 0, .source_elements = 0, .target_elements = 0};
  if (reads_source(step.op)) {
    const std::uint32_t share = cells_.share(step.source_part, fixed.data_lane, tile);
    at.source = cells_.cell(fixed.rank, step.source_buffer, share);
    at.source_elements = cells_.elements(share);
  }
  if (has_first_part(step.op)) {
    const std::uint32_t share = cells_.share(step.target_part, fixed.data_lane, tile);
    at.target = cells_.cell(fixed.rank, step.target_buffer, share);
    at.target_elements = cells_.elements(share);
  }
  return at;
}

bool Checker::fail(std::uint32_t lane, const MachineStep& step, std::uint32_t tile, std::string_view why) {
  const auto index = static_cast<std::uint32_t>(&step - &machine_.step(machine_.lanes()[lane].first_step));
  fault_ = fmt::format("{}: {}", machine_.where(lane, index, tile), why);
  return false;
}

bool Checker::read(const Place& at, std::uint32_t cell, Value& value) {
  const Value* loaded = cells_.load(clocks_, at.lane, cell, fault_);
  if (loaded == nullptr) return false;
  value = *loaded;
  cells_.note_read(clocks_, at.lane, cell);
  return true;
}

// Takes one message into taken_.
bool Checker::take(const Place& at, std::uint32_t fifo, std::uint64_t elements) {
  Queue& queue = queues_[fifo];
  const std::uint32_t index = queue.head;
  Message& message = messages_[index];
  queue.head = message.next;
  clocks_.join(at.lane, message.stamp, fifo);
  clocks_.release(message.stamp);
  message.next = free_message_;
  free_message_ = index;
  if (message.elements != elements) {
    fault_ = fmt::format("takes a message of {} elements where it works on {}", message.elements, elements);
    return false;
  }
  taken_.push_back(message.value);
  if (message.cell == kUnlimited || elements == 0) return true;
  if (cells_.version(message.cell) != message.version) {
    fault_ =
        fmt::format("reads {} after its owner overwrote what it had sent by reference", cells_.describe(message.cell));
    return false;
  }
  cells_.note_read(clocks_, at.lane, message.cell);
  return true;
}

bool Checker::take_all(const Place& at, const MachineStep& step) {
  taken_.clear();
  for (std::uint32_t i = 0; i < step.step.in_count; ++i) {
    if (!take(at, machine_.fifo_of(step.in_first + i), at.target_elements)) return false;
  }
  return true;
}

bool Checker::compute(const Place& at, const Step& step, Value& result) {
  ValueFault fault{};
  Value source{};
  if (reads_source(step.op)) {
    if (at.source_elements != at.target_elements) {
      fault_ = fmt::format("works on {} and {} elements", at.source_elements, at.target_elements);
      return false;
    }
    if (!read(at, at.source, source)) return false;
  }
  switch (first_part(step.op)) {
    case StepOp::Recv: result = taken_[0]; break;
    case StepOp::RecvReduce: result = values_.combine(source, taken_[0], fault); break;
    case StepOp::LoadReduce:
      taken_.insert(taken_.begin() + step.own_place, source);
      result = values_.canonical(taken_, fault);
      break;
    case StepOp::Copy: result = source; break;
    default: {
      Value target{};
      if (!read(at, at.target, target)) return false;
      result = values_.combine(target, source, fault);
    }
  }
  if (fault == ValueFault::None) return true;
  fault_ = fault == ValueFault::CountedTwice ? "adds a rank's contribution a second time"
                                             : "adds elements that do not belong together";
  return false;
}

bool Checker::receive(std::uint32_t lane, const MachineStep& linked, std::uint32_t tile) {
  const Step& step = linked.step;
  clocks_.tick(lane);
  const Place at = place(lane, step, tile);
  if (!take_all(at, linked)) return fail(lane, linked, tile, fault_);
  if (at.target_elements == 0 && at.source_elements == 0) return true;
  Value result{};
  if (!compute(at, step, result)) return fail(lane, linked, tile, fault_);
  const bool dead = (step.flags & kTargetDead) != 0;
  // A copy onto itself (in place) moves nothing.
  const bool nothing = step.op == StepOp::Copy && at.source == at.target && !dead;
  if (!nothing && !cells_.store(clocks_, lane, at.target, dead ? nullptr : &result, fault_)) {
    return fail(lane, linked, tile, fault_);
  }
  carried_[lane] = result;
  return true;
}

bool Checker::send(std::uint32_t lane, const MachineStep& linked, std::uint32_t tile) {
  const Step& step = linked.step;
  clocks_.tick(lane);
  const Place at = place(lane, step, tile);
  const bool fused = has_first_part(step.op);
  const std::uint32_t cell = fused ? at.target : at.source;
  const std::uint64_t elements = fused ? at.target_elements : at.source_elements;
  const bool staged = (step.flags & kStaged) != 0;
  Message message{.value = carried_[lane],
                  .elements = elements,
                  .cell = staged ? kUnlimited : cell,
                  .version = cells_.version(cell),
                  .stamp = {},
                  .next = kUnlimited};
  if (elements > 0 && !(fused && (step.flags & kTargetDead) != 0)) {
    const Value* value = cells_.load(clocks_, lane, cell, fault_);
    if (value == nullptr) return fail(lane, linked, tile, fault_);
    if (staged) cells_.note_read(clocks_, lane, cell);
    message.value = *value;
  }
  for (std::uint32_t i = 0; i < step.out_count; ++i) {
    message.stamp = clocks_.stamp(lane);
    push(machine_.fifo_of(linked.out_first + i), message);
  }
  return true;
}

void Checker::push(std::uint32_t fifo, const Message& message) {
  std::uint32_t index = free_message_;
  if (index == kUnlimited) {
    index = static_cast<std::uint32_t>(messages_.size());
    messages_.push_back(message);
  } else {
    free_message_ = messages_[index].next;
    messages_[index] = message;
  }
  Queue& queue = queues_[fifo];
  (queue.head == kUnlimited ? queue.head : messages_[queue.tail].next) = index;
  queue.tail = index;
}

}  // namespace wreath
