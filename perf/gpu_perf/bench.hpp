// Things that the parts of gpu_perf share: the device, ranks that are threads with streams on it, and their data.
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

// The most bytes that the option low_latency_bytes takes.
inline constexpr std::size_t kLowLatencyCallBytes = std::size_t{1} << 20;

struct GpuSetup {
  Device* device = nullptr;
  int number = 0;  // of a CUDA device
  MemoryUse memory = MemoryUse::Plain;
  std::vector<int> ranks{2, 4, 8};
  std::size_t most_bytes = std::size_t{1} << 30;  // of a call
  int iterations = 20;
  int calls = 10'000;  // of the mixed calls
  // The streams of a rank in the mixed calls. The 32 queues are not enough for 3 streams of each of 8 ranks.
  int streams = 2;
  // Makes every part measure only a little.
  bool quick = false;
  // The path of a libnccl.so.2; empty: the first of the usual places.
  std::string nccl;
  // The states of the option: small all_reduces run as kernels of their own, or by steps.
  std::vector<bool> low_latency{false, true};
};

// A rank's stream and its buffers on the device.
struct OnStream {
  static Result<OnStream> make(const GpuSetup& setup, std::size_t input_bytes, std::size_t output_bytes);
  static Result<OnStream> make(const GpuSetup& setup, std::size_t input_bytes, std::size_t output_bytes,
                               std::unique_ptr<Stream> stream);
  Call call(Collective collective, DataType dtype, std::size_t count) const;

  DeviceMemory input;
  DeviceMemory output;
  // The stream ends before the memory, since it may hold work on it.
  std::unique_ptr<Stream> stream;
  std::unique_ptr<DevicePatterns> patterns;  // null: the device has no kernels for them
};
// Makes a stream with buffers for each of `ranks` ranks.
Result<std::vector<OnStream>> make_streams(const GpuSetup& setup, int ranks, std::size_t input_bytes,
                                           std::size_t output_bytes);

// Makes `ranks` communicators of this process on the setup's device, with the other options as given. Their timeouts
// are short, so that a call that hangs is reported before the part's time is over.
Result<std::vector<Communicator>> make_ranks(const GpuSetup& setup, int ranks, CommunicatorOptions options = {});
// Makes ranks that run small all_reduces as kernels of their own. Returns Unavailable where they cannot.
Result<std::vector<Communicator>> make_low_latency_ranks(const GpuSetup& setup, int ranks);

using RankBody = std::function<Status(Communicator&)>;

// Runs `body` on a thread for each rank, and returns the first error. A rank that fails aborts its communicator, so
// that no other rank waits for it.
Status on_ranks(std::vector<Communicator>& ranks, const RankBody& body);

// The shape of a call; `count` is the same as in Call.
struct CallShape {
  Collective collective;
  DataType dtype;
  std::size_t count;
  std::size_t input_bytes;
  std::size_t output_bytes;
};

// Adds a rank's call to its stream.
using StartCall = std::function<Status(Communicator&, const OnStream&)>;
// Returns the number of calls to time where one takes `ns`: setup.iterations, but no more than take a second, and at
// least one.
int times_for(const GpuSetup& setup, std::int64_t ns);

// Returns the slowest rank's average time of a call, by events in its stream. Times times_for() calls, after two calls
// that are not timed.
Result<double> average_ns(const GpuSetup& setup, std::vector<Communicator>& ranks, const std::vector<OnStream>& streams,
                          const StartCall& start);
// Returns the same average for calls of this library.
Result<double> call_ns(const GpuSetup& setup, std::vector<Communicator>& ranks, const std::vector<OnStream>& streams,
                       const CallShape& shape);

// Returns the time of one copy from the input to the output, as the average of setup.iterations copies.
Result<double> copy_ns(const GpuSetup& setup, const OnStream& own, std::size_t bytes);

double gb_per_s(double bytes, double ns);

// Fills the inputs of all ranks for an all_reduce. Without device kernels for it, nothing is filled.
Status fill_inputs(const std::vector<OnStream>& streams, const PatternSet& data, std::size_t bytes);
// Counts the elements of all outputs that differ from the sum of the inputs. Without device kernels for it, the count
// is 0.
Result<std::uint64_t> count_wrong_sums(const std::vector<OnStream>& streams, const PatternSet& data, std::size_t bytes);

// Measures copies within the device's memory, by size: GB/s of bytes copied. Like every part below, it adds its
// measurements to the results, and returns the error that ends it early.
Status measure_copies(const GpuSetup& setup, Results& results);
// Measures all_reduce by ranks, dtypes and sizes, beside copies of the bytes that two_shot moves.
Status measure_all_reduce(const GpuSetup& setup, Results& results);
// Measures the same schedules by their steps and by the handwritten kernels, in turns, at one tile and at the largest
// sizes.
Status measure_executors(const GpuSetup& setup, Results& results);
// Measures graphs of 100 small all_reduces, with a branch for each rank, and the parts of their time.
Status measure_graph(const GpuSetup& setup, Results& results);
// Measures all_reduce beside NCCL's, where there is an NCCL that allows several ranks on a GPU.
Status measure_nccl_beside(const GpuSetup& setup, Results& results);
// Compares results on the device with results of the same inputs on the CPU.
Status prove_bits(const GpuSetup& setup, Results& results);
// Checks many calls of all kinds, in setup.streams streams for each rank.
Status prove_mixed(const GpuSetup& setup, Results& results);

}  // namespace wreath::perf
