// Resident lanes take turns, round robin: a lane that waits lets the others work.
#include "src/executor/host.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "src/base/clock.hpp"

namespace wreath {
namespace {

constexpr std::uint64_t kLineBytes = 64;

std::byte* line_from(std::byte* memory) { return memory + (0 - reinterpret_cast<std::uintptr_t>(memory)) % kLineBytes; }

void place_lanes(Plan& plan, OperationState& state) {
  state.slots[static_cast<int>(Buffer::Scratch)] = plan.lowered.scratch_slots;
  state.slots[static_cast<int>(Buffer::Partial)] = plan.lowered.partial_slots;
  const auto [scratch, partial] = places_of(plan, state.geometry);
  if (scratch + partial > plan.scratch_bytes) {
    plan.scratch.reset();
    // The memory is not zeroed, so each page is first touched by the thread that writes it.
    plan.scratch.reset(new std::byte[scratch + partial + kLineBytes]);
    plan.scratch_bytes = scratch + partial;
  }
  std::byte* const memory = scratch + partial == 0 ? nullptr : line_from(plan.scratch.get());
  state.buffers[static_cast<int>(Buffer::Scratch)] = memory;
  state.buffers[static_cast<int>(Buffer::Partial)] = memory == nullptr ? nullptr : memory + scratch;
}

void set_forms(OperationState& state, const Arithmetic& arithmetic) {
  state.plain_forms = OperationState().plain_forms;
  state.premultiplies = false;
  if (arithmetic.combine == nullptr) return;
  state.plain_forms = 0;
  for (const Form from : {Form::Data, Form::Partial}) {
    for (const Form to : {Form::Data, Form::Partial}) {
      const unsigned plain = arithmetic.moves(from, to) ? 1U : 0U;
      state.plain_forms = static_cast<std::uint8_t>(state.plain_forms | plain << OperationState::forms_bit(from, to));
    }
  }
  state.premultiplies = arithmetic.reduction.op == ReduceOp::PremultipliedSum;
}

}  // namespace

LanePlaces places_of(const Plan& plan, const Geometry& geometry) {
  const auto bytes_of = [&](Buffer buffer, std::uint32_t slots) {
    const std::uint64_t places = std::uint64_t{slots} * plan.lowered.lanes.size();
    return round_up(places * geometry.tile * geometry.bytes_of(form_of(buffer)), kLineBytes);
  };
  return {bytes_of(Buffer::Scratch, plan.lowered.scratch_slots), bytes_of(Buffer::Partial, plan.lowered.partial_slots)};
}

OperationState begin_operation(Plan& plan, const OperationState& call, const Arithmetic& arithmetic) {
  OperationState state = call;
  state.steps = plan.lowered.steps.data();
  state.several = plan.lowered.several.data();
  state.targets = plan.targets.data();
  state.sources = plan.sources.data();
  state.step_major = plan.lowered.step_major;
  set_forms(state, arithmetic);
  place_lanes(plan, state);
  return state;
}

LaneState begin_lane(const Plan& plan, const OperationState& state, std::size_t index) {
  const LoweredLane& lowered = plan.lowered.lanes[index];
  return {.first = lowered.first_step,
          .end = lowered.first_step + lowered.step_count,
          .step = lowered.first_step,
          .index = static_cast<std::uint16_t>(index),
          .data_lane = lowered.data_lane,
          .number = lowered.number,
          .local = lowered.local,
          .done = lowered.step_count == 0 || state.geometry.tiles == 0};
}

bool LaneScheduler::prepare_to_pull() {
  if (pulled_ == nullptr) pulled_.reset(new (std::nothrow) std::byte[HostProcessor::kPulledBytes + kLineBytes]);
  return pulled_ != nullptr;
}

void LaneScheduler::start(Plan& plan, const OperationState& state, const HostProcessor& processor,
                          std::size_t resident) {
  plan_ = &plan;
  state_ = begin_operation(plan, state, processor.arithmetic);
  processor_ = processor;
  processor_.pulled = pulled_ == nullptr ? nullptr : line_from(pulled_.get());
  read_ahead_.assign(plan.lowered.steps.size(), ReadAhead{});
  processor_.read_ahead = read_ahead_.data();
  lanes_.assign(plan.lowered.lanes.size(), LaneState{});
  running_.clear();
  turn_ = 0;
  begun_ = 0;
  names_ = false;
  failed_ = nullptr;
  while (begun_ < lanes_.size() && running_.size() < resident) add_lane();
}

// Makes the next lane resident, if it has anything to do.
void LaneScheduler::add_lane() {
  lanes_[begun_] = begin_lane(*plan_, state_, begun_);
  const LaneState& lane = lanes_[begun_++];
  if (!lane.done) running_.push_back(lane.index);
}

// Gives the lane's place in running_ to the next lane.
void LaneScheduler::end_lane(std::size_t place) {
  running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(place));
  const std::size_t left = running_.size();
  while (begun_ < lanes_.size() && running_.size() == left) add_lane();
}

Advance LaneScheduler::advance(LaneState& lane) {
  if (state_.loop != HandwrittenLoop::None) return processor_.by_hand(state_, lane, processor_, trace_);
  return trace_ == nullptr ? try_step(state_, lane, processor_) : advance_traced(lane);
}

