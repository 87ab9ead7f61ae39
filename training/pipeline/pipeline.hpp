// Pipeline runs this rank's part of a schedule over its stages, and exchanges their messages with its neighbours.
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

// Runs on one rank and one thread. A step sends 2 x micro-batches x (stages - 1) messages of boundary_count() floats
// over all ranks. A pipeline of one rank sends none. They count as "send" and "recv" under the group's name. Messages
// take the queues of verify.hpp, each of which has a communicator of its own. Sends have their own buffers and go on
// while the rank computes, and a receive is posted one action ahead. Buffers count as Activations, and are held within
// run_step only.
class Pipeline {
 public:
  // Makes the pipeline. Every rank of `group` (a mesh's pp) calls it with the same schedule, which is verified, and
  // with its own chunks in order. The chunks, the group and `memory` outlive the pipeline.
  //
  // The error is the same on all ranks. It is InvalidArgument for a bad schedule, another number of ranks or chunks, or
  // where ranks differ in schedule or boundary_count(). Otherwise it is the communicator's error.
  static Result<Pipeline> create(Group& group, PipelineSchedule schedule, std::vector<Stage*> chunks,
                                 MemoryAccounting& memory);
  Pipeline(Pipeline&&) noexcept = default;
  Pipeline& operator=(Pipeline&&) = delete;
  ~Pipeline() = default;

  // Runs forward and backward of all micro-batches. An exception of an action reaches the neighbours: all ranks throw,
  // and the pipeline cannot be used again. The caller decides whether its group can. The stages then keep their state.
  void run_step();
  // Runs only the forward passes of the schedule, for validation; stages keep nothing. boundary_count() may have
  // changed since the last run, alike on all ranks. The timeline stays as it was.
  void run_forward();
  // Makes run_step fail on all ranks. Any thread may call it.
  void abort() noexcept;

  const PipelineSchedule& schedule() const noexcept { return schedule_; }
  // Returns the times at which each action of this rank's last step computed, by the steady clock. They exclude the
  // waits for messages.
  const Timeline& timeline() const noexcept { return timeline_; }
  // Returns the timelines of all ranks, in order, with times since the first start. Every rank calls it, after
  // run_step. Ranks read their clocks as they leave a barrier, so times agree between hosts, too, to within a message's
  // time. It does not count as traffic. Throws InvalidUsage, on all ranks, where run_step was left out.
  std::vector<Timeline> gather_timelines();

 private:
  using Key = std::pair<int, int>;  // stage, micro-batch
  using Kept = std::map<Key, Buffer<float>>;

  Pipeline(Group& group, PipelineSchedule schedule, std::vector<Stage*> chunks, MemoryAccounting& memory, Links links);
  void run_actions(std::span<const Action> actions);
  // Posts the receive for the action's message, where the action takes one from a neighbour.
  void post_receive(const Action& action);
  void run(const Action& action);
  void compute(const Action& action, std::span<const float> taken, std::span<float> given);
  // The key names the stage that takes the message.
  Buffer<float> take(bool gradient, const Key& key);
  void give(bool gradient, const Key& key, Buffer<float> message);
  Timeline timeline_of(int rank, std::int64_t origin_ns);

  Group* group_;
  PipelineSchedule schedule_;
  std::vector<Stage*> chunks_;
  Links links_;
  BoundaryBuffers buffers_;
  // Used in a pipeline of one rank, for the stage of the key.
  Kept activations_, gradients_;
  Timeline timeline_;
};

}  // namespace wreath::training
