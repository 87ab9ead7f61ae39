// Things that the parts of gpu_perf share: the device, ranks that are threads with streams on it, and their data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "perf/base/device_patterns.hpp"
#include "perf/base/pattern.hpp"
#include "perf/gpu_perf/results.hpp"
#include "wreath/communicator.hpp"
#include "wreath/device.hpp"

namespace wreath::perf {

// The most bytes that the option low_latency_bytes takes.
inline constexpr std::size_t kLowLatencyCallBytes = std::size_t{1} << 20;

struct GpuSetup {
  Device* device = nullptr;
  MemoryUse memory = MemoryUse::Plain;
  std::vector<int> ranks{2, 4, 8};
  std::size_t most_bytes = std::size_t{1} << 30;  // of a call in a graph
  int iterations = 20;
  int calls = 10'000;  // of the mixed calls
  // The streams of a rank in the mixed calls. The 32 queues are not enough for 3 streams of each of 8 ranks.
  int streams = 2;
  // Makes every part measure only a little.
  bool quick = false;
  // The states of the option: small all_reduces run as kernels of their own, or by steps.
  std::vector<bool> low_latency{false, true};
};

// A rank's stream and its buffers on the device.
struct OnStream {
  static Result<OnStream> make(const GpuSetup& setup, std::size_t input_bytes, std::size_t output_bytes);
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

// Returns the number of launches to time where one takes `ns`: setup.iterations, but no more than take a second, and at
// least one.
int times_for(const GpuSetup& setup, std::int64_t ns);

// Fills the inputs of all ranks for an all_reduce. Without device kernels for it, nothing is filled.
Status fill_inputs(const std::vector<OnStream>& streams, const PatternSet& data, std::size_t bytes);
// Counts the elements of all outputs that differ from the sum of the inputs. Without device kernels for it, the count
// is 0.
Result<std::uint64_t> count_wrong_sums(const std::vector<OnStream>& streams, const PatternSet& data, std::size_t bytes);

// Measures graphs of 100 small all_reduces, with a branch for each rank, and the parts of their time. Like every part
// below, it adds its measurements to the results, and returns the error that ends it early.
Status measure_graph(const GpuSetup& setup, Results& results);
// Compares results on the device with results of the same inputs on the CPU.
Status prove_bits(const GpuSetup& setup, Results& results);
// Checks many calls of all kinds, in setup.streams streams for each rank.
Status prove_mixed(const GpuSetup& setup, Results& results);

}  // namespace wreath::perf
