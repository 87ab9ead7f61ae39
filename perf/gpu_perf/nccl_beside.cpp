// Times all_reduce beside NCCL's, in turns, with the same ranks, memory, streams and loop.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "perf/base/statistics.hpp"
#include "perf/gpu_perf/bench.hpp"
#include "perf/gpu_perf/driver.hpp"
#include "perf/gpu_perf/nccl.hpp"
#include "src/command_line/threads.hpp"
#include "wreath/units.hpp"

namespace wreath::perf {
namespace {

constexpr int kBesideRounds = 5;
constexpr std::array<std::size_t, 4> kSizes{std::size_t{256} << 20, 8, 32 << 10, 1 << 20};  // the large one first
constexpr std::array kBesideDtypes{DataType::Float32, DataType::BFloat16};

// The ranks of both libraries, in one process.
struct Sides {
  const Nccl* nccl = nullptr;
  std::vector<Communicator> ours;
  std::vector<void*> theirs;
  Sides() = default;
  Sides(Sides&&) = default;
  Sides& operator=(Sides&&) = delete;
  ~Sides() {
    static_cast<void>(command_line::run_threads(static_cast<int>(theirs.size()), [this](int i) -> Status {
      void* const each = theirs[static_cast<std::size_t>(i)];
      if (each != nullptr) nccl->destroy(each);
      return {};
    }));
  }
};

Result<Sides> make_sides(const GpuSetup& setup, const Nccl& nccl, const DriverStreams& streams, int n) {
  Sides sides;
  sides.nccl = &nccl;
  CommunicatorOptions options;
  options.overrides.low_latency_bytes = kLowLatencyCallBytes;
  auto ours = make_ranks(setup, n, options);
  if (!ours) return ours.error();
  sides.ours = *std::move(ours);
  const auto id = nccl.make_id();
  if (!id) return id.error();
  sides.theirs.resize(static_cast<std::size_t>(n));
  const Status joined_all = on_ranks(sides.ours, [&](Communicator& own) -> Status {
    WREATH_TRY(streams.enter());
    const auto joined = nccl.join(n, *id, own.rank());
    if (!joined) return joined.error();
    sides.theirs[static_cast<std::size_t>(own.rank())] = *joined;
    return {};
  });
  WREATH_TRY(joined_all);
  return sides;
}

Result<std::vector<OnStream>> make_buffers(const GpuSetup& setup, const DriverStreams& streams, int n,
                                           std::size_t bytes) {
  std::vector<OnStream> made;
  for (int rank = 0; rank < n; ++rank) {
    auto stream = use_cuda_stream(*setup.device, streams.handle(rank));
    if (!stream) return stream.error();
    auto own = OnStream::make(setup, bytes, bytes, *std::move(stream));
    if (!own) return own.error();
    made.push_back(*std::move(own));
  }
  return made;
}

struct NcclCase {
  int ranks;
  DataType dtype;
  std::size_t bytes;
  std::string text() const { return fmt::format("{}, {} ranks, {}", name(dtype), ranks, format_bytes(bytes)); }
};

Status measure_case(const GpuSetup& setup, Sides& sides, const DriverStreams& streams, const NcclCase& work,
                    Results& results) {
  const auto buffers = make_buffers(setup, streams, work.ranks, work.bytes);
  if (!buffers) return results.note(work.text(), buffers.error()), Status();
  const std::size_t count = work.bytes / size_of(work.dtype);
  const StartCall theirs = [&](Communicator& communicator, const OnStream& own) -> Status {
    const auto rank = static_cast<std::size_t>(communicator.rank());
    return sides.nccl->all_reduce(own.input.data(), own.output.data(), count, work.dtype, sides.theirs[rank],
                                  streams.handle(communicator.rank()));
  };
  const CallShape shape{Collective::AllReduce, work.dtype, count, work.bytes, work.bytes};
  std::vector<double> our_times;
  std::vector<double> their_times;
  std::vector<double> ratios;
  for (int round = 0; round < (setup.quick ? 1 : kBesideRounds); ++round) {
    const auto our_ns = call_ns(setup, sides.ours, *buffers, shape);
    if (!our_ns) return our_ns.error();
    const auto their_ns = average_ns(setup, sides.ours, *buffers, theirs);
    if (!their_ns) return their_ns.error();
    our_times.push_back(*our_ns);
    their_times.push_back(*their_ns);
    ratios.push_back(*our_ns > 0 ? *their_ns / *our_ns : 0);
  }
  fmt::print("nccl        {:>10}  {:>10.2f} us here  {:>10.2f} us NCCL {}  {:>6.3f}  {}, {} ranks\n",
             format_bytes(work.bytes), median(our_times) / 1e3, median(their_times) / 1e3, sides.nccl->version(),
             median(ratios), name(work.dtype), work.ranks);
  results.add({{"ranks", work.ranks},
               {"dtype", name(work.dtype)},
               {"bytes", work.bytes},
               {"nccl", sides.nccl->version()},
               {"plan", sides.ours.front().plan_for(Collective::AllReduce, work.bytes)},
               {"us", median(our_times) / 1e3},
               {"nccl_us", median(their_times) / 1e3},
               {"nccl_to_ours", median(ratios)}});
  return {};
}

Status measure_ranks(const GpuSetup& setup, const Nccl& nccl, int n, Results& results) {
  const auto streams = DriverStreams::make(setup.number, n);
  if (!streams) return streams.error();
  auto sides = make_sides(setup, nccl, *streams, n);
  if (!sides) return sides.error();
  for (const std::size_t bytes : kSizes) {
    for (const DataType dtype : kBesideDtypes) {
      const NcclCase work{n, dtype, std::min(bytes, setup.most_bytes)};
      if (results.time_for(work.text())) WREATH_TRY(measure_case(setup, *sides, *streams, work, results));
    }
  }
  return {};
}

}  // namespace

Status measure_nccl_beside(const GpuSetup& setup, Results& results) {
  if (setup.device == &host_device()) return results.skip("all of it", "NCCL needs a GPU"), Status();
  const auto nccl = Nccl::find(setup.nccl);
  if (!nccl) return nccl.error();
  fmt::print("NCCL {} of {}, several ranks on a GPU; the ratio is its time over ours\n", (*nccl)->version(),
             (*nccl)->path());
  for (const int n : setup.ranks) {
    const Status measured = measure_ranks(setup, **nccl, n, results);
    if (!measured) results.note(fmt::format("{} ranks", n), measured.error());
  }
  return {};
}

}  // namespace wreath::perf
