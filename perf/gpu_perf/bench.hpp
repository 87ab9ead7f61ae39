// What the parts of gpu_perf share: the device, ranks that are threads with streams on it, and their data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "perf/base/pattern.hpp"
#include "perf/gpu_perf/results.hpp"
#include "perf/kernels/device_patterns.hpp"
#include "wreath/communicator.hpp"
#include "wreath/device.hpp"

namespace wreath::perf {

inline constexpr std::size_t kLowLatencyCallBytes = std::size_t{1} << 20;  // what the option takes at most

struct GpuSetup {
  Device* device = nullptr;
  int number = 0;  // of a CUDA device
  MemoryUse memory = MemoryUse::Plain;
  std::vector<int> ranks{2, 4, 8};
  std::size_t most_bytes = std::size_t{1} << 30;  // of a call
  int iterations = 20;
  int calls = 10'000;                          // of the mixed ones
  int streams = 2;                             // of a rank in these; 3 of 8 ranks are more than 32 queues take
  bool quick = false;                          // little of everything
  std::string nccl;                            // a libnccl.so.2; empty: the first of the usual places
  std::vector<bool> low_latency{false, true};  // with small all_reduces as kernels of their own, or without
};

// A rank's stream and buffers on the device.
struct OnStream {
  static Result<OnStream> make(const GpuSetup& setup, std::size_t input_bytes, std::size_t output_bytes);
  static Result<OnStream> make(const GpuSetup& setup, std::size_t input_bytes, std::size_t output_bytes,
                               std::unique_ptr<Stream> stream);
  Call call(Collective collective, DataType dtype, std::size_t count) const;

  DeviceMemory input;
  DeviceMemory output;
  std::unique_ptr<Stream> stream;            // ends before the memory: it may hold work on it
  std::unique_ptr<DevicePatterns> patterns;  // null: the device has no kernels for them
};
// One for each of `ranks` ranks.
Result<std::vector<OnStream>> make_streams(const GpuSetup& setup, int ranks, std::size_t input_bytes,
                                           std::size_t output_bytes);

// As many communicators of this process, on the setup's device, with the other options as given. Their clocks are
// short: what hangs is to be told before the part's time is over.
Result<std::vector<Communicator>> make_ranks(const GpuSetup& setup, int ranks, CommunicatorOptions options = {});
// With small all_reduces as kernels of their own. Unavailable where they are not.
Result<std::vector<Communicator>> make_low_latency_ranks(const GpuSetup& setup, int ranks);

using RankBody = std::function<Status(Communicator&)>;

// Runs `body` on a thread for each rank; the first error. A rank that fails aborts its communicator, so that no other
// waits for it.
Status on_ranks(std::vector<Communicator>& ranks, const RankBody& body);

// `count` as in Call.
struct CallShape {
  Collective collective;
  DataType dtype;
  std::size_t count;
  std::size_t input_bytes;
  std::size_t output_bytes;
};

// Adds a rank's call to its stream.
using StartCall = std::function<Status(Communicator&, const OnStream&)>;
// How often something is timed that takes `ns`: setup.iterations times, or as often as takes a second, at least once.
int times_for(const GpuSetup& setup, std::int64_t ns);

// Of one call, the slowest rank's average of times_for() many, by events in its stream; behind two that are not timed.
Result<double> average_ns(const GpuSetup& setup, std::vector<Communicator>& ranks, const std::vector<OnStream>& streams,
                          const StartCall& start);
// The same of this library's calls.
Result<double> call_ns(const GpuSetup& setup, std::vector<Communicator>& ranks, const std::vector<OnStream>& streams,
                       const CallShape& shape);

// Of one copy from the input to the output, the average of setup.iterations.
Result<double> copy_ns(const GpuSetup& setup, const OnStream& own, std::size_t bytes);

double gb_per_s(double bytes, double ns);

// All ranks' inputs of an all_reduce, and elements that are not what they sum to, of all outputs. Without kernels for
// it nothing is filled and nothing counted.
Status fill_inputs(const std::vector<OnStream>& streams, const PatternSet& data, std::size_t bytes);
Result<std::uint64_t> count_wrong_sums(const std::vector<OnStream>& streams, const PatternSet& data, std::size_t bytes);

// A part: what it measures goes to the results, and what ends it early is returned.
// Copies within the device's memory, by size: GB/s of bytes copied.
Status measure_copies(const GpuSetup& setup, Results& results);
// all_reduce by ranks, dtypes and sizes, beside the copies of the same bytes that two_shot moves.
Status measure_all_reduce(const GpuSetup& setup, Results& results);
// The same schedules by their steps and by the kernels written by hand, in turns, at one tile and at the largest sizes.
Status measure_executors(const GpuSetup& setup, Results& results);
// Graphs of 100 small all_reduces, a branch for each rank, and what their time is made of.
Status measure_graph(const GpuSetup& setup, Results& results);
// all_reduce beside NCCL's, where there is one that allows several ranks on a GPU.
Status measure_nccl_beside(const GpuSetup& setup, Results& results);
// Results on the device against those of the same inputs on the CPU.
Status prove_bits(const GpuSetup& setup, Results& results);
// Many calls of all kinds, in four streams for each rank.
Status prove_mixed(const GpuSetup& setup, Results& results);

}  // namespace wreath::perf
