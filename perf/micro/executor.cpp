// The executor beside the same algorithm written by hand: two_shot all_reduce of two ranks over the same FIFOs with the
// same kernels, a thread each on a core of its own. The difference is the price of schedules as data.
#include <memory>
#include <vector>

#include "kernels/kernels.hpp"
#include "perf/limits/machine.hpp"
#include "perf/limits/team.hpp"
#include "perf/micro/buffers.hpp"
#include "src/executor/linked_ranks.hpp"
#include "src/fifo/access.hpp"
#include "src/schedule/lower.hpp"
#include "wreath/algorithm.hpp"

namespace wreath::perf {
namespace {

constexpr int kRanks = 2;
constexpr std::uint16_t kScatterLane = 0;
constexpr std::uint16_t kReduceLane = 1;
constexpr FifoShape kShape{4, 4, 512 * 1024, 0, 1};
constexpr std::size_t kBlockBytes = HostProcessor::kBlockBytes;

struct Size {
  std::size_t elements;
  std::size_t tile_bytes;
};

// What both ranks share, and each rank's buffers.
struct Job {
  explicit Job(std::size_t elements) : ranks(kRanks, kShape) {
    const Algorithm& row = *find_algorithm(Collective::AllReduce, "two_shot");
    for (Rank rank = 0; rank < kRanks; ++rank) {
      plans[rank].lowered = lower(row.build({Collective::AllReduce, kRanks, 0}, rank), rank, 1).value();
      ranks.bind(rank, plans[rank]);
      inputs[rank].assign(elements, static_cast<float>(rank + 1));
      outputs[rank].assign(elements, 0.0F);
    }
  }
  LinkedRanks ranks;
  Plan plans[kRanks];
  std::vector<float> inputs[kRanks];
  std::vector<float> outputs[kRanks];
};

Arithmetic sums() { return arithmetic(DataType::Float32, ReduceOp::Sum, kRanks); }

// One rank's part, by the executor.
class BySteps {
 public:
  BySteps(Job& job, Rank me, const Size& size) : plan_(job.plans[me]) {
    Cut cut;
    cut.parts = plan_.lowered.parts;
    cut.tile_bytes = size.tile_bytes;
    CallShape shape;
    shape.ranks = kRanks;
    shape.me = me;
    shape.count = size.elements;
    shape.element_bytes = shape.accumulator_bytes = sizeof(float);
    state_.geometry = make_geometry(shape, cut);
    state_.buffers[static_cast<int>(Buffer::Input)] = reinterpret_cast<std::byte*>(job.inputs[me].data());
    state_.buffers[static_cast<int>(Buffer::Output)] = reinterpret_cast<std::byte*>(job.outputs[me].data());
  }
  void call() {
    lanes_.start(plan_, state_, {sums(), copy_kernels().plain, copy_kernels().fill});
    while (lanes_.run(16) != Advance::Done) {
    }
  }

 private:
  Plan& plan_;
  OperationState state_{};
  LaneScheduler lanes_;
};

// The same in a loop: the next tile is sent ahead, then this one is summed and sent on, then the peer's sum is taken.
class ByHand {
 public:
  ByHand(Job& job, Rank me, const Size& size)
      : me_(me),
        half_(size.elements / 2 * sizeof(float)),
        tile_(std::min(size.tile_bytes, half_)),
        input_(reinterpret_cast<std::byte*>(job.inputs[me].data())),
        output_(reinterpret_cast<std::byte*>(job.outputs[me].data())),
        scatter_(job.ranks.link(me, 1 - me).send_fifo(kScatterLane)),
        summed_(job.ranks.link(me, 1 - me).send_fifo(kReduceLane)),
        scattered_(job.ranks.link(me, 1 - me).recv_fifo(kScatterLane)),
        gathered_(job.ranks.link(me, 1 - me).recv_fifo(kReduceLane)) {}

  void call() {
    scatter(0);
    for (std::size_t at = 0; at < half_; at += tile_) {
      if (at + tile_ < half_) scatter(at + tile_);
      sum(at);
      gather(at);
    }
  }

