// Pipeline: runs this rank's part of a schedule over its stages, and passes what they exchange on to its neighbours.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "training/compute/memory.hpp"
#include "training/mesh/group.hpp"
#include "training/pipeline/links.hpp"
#include "training/pipeline/schedule.hpp"
#include "training/pipeline/stage.hpp"
#include "training/pipeline/timeline.hpp"

namespace wreath::training {

// One rank's; of one thread. A step sends 2 x micro-batches x (stages - 1) messages of boundary_count() floats over all
// ranks (none of a pipeline of one rank), counted as "send" and "recv" under the group's name. Messages take the queues
// of verify.hpp: each has a communicator of its own, sends have their own buffers and go on while the rank computes,
// and a receive is posted one action ahead. Buffers are counted as Activations, and held within run_step only.
class Pipeline {
 public:
  // Every rank of `group` (a mesh's pp) calls it with the same schedule, which is verified, and with its own chunks in
  // order; these, the group and `memory` outlive the pipeline.
  // Error, the same on all ranks: InvalidArgument of a bad schedule, another number of ranks or chunks, or where ranks
  // differ in schedule or boundary_count(); else the communicator's.
  static Result<Pipeline> create(Group& group, PipelineSchedule schedule, std::vector<Stage*> chunks,
                                 MemoryAccounting& memory);
  Pipeline(Pipeline&&) noexcept = default;
  Pipeline& operator=(Pipeline&&) = delete;
  ~Pipeline() = default;

  // Forward and backward of all micro-batches. Of an action's exceptions the neighbours learn: all ranks throw, and the
  // pipeline is of no more use (its group is, as the caller decides). Stages then keep what they have.
  void run_step();
  // The forward passes of the schedule alone, for validation: stages keep nothing. boundary_count() may have changed
  // since the last run, alike on all ranks. Leaves the timeline.
  void run_forward();
  // Fails run_step on all ranks. May be called from any thread.
  void abort() noexcept;

  const PipelineSchedule& schedule() const noexcept { return schedule_; }
  // When each action of this rank's last step computed, by the steady clock: without the waits for messages.
  const Timeline& timeline() const noexcept { return timeline_; }
  // Of all ranks, in order, with times since the first start. Every rank calls it, after run_step. Ranks read their
  // clocks as they leave a barrier, so it holds between hosts too, to within a message's time. Not counted as traffic.
  // Throws InvalidUsage, on all ranks, where run_step was left out.
  std::vector<Timeline> gather_timelines();

 private:
  using Key = std::pair<int, int>;  // stage, micro-batch
  using Kept = std::map<Key, Buffer<float>>;

  Pipeline(Group& group, PipelineSchedule schedule, std::vector<Stage*> chunks, MemoryAccounting& memory, Links links);
  void run_actions(std::span<const Action> actions);
  // That the action will take, where it takes one from a neighbour.
  void post_receive(const Action& action);
  void run(const Action& action);
  void compute(const Action& action, std::span<const float> taken, std::span<float> given);
  // The key is of the stage that takes.
  Buffer<float> take(bool gradient, const Key& key);
  void give(bool gradient, const Key& key, Buffer<float> message);
  Timeline timeline_of(int rank, std::int64_t origin_ns);

  Group* group_;
  PipelineSchedule schedule_;
  std::vector<Stage*> chunks_;
  Links links_;
  BoundaryBuffers buffers_;
  Kept activations_, gradients_;  // of a pipeline of one rank: for the stage of the key
  Timeline timeline_;
};

}  // namespace wreath::training
