// Runs ranks as threads, with streams of one device.
#include "perf/gpu_perf/bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <optional>

#include "src/command_line/threads.hpp"

namespace wreath::perf {
namespace {

constexpr std::int64_t kPatienceMs = 40'000;

}  // namespace

Result<OnStream> OnStream::make(const GpuSetup& setup, std::size_t input_bytes, std::size_t output_bytes) {
  auto stream = setup.device->make_stream();
  if (!stream) return stream.error();
  OnStream made;
  made.stream = *std::move(stream);
  for (const auto& [memory, bytes] : {std::pair(&made.input, input_bytes), {&made.output, output_bytes}}) {
    auto allocated = setup.device->allocate(bytes, setup.memory);
    if (!allocated) return allocated.error();
    *memory = *std::move(allocated);
  }
  auto patterns = DevicePatterns::make(*made.stream);
  if (!patterns && patterns.error().code != ErrorCode::Unavailable) return patterns.error();
  if (patterns) made.patterns = *std::move(patterns);
  return made;
}

Call OnStream::call(Collective collective, DataType dtype, std::size_t count) const {
  Call call;
  call.collective = collective;
  call.dtype = dtype;
  call.input = input.data();
  call.output = output.data();
  call.count = count;
  call.stream = stream.get();
  return call;
}

Result<std::vector<OnStream>> make_streams(const GpuSetup& setup, int ranks, std::size_t input_bytes,
                                           std::size_t output_bytes) {
  std::vector<OnStream> streams;
  for (int i = 0; i < ranks; ++i) {
    auto made = OnStream::make(setup, input_bytes, output_bytes);
    if (!made) return made.error();
    streams.push_back(*std::move(made));
  }
  return streams;
}

Result<std::vector<Communicator>> make_ranks(const GpuSetup& setup, int ranks, CommunicatorOptions options) {
  if (options.device.empty()) options.device = setup.device->name();
  options.timeouts.arrival_ms = kPatienceMs;
  options.timeouts.stall_ms = kPatienceMs;
  return Communicator::create_local(ranks, options);
}

Result<std::vector<Communicator>> make_low_latency_ranks(const GpuSetup& setup, int ranks) {
  CommunicatorOptions options;
  options.overrides.low_latency_bytes = kLowLatencyCallBytes;
  auto made = make_ranks(setup, ranks, options);
  if (!made) return made.error();
  if (made->front().plan_for(Collective::AllReduce, 8).find("protocol=LL") != std::string::npos) return made;
  return Error{ErrorCode::Unavailable, "low_latency_bytes: not here; the warning above says why"};
}

Status on_ranks(std::vector<Communicator>& ranks, const RankBody& body) {
  std::mutex mutex;
  // The first error. The errors of the other ranks follow from it.
  std::optional<Error> first;
  const Status ran = command_line::run_threads(static_cast<int>(ranks.size()), [&](int i) -> Status {
    Communicator& own = ranks[static_cast<std::size_t>(i)];
    const Status status = command_line::guarded([&] { return body(own); });
    if (status) return {};
    const std::lock_guard lock(mutex);
    if (!first) first = status.error();
    return own.abort();
  });
  return first ? Status(*first) : ran;
}

int times_for(const GpuSetup& setup, std::int64_t ns) {
  constexpr std::int64_t kMostNs = 1'000'000'000;
  return static_cast<int>(std::clamp<std::int64_t>(kMostNs / std::max<std::int64_t>(ns, 1), 1, setup.iterations));
}

Status fill_inputs(const std::vector<OnStream>& streams, const PatternSet& data, std::size_t bytes) {
  for (std::size_t rank = 0; rank < streams.size(); ++rank) {
    const OnStream& own = streams[rank];
    if (own.patterns == nullptr) continue;
    WREATH_TRY(own.patterns->fill({own.input.data(), bytes}, data.input(0, static_cast<Rank>(rank))));
    WREATH_TRY(own.patterns->fill({own.output.data(), bytes}, repeated(kPoison)));
  }
  return {};
}

Result<std::uint64_t> count_wrong_sums(const std::vector<OnStream>& streams, const PatternSet& data,
                                       std::size_t bytes) {
  std::uint64_t wrong = 0;
  for (const OnStream& own : streams) {
    if (own.patterns == nullptr) continue;
    const auto found = own.patterns->count_wrong({own.output.data(), bytes}, data.combined(0));
    if (!found) return found.error();
    wrong += *found;
  }
  return wrong;
}

}  // namespace wreath::perf
