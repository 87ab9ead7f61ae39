// This file runs one rank's actions in order.
#include "training/pipeline/pipeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <string>

#include "training/pipeline/verify.hpp"
#include "training/pipeline/walk.hpp"
#include "training/random/philox.hpp"

namespace wreath::training {

namespace {

std::int64_t clock_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void begin_at_zero(std::vector<Timeline>& timelines) {
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  for (const Timeline& timeline : timelines) first = std::min(first, timeline.front().start_ns);
  for (Timeline& timeline : timelines) {
    for (TimedAction& timed : timeline) {
      timed.start_ns -= first;
      timed.end_ns -= first;
    }
  }
}

Status check_own(const Group& group, const PipelineSchedule& schedule, const std::vector<Stage*>& chunks) {
  if (const Result<ScheduleProof> proof = verify(schedule); !proof) return proof.error();
  if (schedule.ranks != group.ranks()) {
    return invalid(
        fmt::format("a pipeline schedule of {} ranks in group {} of {}", schedule.ranks, group.name(), group.ranks()));
  }
  if (chunks.size() != static_cast<std::size_t>(schedule.chunks_per_rank)) {
    return invalid(fmt::format("{} chunks for a pipeline schedule of {} chunks per rank", chunks.size(),
                               schedule.chunks_per_rank));
  }
  for (const Stage* chunk : chunks) {
    if (chunk == nullptr) return invalid("a chunk of a pipeline is null");
    if (chunk->boundary_count() != chunks[0]->boundary_count()) {
      return invalid(fmt::format("chunks of a pipeline have boundaries of {} and of {} floats",
                                 chunks[0]->boundary_count(), chunk->boundary_count()));
    }
  }
  return {};
}

// Returns the same verdict on all ranks.
Status agree(Group& group, const PipelineSchedule& schedule, const std::vector<Stage*>& chunks, const Status& own) {
  struct Row {
    std::int64_t good, schedule, boundary;
  };
  static_assert(sizeof(Row) == 3 * sizeof(std::int64_t));
  const Row mine{own ? 1 : 0, own ? static_cast<std::int64_t>(fingerprint(to_text(schedule))) : 0,
                 own ? static_cast<std::int64_t>(chunks[0]->boundary_count()) : 0};
  std::vector<Row> all(static_cast<std::size_t>(group.ranks()));
  WREATH_TRY(group.communicator().all_gather(&mine, all.data(), 3, DataType::Int64));
  WREATH_TRY(own);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const Row& row = all[rank];
    if (row.good == 0) return invalid(fmt::format("rank {} of group {} has no valid pipeline", rank, group.name()));
    if (row.schedule != all[0].schedule) {
      return invalid(fmt::format("ranks 0 and {} of group {} have different pipeline schedules", rank, group.name()));
    }
    if (row.boundary != all[0].boundary) {
      return invalid(fmt::format("ranks 0 and {} of group {} have pipeline boundaries of {} and of {} floats", rank,
                                 group.name(), all[0].boundary, row.boundary));
    }
  }
  return {};
}

// Runs a function where an exception leaves the scope.
class OnException {
 public:
  explicit OnException(std::function<void()> run) : run_(std::move(run)) {}
  OnException(const OnException&) = delete;
  OnException& operator=(const OnException&) = delete;
  ~OnException() {
    if (armed_) run_();
  }
  void disarm() noexcept { armed_ = false; }

 private:
  std::function<void()> run_;
  bool armed_ = true;
};

}  // namespace

Result<Pipeline> Pipeline::create(Group& group, PipelineSchedule schedule, std::vector<Stage*> chunks,
                                  MemoryAccounting& memory) {
  const Status own = check_own(group, schedule, chunks);
  if (group.alone()) {
    WREATH_TRY(own);
  } else {
    WREATH_TRY(agree(group, schedule, chunks, own));
  }
  Result<Links> links = connect_links(group, schedule.chunks_per_rank > 1);
  if (!links) return links.error();
  return Pipeline(group, std::move(schedule), std::move(chunks), memory, std::move(*links));
}

Pipeline::Pipeline(Group& group, PipelineSchedule schedule, std::vector<Stage*> chunks, MemoryAccounting& memory,
                   Links links)
    : group_(&group),
      schedule_(std::move(schedule)),
      chunks_(std::move(chunks)),
      links_(std::move(links)),
      buffers_(memory, chunks_[0]->boundary_count()) {}

void Pipeline::abort() noexcept {
  for (Link* link : links_.all()) link->abort();
}

void Pipeline::run_step() {
  timeline_.clear();
  run_actions(schedule_.actions[static_cast<std::size_t>(group_->rank())]);
}

