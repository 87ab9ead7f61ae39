// Measures the cost of a step beside its bytes. Two ranks run on one thread with tiles of one line, so that no core
// waits for another.
#include <string>
#include <vector>

#include "kernels/kernels.hpp"
#include "perf/micro/buffers.hpp"
#include "src/executor/linked_ranks.hpp"
#include "src/schedule/lower.hpp"
#include "wreath/algorithm.hpp"

namespace wreath::perf {
namespace {

constexpr int kRanks = 2;
constexpr std::size_t kTileBytes = 64;
constexpr std::size_t kTiles = 64;  // of each part
constexpr FifoShape kShape{4, 4, 4096, 0, 1};

// A row of the registry for all_reduce, or messages alone.
struct Work {
  const char* name;
  const char* algorithm;  // null: a message in each direction

  Schedule schedule(Rank me) const {
    if (algorithm != nullptr) {
      return find_algorithm(Collective::AllReduce, algorithm)->build({Collective::AllReduce, kRanks, 0}, me);
    }
    Schedule messages(1);
    messages.lane(0).send(1 - me, Chunk{Buffer::Input, 0});
    messages.lane(1).recv(1 - me, Chunk{Buffer::Output, 0}, {.lane = 0});
    return messages;
  }
};

class BothRanks {
 public:
  explicit BothRanks(const Work& work) : linked_(kRanks, kShape) {
    for (Rank rank = 0; rank < kRanks; ++rank) {
      ranks_[rank].plan.lowered = lower(work.schedule(rank), rank, 1).value();
      linked_.bind(rank, ranks_[rank].plan);
      prepare(ranks_[rank], rank, work.algorithm == nullptr ? Collective::Broadcast : Collective::AllReduce);
    }
  }

  void start(Rank rank) { ranks_[rank].lanes.start(ranks_[rank].plan, ranks_[rank].state, processor_); }
  Advance run(Rank rank, int budget) { return ranks_[rank].lanes.run(budget); }
  void call() {
    for (Rank rank = 0; rank < kRanks; ++rank) start(rank);
    for (int done = 0; done < kRanks;) {
      done = 0;
      for (Rank rank = 0; rank < kRanks; ++rank) done += run(rank, 16) == Advance::Done ? 1 : 0;
    }
  }
  // Returns the steps of a call on both ranks, each of which handles each tile of its part.
  std::size_t steps() const {
    std::size_t steps = 0;
    for (const OneRank& rank : ranks_) {
      for (const LoweredLane& lane : rank.plan.lowered.lanes) steps += lane.step_count * kTiles;
    }
    return steps;
  }

 private:
  struct OneRank {
    Plan plan;
    OperationState state{};
    std::vector<float> input;
    std::vector<float> output;
    LaneScheduler lanes;
  };

  void prepare(OneRank& own, Rank rank, Collective collective) {
    CallShape shape;
    shape.collective = collective;
    shape.ranks = kRanks;
    shape.me = rank;
    shape.count = own.plan.lowered.parts * kTiles * kTileBytes / sizeof(float);
    shape.element_bytes = shape.accumulator_bytes = sizeof(float);
    Cut cut;
    cut.parts = own.plan.lowered.parts;
    cut.tile_bytes = kTileBytes;
    own.state.geometry = make_geometry(shape, cut);
    own.input.assign(shape.count, 1.0F);
    own.output.assign(shape.count, 0.0F);
    own.state.buffers[static_cast<int>(Buffer::Input)] = reinterpret_cast<std::byte*>(own.input.data());
    own.state.buffers[static_cast<int>(Buffer::Output)] = reinterpret_cast<std::byte*>(own.output.data());
    processor_.arithmetic = arithmetic(DataType::Float32, ReduceOp::Sum, kRanks);
    processor_.copies = copy_kernels();
  }

  LinkedRanks linked_;
  OneRank ranks_[kRanks];
  HostProcessor processor_;
};

// Measures calls. `per_step` is the seconds of a step with its 64 bytes.
void run_steps(benchmark::State& state, const Work& work) {
  BothRanks ranks(work);
  for (auto _ : state) ranks.call();
  const auto steps = static_cast<double>(ranks.steps());
  state.counters["steps"] = steps;
  state.counters["per_step"] =
      benchmark::Counter(steps, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

// Measures one check of a lane whose message has not come.
void run_waiting(benchmark::State& state) {
  const Work messages{"", nullptr};
  BothRanks ranks(messages);
  ranks.start(0);
  while (ranks.run(0, 16) == Advance::Advanced) {
  }
  for (auto _ : state) benchmark::DoNotOptimize(ranks.run(0, 1));
}

}  // namespace

void register_steps() {
  static constexpr Work kWorks[] = {{"step/messages", nullptr}, {"step/ring", "ring"}, {"step/two_shot", "two_shot"}};
  for (const Work& work : kWorks) {
    benchmark::RegisterBenchmark(work.name, [&work](benchmark::State& state) { run_steps(state, work); });
  }
  benchmark::RegisterBenchmark("step/waiting", run_waiting);
}

}  // namespace wreath::perf