Advance LaneScheduler::advance_traced(LaneState& lane) {
  StepEvent event{};
  event.step = lane.step - lane.first;
  event.tile = lane.tile;
  event.lane = lane.number;
  event.op = state_.steps[lane.step].op;
  const bool empty = StepRunner<HostProcessor>(state_, lane, processor_).elements() == 0;
  event.begin_ns = now_ns();
  const Advance advanced = try_step(state_, lane, processor_);
  event.end_ns = now_ns();
  const bool moved = advanced == Advance::Advanced || advanced == Advance::Done;
  if (moved && !empty) trace_->add(event);
  return advanced;
}

// A lane without messages copies data that another lane may just have put into a slot, and read for that. So it takes
// its turns. Where nothing is put into slots, it goes on when readers know where all data is, and before messages are
// read, which would push its data out of the caches.
Advance LaneScheduler::run(int budget) {
  const auto waits_for_own = [this](const LaneState& lane) {
    return names_ && (lane.local || (reads_in_place(lane) && copies_own()));
  };
  bool advanced = false;
  std::size_t blocked = 0;
  std::uint64_t moved = 0;
  while (blocked < running_.size() && budget > 0 && moved < kBytesARun) {
    if (turn_ >= running_.size()) turn_ = 0;
    LaneState& lane = lanes_[running_[turn_]];
    const std::uint64_t moved_before = lane.sent_bytes + lane.taken_bytes;
    ++turn_;
    switch (waits_for_own(lane) ? Advance::Blocked : advance(lane)) {
      case Advance::Blocked: ++blocked; continue;
      case Advance::Failed: failed_ = &lane; return Advance::Failed;
      case Advance::Done: end_lane(--turn_); break;
      case Advance::Advanced: break;
    }
    if (std::exchange(lane.named, false)) {
      names_ = true;
      if (!lane.done) --turn_;
    }
    if (state_.order == LaneOrder::Lowest) turn_ = 0;
    moved += lane.sent_bytes + lane.taken_bytes - moved_before;
    --budget;
    blocked = 0;
    advanced = true;
  }
  waits_ = !advanced && !running_.empty();
  if (!advanced && names_) advanced = advance_local();
  if (running_.empty() && drained()) return Advance::Done;
  return advanced ? Advance::Advanced : Advance::Blocked;
}

void LaneScheduler::adopt(std::span<const LaneState> states) {
  for (const LaneState& state : states) {
    lanes_[state.index] = state;
    if (state.fault != Fault::None) failed_ = &lanes_[state.index];
  }
  std::erase_if(running_, [&](std::uint16_t index) { return lanes_[index].done; });
}

// Returns whether the lane's next message may lie in its sender's memory. Nothing that comes over a wire does.
bool LaneScheduler::reads_in_place(const LaneState& lane) const {
  const Step& step = state_.steps[lane.step];
  if (step.in_count == 0) return false;
  const std::uint32_t next = std::min<std::uint32_t>(lane.arrived, step.in_count - 1U);
  return plan_->sources[step.in_first + next]->owner_aborted != nullptr;
}

bool LaneScheduler::copies_own() const {
  return std::any_of(running_.begin(), running_.end(), [&](std::uint16_t i) { return lanes_[i].local; });
}

// Advances the first lane without messages by one step. Returns false where there is no such lane.
bool LaneScheduler::advance_local() {
  const auto lane = std::find_if(running_.begin(), running_.end(), [&](std::uint16_t i) { return lanes_[i].local; });
  if (lane == running_.end()) return false;
  if (advance(lanes_[*lane]) == Advance::Done) end_lane(static_cast<std::size_t>(lane - running_.begin()));
  return true;
}

// Returns whether user memory that was sent by reference was read, and no pump holds anything back.
bool LaneScheduler::drained() const {
  const bool referenced = std::any_of(lanes_.begin(), lanes_.end(), [](const auto& lane) { return lane.referenced; });
  for (const SendFifo* fifo : plan_->targets) {
    if ((referenced || fifo->by_reference) && !wreath::drained(*fifo)) return false;
  }
  return true;
}

std::uint64_t LaneScheduler::sent_bytes() const {
  std::uint64_t bytes = 0;
  for (const LaneState& lane : lanes_) bytes += lane.sent_bytes;
  return bytes;
}

bool LaneScheduler::waits_for(int peer) const {
  if (!waits_ || running_.size() > 1) return waits_;
  const FifoEnd* const end = waiting_for();
  return end == nullptr || end->peer == peer;
}

const FifoEnd* LaneScheduler::waiting_for() const {
  for (const std::uint16_t index : running_) {
    const LaneState& lane = lanes_[index];
    if (lane.elements == kNotBegun || lane.elements == 0) continue;
    const Step& step = state_.steps[lane.step];
    const bool receives = step.in_count > 0 && !lane.received;
    if (receives && lane.arrived < step.in_count) return &plan_->lowered.sources[step.in_first + lane.arrived];
    for (std::uint32_t i = 0; i < step.out_count; ++i) {
      if (!has_credit(*state_.targets[step.out_first + i])) return &plan_->lowered.targets[step.out_first + i];
    }
  }
  for (std::size_t i = 0; i < plan_->targets.size(); ++i) {
    if (!wreath::drained(*plan_->targets[i])) return &plan_->lowered.targets[i];
  }
  return nullptr;
}

}  // namespace wreath
