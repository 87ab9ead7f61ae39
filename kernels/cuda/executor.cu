// One block per lane: thread 0 decides by try_step, all threads move the bytes.
#include <type_traits>

#include "kernels/cuda/executor.cuh"
#include "kernels/cuda/primitives.cuh"

namespace wreath {
namespace {

constexpr int kBlockThreads = 512;
constexpr unsigned kBlockedSleepNs = 20;

// Like __syncthreads(), but the threads of a warp may arrive from different places.
__device__ inline void block_barrier() { asm volatile("barrier.sync 0;" ::: "memory"); }

template <typename T>
__device__ inline void do_work(const BlockWork& work) {
  if (work.kind == BlockWork::Kind::Reduce) {
    block_reduce<T>(work);
  } else {
    block_copy(work);
  }
}

// The leader's Processor: hands each piece of work to the block, takes part, and returns when all are done.
// The barriers order the block's stores before the leader's later release stores.
template <typename T>
class BlockProcessor {
 public:
  __device__ explicit BlockProcessor(BlockWork& shared) : shared_(shared) {}
  __device__ void reduce(std::byte* target, const std::byte* const* sources, int k, std::size_t elements) {
    run({BlockWork::Kind::Reduce, target, sources, k, elements});
  }
  __device__ void copy(std::byte* target, const std::byte* source, std::size_t bytes) {
    run({BlockWork::Kind::Copy, target, &source, 1, bytes});
  }
  __device__ void fill(std::byte* slot, const std::byte* source, std::size_t bytes) { copy(slot, source, bytes); }
  __device__ void stop() {
    shared_.kind = BlockWork::Kind::Stop;
    block_barrier();
  }

 private:
  __device__ void run(const BlockWork& work) {
    // The sources' list is in the leader's own memory: the block gets a copy.
    for (int i = 0; i < work.k; ++i) sources()[i] = work.sources[i];
    shared_ = work;
    shared_.sources = sources();
    block_barrier();
    do_work<T>(shared_);
    block_barrier();
  }
  __device__ static const std::byte** sources() {
    __shared__ const std::byte* list[kMaximumFanIn + 1];
    return list;
  }

  BlockWork& shared_;
};

template <typename T>
__device__ inline void lead(const OperationState& operation, LaneState& lane, const std::uint32_t* stop,
                            BlockProcessor<T>& processor) {
  while (load_relaxed(*stop) == 0) {
    const Advance advance = try_step(operation, lane, processor);
    if (advance == Advance::Failed) return;
    if (advance == Advance::Done) break;
    if (advance == Advance::Blocked) __nanosleep(kBlockedSleepNs);
  }
  if (!lane.referenced) return;
  for (std::uint32_t i = lane.first; i < lane.end; ++i) {
    const Step& step = operation.steps[i];
    for (std::uint32_t out = step.out_first; out < step.out_first + std::uint32_t{step.out_count}; ++out) {
      while (!drained(*operation.targets[out]) && load_relaxed(*stop) == 0) __nanosleep(kBlockedSleepNs);
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(kBlockThreads)
    run_lanes(OperationState operation, LaneState* lanes, const std::uint32_t* stop) {
  __shared__ BlockWork work;
  if (threadIdx.x == 0) {
    BlockProcessor<T> processor(work);
    LaneState lane = lanes[blockIdx.x];
    lead(operation, lane, stop, processor);
    lanes[blockIdx.x] = lane;
    processor.stop();
    return;
  }
  for (block_barrier(); work.kind != BlockWork::Kind::Stop; block_barrier()) {
    do_work<T>(work);
    block_barrier();
  }
}

}  // namespace

cudaError_t launch_lanes(DataType dtype, const OperationState& operation, LaneState* lanes, int lane_count,
                         const std::uint32_t* stop, cudaStream_t stream) {
  const auto kernel = dtype == DataType::Float32 ? run_lanes<float> : run_lanes<std::uint32_t>;
  kernel<<<static_cast<unsigned>(lane_count), kBlockThreads, 0, stream>>>(operation, lanes, stop);
  return cudaGetLastError();
}

}  // namespace wreath
