// Round robin over lanes: a lane that waits lets the others work.
#include "src/executor/host.hpp"

namespace wreath {

void LaneScheduler::start(Plan& plan, const OperationState& state, const HostProcessor& processor) {
  plan_ = &plan;
  state_ = state;
  state_.steps = plan.lowered.steps.data();
  state_.targets = plan.targets.data();
  state_.sources = plan.sources.data();
  state_.target_count = static_cast<std::uint32_t>(plan.targets.size());
  processor_ = processor;
  lanes_.resize(plan.lowered.lanes.size());
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    const LoweredLane& lowered = plan.lowered.lanes[i];
    lanes_[i] = LaneState{};
    lanes_[i].first = lanes_[i].step = lowered.first_step;
    lanes_[i].end = lowered.first_step + lowered.step_count;
    lanes_[i].data_lane = lowered.data_lane;
    lanes_[i].done = lowered.step_count == 0 || state_.geometry.tiles == 0;
  }
  left_ = 0;
  for (const LaneState& lane : lanes_) left_ += lane.done ? 0 : 1;
  next_ = 0;
  failed_ = nullptr;
}

Advance LaneScheduler::run(int budget) {
  bool advanced = false;
  std::size_t blocked = 0;
  while (left_ > 0 && blocked < lanes_.size() && budget > 0) {
    LaneState& lane = lanes_[next_];
    next_ = next_ + 1 == lanes_.size() ? 0 : next_ + 1;
    if (lane.done) {
      ++blocked;
      continue;
    }
    switch (try_step(state_, lane, processor_)) {
      case Advance::Blocked: ++blocked; continue;
      case Advance::Failed: failed_ = &lane; return Advance::Failed;
      case Advance::Done: --left_; break;
      case Advance::Advanced: break;
    }
    --budget;
    blocked = 0;
    advanced = true;
  }
  if (left_ == 0 && drained()) return Advance::Done;
  return advanced ? Advance::Advanced : Advance::Blocked;
}

// User memory that was sent by reference was read, and a pump holds nothing back.
bool LaneScheduler::drained() const {
  bool referenced = false;
  for (const LaneState& lane : lanes_) referenced = referenced || lane.referenced;
  for (const SendFifo* fifo : plan_->targets) {
    if ((referenced || fifo->by_reference) && !wreath::drained(*fifo)) return false;
  }
  return true;
}

const FifoEnd* LaneScheduler::waiting_for() const {
  for (const LaneState& lane : lanes_) {
    if (lane.done) continue;
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
