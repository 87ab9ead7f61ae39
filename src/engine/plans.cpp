// A schedule becomes lowered steps, which are then bound to FIFOs.
#include "src/engine/plans.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/log.hpp"
#include "src/fifo/access.hpp"
#include "src/schedule/lower.hpp"
#include "src/schedule/meaning.hpp"

namespace wreath {

Status bind_fifos(Links& links, Plan& plan) {
  plan.targets.clear();
  plan.sources.clear();
  for (const FifoEnd& end : plan.lowered.targets) {
    WREATH_TRY(links.link(end.peer)->prepare(end.lane));
    plan.targets.push_back(&links.link(end.peer)->send_fifo(end.lane));
  }
  for (const FifoEnd& end : plan.lowered.sources) {
    if (links.wire(end.peer) != nullptr) WREATH_TRY(links.link(end.peer)->prepare(end.lane));
    plan.sources.push_back(&links.link(end.peer)->recv_fifo(end.lane));
  }
  return {};
}

Result<Plan*> Plans::find(const Choice& choice, Rank root) {
  for (const Entry& entry : entries_) {
    if (entry.algorithm == choice.algorithm && entry.data_lanes == choice.data_lanes && entry.root == root) {
      return entry.plan.get();
    }
  }
  auto plan = make(choice, root);
  if (!plan) return plan.error();
  entries_.push_back({choice.algorithm, choice.data_lanes, root, std::move(*plan)});
  return entries_.back().plan.get();
}

Result<std::unique_ptr<Plan>> Plans::make(const Choice& choice, Rank root) {
  const Schedule schedule = choice.algorithm->build({choice.algorithm->collective, ranks_, root}, rank_);
  auto lowered = lower(schedule, rank_, choice.data_lanes, has_in_place(choice.algorithm->collective));
  if (!lowered) return lowered.error();
  if (lowered->lanes.size() > lanes_) {
    return Error{ErrorCode::InvalidArgument,
                 fmt::format("lanes = {}: {} would need {} lanes, the limit is {}", choice.data_lanes,
                             choice.algorithm->name, lowered->lanes.size(), lanes_)};
  }
  auto plan = std::make_unique<Plan>();
  plan->lowered = std::move(*lowered);
  WREATH_TRY(bind_fifos(links_, *plan));
  log_trace("plan of {} {}, root {}: {} lanes, {} steps", name(choice.algorithm->collective), choice.algorithm->name,
            root, plan->lowered.lanes.size(), plan->lowered.steps.size());
  return plan;
}

bool Plans::enter(const Plan& plan) {
  if (shared_ == &plan) return true;
  if (shared_ != nullptr) {
    for (const SendFifo* fifo : shared_->targets) {
      if (!drained(*fifo)) return false;
    }
  }
  const bool shares = std::any_of(plan.lowered.steps.begin(), plan.lowered.steps.end(),
                                  [](const Step& step) { return step.out_count > 1; });
  shared_ = shares ? &plan : nullptr;
  return true;
}

}  // namespace wreath