void Pipeline::run_forward() {
  std::vector<Action> forward;
  for (const Action& action : schedule_.actions[static_cast<std::size_t>(group_->rank())]) {
    if (action.kind == ActionKind::Forward) forward.push_back(action);
  }
  Timeline kept = std::move(timeline_);
  run_actions(forward);
  timeline_ = std::move(kept);
}

void Pipeline::run_actions(std::span<const Action> actions) {
  OnException failure([this] {
    abort();
    activations_.clear();
    gradients_.clear();
    for (Link* link : links_.all()) link->drop();
    buffers_.clear();
  });
  buffers_.begin(chunks_[0]->boundary_count());
  post_receive(actions[0]);
  for (std::size_t i = 0; i < actions.size(); ++i) {
    if (i + 1 < actions.size()) post_receive(actions[i + 1]);
    run(actions[i]);
  }
  links_.activations_out.finish_sending(buffers_);
  links_.gradients_out.finish_sending(buffers_);
  buffers_.clear();
  failure.disarm();
}

void Pipeline::post_receive(const Action& action) {
  const Messages messages = messages_of(schedule_, group_->rank(), action);
  if (group_->alone() || !messages.takes) return;
  (messages.gradient ? links_.gradients_in : links_.activations_in).post_receive(buffers_);
}

void Pipeline::run(const Action& action) {
  const Messages messages = messages_of(schedule_, group_->rank(), action);
  const int number = schedule_.stage_of(group_->rank(), action.chunk);
  const Key key{number, action.micro_batch};
  Buffer<float> taken = messages.takes ? take(messages.gradient, key) : Buffer<float>();
  Buffer<float> given = messages.gives ? buffers_.take() : Buffer<float>();
  const std::int64_t start = clock_ns();
  compute(action, taken.span(), given.span());
  timeline_.push_back({action, start, clock_ns()});
  if (messages.takes) buffers_.give(std::move(taken));
  const int receiver = messages.gradient ? number - 1 : number + 1;
  if (messages.gives) give(messages.gradient, {receiver, action.micro_batch}, std::move(given));
}

void Pipeline::compute(const Action& action, std::span<const float> taken, std::span<float> given) {
  Stage& stage = *chunks_[static_cast<std::size_t>(action.chunk)];
  switch (action.kind) {
    case ActionKind::Forward: return stage.forward(action.micro_batch, taken, given);
    case ActionKind::BackwardInput: return stage.backward(action.micro_batch, taken, given);
    case ActionKind::BackwardWeights: return stage.backward_weights(action.micro_batch);
    case ActionKind::Backward: return stage.backward_whole(action.micro_batch, taken, given);
  }
}

Buffer<float> Pipeline::take(bool gradient, const Key& key) {
  if (!group_->alone()) return (gradient ? links_.gradients_in : links_.activations_in).receive();
  auto node = (gradient ? gradients_ : activations_).extract(key);
  return std::move(node.mapped());
}

void Pipeline::give(bool gradient, const Key& key, Buffer<float> message) {
  if (!group_->alone()) {
    return (gradient ? links_.gradients_out : links_.activations_out).send(std::move(message), buffers_);
  }
  (gradient ? gradients_ : activations_).emplace(key, std::move(message));
}

Timeline Pipeline::timeline_of(int rank, std::int64_t origin_ns) {
  const std::vector<Action>& actions = schedule_.actions[static_cast<std::size_t>(rank)];
  std::vector<std::int64_t> times(2 * actions.size());
  const bool own = rank == group_->rank();
  for (std::size_t i = 0; own && i < timeline_.size(); ++i) {
    times[2 * i] = timeline_[i].start_ns - origin_ns;
    times[2 * i + 1] = timeline_[i].end_ns - origin_ns;
  }
  if (!group_->alone()) group_->communicator().broadcast(std::span(times), static_cast<Rank>(rank)).value();
  Timeline timeline;
  for (std::size_t i = 0; i < actions.size(); ++i) timeline.push_back({actions[i], times[2 * i], times[2 * i + 1]});
  return timeline;
}

std::vector<Timeline> Pipeline::gather_timelines() {
  if (timeline_.empty()) throw Exception({ErrorCode::InvalidUsage, "gather_timelines: run_step was left out"});
  if (!group_->alone()) group_->communicator().barrier().value();
  const std::int64_t origin_ns = clock_ns();
  std::vector<Timeline> all;
  for (int rank = 0; rank < group_->ranks(); ++rank) all.push_back(timeline_of(rank, origin_ns));
  begin_at_zero(all);
  return all;
}

}  // namespace wreath::training