 private:
  std::size_t mine(std::size_t at) const { return static_cast<std::size_t>(me_) * half_ + at; }
  std::size_t theirs(std::size_t at) const { return static_cast<std::size_t>(1 - me_) * half_ + at; }
  std::size_t bytes(std::size_t at) const { return std::min(tile_, half_ - at); }

  std::byte* slot(SendFifo& fifo, std::size_t bytes) const {
    while (!has_credit(fifo)) {
    }
    const std::size_t place = staging_place(fifo, bytes);
    SlotHeader& header = next_slot(fifo);
    header.bytes = static_cast<std::uint32_t>(bytes);
    header.flags = 0;
    header.region = fifo.staging_region;
    header.offset = fifo.staging_offset + place;
    return fifo.staging + place;
  }
  const std::byte* message(RecvFifo& fifo) const {
    const SlotHeader* header = peek(fifo);
    while (header == nullptr) header = peek(fifo);
    return locate(fifo, *header).data;
  }

  void scatter(std::size_t at) {
    copy_kernels().fill(slot(scatter_, bytes(at)), input_ + theirs(at), bytes(at));
    publish(scatter_);
  }
  void sum(std::size_t at) {
    const std::byte* received = message(scattered_);
    std::byte* target = slot(summed_, bytes(at));
    const Arithmetic adds = sums();
    for (std::size_t done = 0; done < bytes(at); done += kBlockBytes) {
      const std::size_t block = std::min(kBlockBytes, bytes(at) - done);
      const std::byte* own = input_ + mine(at) + done;
      const std::byte* sources[kRanks] = {me_ == 0 ? own : received + done, me_ == 0 ? received + done : own};
      std::byte* result = output_ + mine(at) + done;
      adds.combine(adds, result, Form::Data, sources, kRanks, {Form::Data, me_, Form::Data}, block / sizeof(float));
      copy_kernels().fill(target + done, result, block);
    }
    consume(scattered_);
    publish(summed_);
  }
  void gather(std::size_t at) {
    copy_kernels().plain(output_ + theirs(at), message(gathered_), bytes(at));
    consume(gathered_);
  }

  Rank me_;
  std::size_t half_;
  std::size_t tile_;
  std::byte* input_;
  std::byte* output_;
  SendFifo& scatter_;
  SendFifo& summed_;
  RecvFifo& scattered_;
  RecvFifo& gathered_;
};

// Both ranks make as many calls; a call ends on neither before the other has begun it.
template <typename Executor>
void run_two_shot(benchmark::State& state) {
  static std::unique_ptr<Job> job;  // of both threads, which meet where the loop begins and ends
  const std::vector<int> cores = pick_cores(kRanks);
  const Size size{static_cast<std::size_t>(state.range(0)) / sizeof(float), static_cast<std::size_t>(state.range(1))};
  if (cores.empty()) {
    state.SkipWithError("needs two cores");
    return;
  }
  const Rank me = state.thread_index();
  const Pin pin(cores[static_cast<std::size_t>(me)]);
  if (me == 0) job = std::make_unique<Job>(size.elements);
  std::unique_ptr<Executor> executor;
  for (auto _ : state) {
    if (executor == nullptr) executor = std::make_unique<Executor>(*job, me, size);
    executor->call();
  }
  count_bytes(state, me == 0 ? state.range(0) : 0);
  const bool right = job->outputs[me].front() == 3.0F && job->outputs[me].back() == 3.0F;
  if (!right) state.SkipWithError("the sums are wrong");
}

}  // namespace

void register_executor() {
  struct Row {
    const char* name;
    void (*run)(benchmark::State&);
  };
  for (const Row& row : {Row{"two_shot/steps", run_two_shot<BySteps>}, Row{"two_shot/by_hand", run_two_shot<ByHand>}}) {
    auto* benchmark = benchmark::RegisterBenchmark(row.name, row.run)->ArgNames({"bytes", "tile"});
    for (const std::int64_t tile : {16 << 10, 64 << 10, 256 << 10}) {
      for (const std::int64_t bytes : {256 << 10, 2 << 20, 16 << 20}) benchmark->Args({bytes, tile});
    }
    benchmark->Threads(kRanks)->UseRealTime();
  }
}

}  // namespace wreath::perf
