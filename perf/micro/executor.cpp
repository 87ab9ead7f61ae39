// Measures the executor of steps beside the handwritten loops. Both run the same algorithms of two ranks over the same
// FIFOs with the same kernels. Each rank has a thread on its own core. The difference is the cost of schedules as data.
#include <memory>
#include <string>
#include <vector>

#include "kernels/kernels.hpp"
#include "perf/limits/machine.hpp"
#include "perf/limits/team.hpp"
#include "perf/micro/buffers.hpp"
#include "src/executor/handwritten/handwritten.hpp"
#include "src/executor/linked_ranks.hpp"
#include "src/schedule/lower.hpp"
#include "wreath/algorithm.hpp"

namespace wreath::perf {
namespace {

constexpr int kRanks = 2;
constexpr FifoShape kShape{4, 4, 512 * 1024, 0, 1};

// The work of a benchmark: a row of the registry, or with Exchange a message in each direction.
struct Work {
  const char* name;
  Collective collective;
  const char* algorithm;

  bool exchanges() const { return collective == Collective::Exchange; }
  HandwrittenLoop loop() const { return handwritten_loop(collective, algorithm); }
  Schedule schedule(Rank me) const {
    if (!exchanges()) return find_algorithm(collective, algorithm)->build({collective, kRanks, 0}, me);
    Schedule messages(1);
    messages.lane(0).send(1 - me, Chunk{Buffer::Input, 0});
    messages.lane(1).recv(1 - me, Chunk{Buffer::Output, 0}, {.lane = 0});
    return messages;
  }
  // Returns the elements of a buffer. `all` is the number of the vector, of all blocks together or of the message.
  std::size_t elements(Buffer buffer, std::size_t all) const {
    return !exchanges() && holds_one_block(collective, buffer) ? all / kRanks : all;
  }
  CallShape shape(Rank me, std::size_t all) const {
    CallShape shape;
    // A broadcast has one part, which is the message.
    shape.collective = exchanges() ? Collective::Broadcast : collective;
    shape.ranks = kRanks;
    shape.me = me;
    shape.count = !exchanges() && moves_blocks(collective) ? all / kRanks : all;
    shape.element_bytes = shape.accumulator_bytes = sizeof(float);
    return shape;
  }
  // Returns whether a rank's output is right where inputs are 1 at rank 0 and 2 at rank 1.
  bool right(Rank me, const std::vector<float>& output) const {
    if (reduces(collective)) return output.front() == 3.0F && output.back() == 3.0F;
    if (exchanges()) return output.front() == static_cast<float>(2 - me) && output.back() == output.front();
    return output.front() == 1.0F && output.back() == 2.0F;
  }
};

constexpr Work kWorks[] = {{"all_reduce/two_shot", Collective::AllReduce, "two_shot"},
                           {"all_reduce/ring", Collective::AllReduce, "ring"},
                           {"reduce_scatter/ring", Collective::ReduceScatter, "ring"},
                           {"all_gather/ring", Collective::AllGather, "ring"},
                           {"sendrecv", Collective::Exchange, ""}};

// The state that both ranks share, and the buffers of each rank.
struct Job {
  Job(const Work& work, std::size_t elements) : ranks(kRanks, kShape) {
    for (Rank rank = 0; rank < kRanks; ++rank) {
      plans[rank].lowered = lower(work.schedule(rank), rank, 1).value();
      ranks.bind(rank, plans[rank]);
      inputs[rank].assign(work.elements(Buffer::Input, elements), static_cast<float>(rank + 1));
      outputs[rank].assign(work.elements(Buffer::Output, elements), 0.0F);
    }
  }
  LinkedRanks ranks;
  Plan plans[kRanks];
  std::vector<float> inputs[kRanks];
  std::vector<float> outputs[kRanks];
};

// The part of one rank.
class Caller {
 public:
  Caller(Job& job, Rank me, const CallShape& shape, std::size_t tile_bytes) : plan_(job.plans[me]) {
    Cut cut;
    cut.parts = plan_.lowered.parts;
    cut.tile_bytes = tile_bytes;
    state_.geometry = make_geometry(shape, cut);
    state_.buffers[static_cast<int>(Buffer::Input)] = reinterpret_cast<std::byte*>(job.inputs[me].data());
    state_.buffers[static_cast<int>(Buffer::Output)] = reinterpret_cast<std::byte*>(job.outputs[me].data());
    if (reduces(shape.collective)) processor_.arithmetic = arithmetic(DataType::Float32, ReduceOp::Sum, kRanks);
    processor_.copies = copy_kernels();
    processor_.by_hand = &advance_handwritten;
  }
  void set_loop(HandwrittenLoop loop, Rank me) {
    state_.loop = loop;
    state_.ranks = kRanks;
    state_.rank = static_cast<std::uint32_t>(me);
  }
  void call() {
    lanes_.start(plan_, state_, processor_);
    while (lanes_.run(16) != Advance::Done) {
    }
  }

 private:
  Plan& plan_;
  OperationState state_{};
  HostProcessor processor_;
  LaneScheduler lanes_;
};

// Runs a benchmark. Both ranks make as many calls, and a call ends on neither rank before the other has begun it.
void run(benchmark::State& state, const Work& work, bool by_hand) {
  // Both threads share the job. They meet where the loop begins and where it ends.
  static std::unique_ptr<Job> job;
  const std::vector<int> cores = pick_cores(kRanks);
  if (cores.empty()) {
    state.SkipWithError("needs two cores");
    return;
  }
  const std::size_t elements = static_cast<std::size_t>(state.range(0)) / sizeof(float);
  const Rank me = state.thread_index();
  const Pin pin(cores[static_cast<std::size_t>(me)]);
  if (me == 0) job = std::make_unique<Job>(work, elements);
  std::unique_ptr<Caller> caller;
  for (auto _ : state) {
    if (caller == nullptr) {
      caller = std::make_unique<Caller>(*job, me, work.shape(me, elements), static_cast<std::size_t>(state.range(1)));
      caller->set_loop(by_hand ? work.loop() : HandwrittenLoop::None, me);
    }
    caller->call();
  }
  count_bytes(state, me == 0 ? state.range(0) : 0);
  if (!work.right(me, job->outputs[me])) state.SkipWithError("the results are wrong");
}

}  // namespace

void register_executor() {
  for (const Work& work : kWorks) {
    for (const bool by_hand : {false, true}) {
      const std::string name = std::string(work.name) + (by_hand ? "/handwritten" : "/steps");
      auto* benchmark = benchmark::RegisterBenchmark(
          name.c_str(), [&work, by_hand](benchmark::State& state) { run(state, work, by_hand); });
      benchmark->ArgNames({"bytes", "tile"})->Threads(kRanks)->UseRealTime();
      for (const std::int64_t tile : {16 << 10, 64 << 10, 256 << 10}) {
        for (const std::int64_t bytes : {256 << 10, 2 << 20, 16 << 20}) benchmark->Args({bytes, tile});
      }
    }
  }
}

}  // namespace wreath::perf
