// Checks results that are known: the CPU's results, and sums of constants.
#include <fmt/format.h>

#include <array>
#include <atomic>
#include <cstring>
#include <random>
#include <span>

#include "perf/gpu_perf/bench.hpp"

namespace wreath::perf {
namespace {

constexpr std::size_t kMostCount = 4096;  // elements of a mixed call
// The calls between two checks of the results.
constexpr int kCallsALook = 200;

constexpr std::array kOps{ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Min, ReduceOp::Max, ReduceOp::Avg};
constexpr std::array<std::size_t, 4> kCounts{1, 4'099, 16'384, 100'003};  // three of them have tails
constexpr std::size_t kMostCompared = 100'003;
constexpr std::size_t kWidest = 8;  // bytes of an element

// Returns finite values of all signs and sizes. The highest bit of the exponent is cleared for floating types.
std::vector<std::byte> values_of(DataType dtype, std::size_t count, int seed) {
  std::mt19937 random(static_cast<unsigned>(seed));
  std::vector<std::byte> values(count * size_of(dtype));
  for (std::byte& each : values) each = static_cast<std::byte>(random());
  const std::size_t size = size_of(dtype);
  for (std::size_t i = size - 1; is_floating(dtype) && i < values.size(); i += size) values[i] &= std::byte{0xBF};
  return values;
}

std::string_view way_text(bool low_latency) { return low_latency ? "low latency" : "by steps"; }

// A comparison of one dtype on one set of communicators.
struct BitsCase {
  int ranks;
  bool low_latency;
  DataType dtype;
  std::string text() const { return fmt::format("{}, {} ranks, {}", name(dtype), ranks, way_text(low_latency)); }
};

// The ranks of a comparison: those with the device, and those that do the same on the CPU.
struct ProofPair {
  std::vector<Communicator> on_device;
  std::vector<Communicator> on_host;
  std::vector<OnStream> streams;
};

Result<ProofPair> make_pair_of(const GpuSetup& setup, int n, bool low_latency) {
  ProofPair pair;
  auto on_device = low_latency ? make_low_latency_ranks(setup, n) : make_ranks(setup, n);
  if (!on_device) return on_device.error();
  pair.on_device = *std::move(on_device);
  CommunicatorOptions options;
  options.device = "none";
  auto on_host = make_ranks(setup, n, options);
  if (!on_host) return on_host.error();
  pair.on_host = *std::move(on_host);
  auto streams = make_streams(setup, n, kMostCompared * kWidest, kMostCompared * kWidest);
  if (!streams) return streams.error();
  pair.streams = *std::move(streams);
  return pair;
}

// Combines `count` elements of each rank in a stream and on the CPU. Returns the number of bytes that differ, of all
// ranks.
Result<std::uint64_t> differing(ProofPair& pair, DataType dtype, ReduceOp op, std::size_t count) {
  std::atomic<std::uint64_t> wrong = 0;
  const Status done = on_ranks(pair.on_device, [&](Communicator& communicator) -> Status {
    const auto rank = static_cast<std::size_t>(communicator.rank());
    const OnStream& own = pair.streams[rank];
    const std::vector<std::byte> input = values_of(dtype, count, communicator.rank());
    std::vector<std::byte> expected(input.size());
    std::vector<std::byte> found(input.size());
    const Status on_host = pair.on_host[rank].all_reduce(input.data(), expected.data(), count, dtype, op);
    if (!on_host) return on_host;
    WREATH_TRY(own.stream->copy(own.input.data(), input.data(), input.size()));
    Call call = own.call(Collective::AllReduce, dtype, count);
    call.reduction.op = op;
    WREATH_TRY(communicator.start(call));
    WREATH_TRY(own.stream->copy(found.data(), own.output.data(), found.size()));
    WREATH_TRY(own.stream->synchronize());
    for (std::size_t i = 0; i < found.size(); ++i) wrong += found[i] != expected[i] ? 1 : 0;
    return {};
  });
  if (!done) return done.error();
  return wrong.load();
}

// Compares all operators and sizes of one dtype.
Status compare_bits(const GpuSetup& setup, ProofPair& pair, const BitsCase& work, Results& results) {
  std::uint64_t all = 0;
  for (const ReduceOp op : kOps) {
    for (const std::size_t count : setup.quick ? std::span(kCounts).first(2) : std::span(kCounts)) {
      if (setup.quick && op != ReduceOp::Sum) continue;
      const auto wrong = differing(pair, work.dtype, op, count);
      if (!wrong) return wrong.error();
      if (*wrong > 0) {
        results.fail(work.text(),
                     fmt::format("{} of {} elements: {} bytes differ from the CPU's", name(op), count, *wrong));
      }
      all += *wrong;
    }
  }
  fmt::print("bits        {}: {} bytes differ from the CPU's\n", work.text(), all);
  results.add({{"ranks", work.ranks},
               {"dtype", name(work.dtype)},
               {"low_latency", work.low_latency},
               {"operators", setup.quick ? 1 : kOps.size()},
               {"sizes", setup.quick ? 2 : kCounts.size()},
               {"differing_bytes", all}});
  return {};
}

Status prove_bits_of(const GpuSetup& setup, int n, bool low_latency, Results& results) {
  auto pair = make_pair_of(setup, n, low_latency);
  if (!pair) return pair.error();
  for (const DataType dtype : all_dtypes()) {
    const BitsCase work{n, low_latency, dtype};
    if (results.time_for(work.text())) WREATH_TRY(compare_bits(setup, *pair, work, results));
  }
  return {};
}

// One of the mixed calls, which is the same on all ranks. The input has rank + 1 everywhere.
struct Mixed {
  Collective collective;
  Rank root;
  std::size_t count;  // of a block, where blocks move

  // Returns the value that rank `me` of `n` must find at element `i` of its output; 0: no value is expected.
  std::int32_t expected(int n, Rank me, std::size_t i) const {
    const std::int32_t sum = n * (n + 1) / 2;
    switch (collective) {
      case Collective::AllReduce:
      case Collective::ReduceScatter: return i < count ? sum : 0;
      case Collective::Reduce: return i < count && me == root ? sum : 0;
      case Collective::Broadcast: return i < count ? root + 1 : 0;
      default: break;  // all_gather, all_to_all
    }
    const std::size_t block = i / count;
    return block < static_cast<std::size_t>(n) ? static_cast<std::int32_t>(block) + 1 : 0;
  }
};

Mixed draw(std::mt19937& random, int n) {
  constexpr std::array kKinds{Collective::AllReduce, Collective::ReduceScatter, Collective::Reduce,
                              Collective::Broadcast, Collective::AllGather,     Collective::AllToAll};
  const Collective collective = kKinds[random() % kKinds.size()];
  const auto root = static_cast<Rank>(random() % static_cast<unsigned>(n));
  return {collective, root, 1 + random() % (kMostCount / static_cast<std::size_t>(n))};
}

// The streams of a rank, and the results that its last call in each stream must have left.
class MixedRank {
 public:
  MixedRank(const GpuSetup& setup, Communicator& communicator) : setup_(setup), communicator_(communicator) {}

  Status prepare() {
    const std::vector<std::int32_t> values(kMostCount, communicator_.rank() + 1);
    for (std::size_t i = 0; i < streams(); ++i) {
      auto made = OnStream::make(setup_, kMostCount * sizeof(std::int32_t), kMostCount * sizeof(std::int32_t));
      if (!made) return made.error();
      WREATH_TRY(setup_.device->copy(made->input.data(), values.data(), values.size() * sizeof(std::int32_t)));
      streams_.push_back(*std::move(made));
    }
    last_.resize(streams());
    return {};
  }
  Status start(std::size_t stream, const Mixed& mixed) {
    Call call = streams_[stream].call(mixed.collective, DataType::Int32, mixed.count);
    call.root = mixed.root;
    last_[stream] = mixed;
    WREATH_TRY(communicator_.start(call));
    return {};
  }
  // Waits for the streams, and returns the number of wrong elements.
  Result<std::uint64_t> look() {
    std::uint64_t wrong = 0;
    std::vector<std::int32_t> found(kMostCount);
    for (std::size_t i = 0; i < streams(); ++i) {
      WREATH_TRY(streams_[i].stream->synchronize());
      if (last_[i].count == 0) continue;
      WREATH_TRY(setup_.device->copy(found.data(), streams_[i].output.data(), found.size() * sizeof(std::int32_t)));
      for (std::size_t at = 0; at < found.size(); ++at) {
        const std::int32_t expected = last_[i].expected(communicator_.ranks(), communicator_.rank(), at);
        wrong += expected != 0 && found[at] != expected ? 1U : 0U;
      }
    }
    return wrong;
  }

 private:
  std::size_t streams() const { return static_cast<std::size_t>(setup_.streams); }

  const GpuSetup& setup_;
  Communicator& communicator_;
  std::vector<OnStream> streams_;
  std::vector<Mixed> last_;
};

// The state that ranks with mixed calls share.
struct MixedRun {
  Results& results;
  std::atomic<std::uint64_t> wrong = 0;
  std::atomic<int> calls = 0;  // calls that all ranks made
  std::atomic<bool> late = false;
};

// Returns whether there is time for more calls. The answer is the same on all ranks, which meet here.
Result<bool> goes_on(Communicator& communicator, MixedRun& run) {
  if (communicator.rank() == 0) run.late = run.results.late();
  WREATH_TRY(communicator.barrier());
  const bool late = run.late;
  // No rank may read the answer after rank 0 asks again.
  WREATH_TRY(communicator.barrier());
  return !late;
}

Status run_mixed(const GpuSetup& setup, Communicator& communicator, MixedRun& run) {
  MixedRank own(setup, communicator);
  WREATH_TRY(own.prepare());
  // An allocation on a device may wait for kernels, and those kernels wait for peers.
  WREATH_TRY(communicator.barrier());
  std::mt19937 random(1);  // the same on all ranks
  for (int i = 0; i < setup.calls; ++i) {
    const std::size_t stream = random() % static_cast<std::size_t>(setup.streams);
    WREATH_TRY(own.start(stream, draw(random, communicator.ranks())));
    if (i % kCallsALook != kCallsALook - 1 && i != setup.calls - 1) continue;
    const auto found = own.look();
    if (!found) return found.error();
    run.wrong += *found;
    if (communicator.rank() == 0) run.calls = i + 1;
    const auto more = goes_on(communicator, run);
    if (!more) return more.error();
    if (!*more) break;
  }
  return {};
}

// Checks mixed calls of communicators with or without small all_reduces as kernels of their own.
Status prove_mixed_of(const GpuSetup& setup, int n, bool low_latency, Results& results) {
  auto ranks = low_latency ? make_low_latency_ranks(setup, n) : make_ranks(setup, n);
  if (!ranks) return ranks.error();
  MixedRun run{results};
  const Status done = on_ranks(*ranks, [&](Communicator& communicator) { return run_mixed(setup, communicator, run); });
  WREATH_TRY(done);
  const std::uint64_t wrong = run.wrong;
  const int calls = run.calls;
  const std::string what =
      fmt::format("{} calls on {} ranks in {} streams each, {}", calls, n, setup.streams, way_text(low_latency));
  fmt::print("mixed       {}: {} elements wrong\n", what, wrong);
  if (wrong > 0) results.fail(what, fmt::format("{} elements are wrong", wrong));
  results.add(
      {{"ranks", n}, {"calls", calls}, {"streams", setup.streams}, {"low_latency", low_latency}, {"wrong", wrong}});
  if (calls < setup.calls) results.skip(fmt::format("call {} and those behind it", calls + 1), results.late_text());
  return {};
}

}  // namespace

Status prove_bits(const GpuSetup& setup, Results& results) {
  for (const int n : setup.ranks) {
    for (const bool low_latency : setup.low_latency) {
      const Status proved = prove_bits_of(setup, n, low_latency, results);
      if (!proved) results.note(fmt::format("{} ranks, {}", n, way_text(low_latency)), proved.error());
    }
  }
  return {};
}

Status prove_mixed(const GpuSetup& setup, Results& results) {
  const int n = setup.ranks.back();
  for (const bool low_latency : setup.low_latency) {
    const std::string what = fmt::format("{} ranks, {}", n, way_text(low_latency));
    if (!results.time_for(what)) continue;
    const Status proved = prove_mixed_of(setup, n, low_latency, results);
    if (!proved) results.note(what, proved.error());
  }
  return {};
}

}  // namespace wreath::perf
