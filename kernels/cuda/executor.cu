// One block per lane: thread 0 decides by try_step, all threads move the bytes.
#include "kernels/cuda/executor.cuh"
#include "kernels/cuda/primitives.cuh"

namespace wreath {
namespace {

constexpr int kBlockThreads = 512;
constexpr unsigned kBlockedSleepNs = 20;

// Like __syncthreads(), but the threads of a warp may arrive from different places.
__device__ inline void block_barrier() { asm volatile("barrier.sync 0;" ::: "memory"); }

// A function of its own for each dtype: the leader and the workers share it.
template <typename T>
__device__ __noinline__ void combine_elements(const Arithmetic& arithmetic, const BlockWork& work) {
  block_combine<T>(arithmetic, work);
}

__device__ inline void combine(const Arithmetic& arithmetic, const BlockWork& work) {
  switch (arithmetic.dtype) {
    case DataType::Int8: return combine_elements<std::int8_t>(arithmetic, work);
    case DataType::Uint8: return combine_elements<std::uint8_t>(arithmetic, work);
    case DataType::Int32: return combine_elements<std::int32_t>(arithmetic, work);
    case DataType::Uint32: return combine_elements<std::uint32_t>(arithmetic, work);
    case DataType::Int64: return combine_elements<std::int64_t>(arithmetic, work);
    case DataType::Uint64: return combine_elements<std::uint64_t>(arithmetic, work);
    case DataType::Float16: return combine_elements<Float16>(arithmetic, work);
    case DataType::Float32: return combine_elements<float>(arithmetic, work);
    case DataType::Float64: return combine_elements<double>(arithmetic, work);
    case DataType::BFloat16: return combine_elements<BFloat16>(arithmetic, work);
    case DataType::Float8E4M3: return combine_elements<Float8E4M3>(arithmetic, work);
    case DataType::Float8E5M2: return combine_elements<Float8E5M2>(arithmetic, work);
  }
}

__device__ inline void do_work(const Arithmetic& arithmetic, const BlockWork& work) {
  if (work.kind == BlockWork::Kind::Combine) {
    combine(arithmetic, work);
  } else {
    block_copy(work);
  }
}

// The leader's Processor: hands each piece of work to the block, takes part, and returns when all are done.
// The barriers order the block's stores before the leader's later release stores.
class BlockProcessor {
 public:
  static constexpr std::size_t kBlockBytes = 1U << 20;  // a tile at once: each piece of work costs two barriers
  static constexpr bool kStreams = false;
  static constexpr bool kCombinesInSlots = true;
  static constexpr std::size_t kPulledBytes = 0;

  __device__ BlockProcessor(const Arithmetic& arithmetic, BlockWork& shared)
      : arithmetic_(arithmetic), shared_(shared) {}
  __device__ void combine(std::byte* target, Form target_form, const std::byte* const* sources, int k,
                          Operands operands, std::size_t elements) {
    run({BlockWork::Kind::Combine, target_form, target, sources, k, operands, elements});
  }
  __device__ void copy(std::byte* target, const std::byte* source, std::size_t bytes) {
    run({BlockWork::Kind::Copy, Form::Data, target, &source, 1, Operands{}, bytes});
  }
  __device__ void begin_slot(SendFifo&, std::size_t) {}
  __device__ void end_slot() {}
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
    do_work(arithmetic_, shared_);
    block_barrier();
  }
  __device__ static const std::byte** sources() {
    __shared__ const std::byte* list[kMaximumFanIn + 1];
    return list;
  }

  const Arithmetic& arithmetic_;
  BlockWork& shared_;
};

__device__ inline void lead(const OperationState& operation, LaneState& lane, const std::uint32_t* stop,
                            BlockProcessor& processor) {
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

__global__ void __launch_bounds__(kBlockThreads)
    run_lanes(Arithmetic arithmetic, OperationState operation, LaneState* lanes, const std::uint32_t* stop) {
  __shared__ BlockWork work;
  if (threadIdx.x == 0) {
    BlockProcessor processor(arithmetic, work);
    LaneState lane = lanes[blockIdx.x];
    lead(operation, lane, stop, processor);
    lanes[blockIdx.x] = lane;
    processor.stop();
    return;
  }
  for (block_barrier(); work.kind != BlockWork::Kind::Stop; block_barrier()) {
    do_work(arithmetic, work);
    block_barrier();
  }
}

}  // namespace

cudaError_t launch_lanes(const Arithmetic& arithmetic, const OperationState& operation, LaneState* lanes,
                         int lane_count, const std::uint32_t* stop, cudaStream_t stream) {
  run_lanes<<<static_cast<unsigned>(lane_count), kBlockThreads, 0, stream>>>(arithmetic, operation, lanes, stop);
  return cudaGetLastError();
}

}  // namespace wreath
