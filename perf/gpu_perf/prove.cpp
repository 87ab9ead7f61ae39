// Results that are known: the CPU's, and sums of constants.
#include <fmt/format.h>

#include <array>
#include <atomic>
#include <cstring>
#include <random>

#include "perf/gpu_perf/bench.hpp"

namespace wreath::perf {
namespace {

constexpr std::size_t kStreams = 4;       // of a rank, in the mixed calls
constexpr std::size_t kMostCount = 4096;  // elements of a mixed call
constexpr int kCallsALook = 200;          // between looks at the results

// Finite values of all signs and sizes: of a floating type the exponent's highest bit is cleared.
std::vector<std::byte> values_of(DataType dtype, std::size_t count, int seed) {
  std::mt19937 random(static_cast<unsigned>(seed));
  std::vector<std::byte> values(count * size_of(dtype));
  for (std::byte& each : values) each = static_cast<std::byte>(random());
  const std::size_t size = size_of(dtype);
  for (std::size_t i = size - 1; is_floating(dtype) && i < values.size(); i += size) values[i] &= std::byte{0xBF};
  return values;
}

// Sums `count` elements of each rank in a stream and on the CPU; how many bytes differ, of all ranks.
Result<std::uint64_t> differing(const GpuSetup& setup, std::vector<Communicator>& ranks, DataType dtype,
                                std::size_t count) {
  std::atomic<std::uint64_t> wrong = 0;
  const Status done = on_ranks(ranks, [&](Communicator& communicator) -> Status {
    const std::vector<std::byte> input = values_of(dtype, count, communicator.rank());
    std::vector<std::byte> expected(input.size());
    std::vector<std::byte> found(input.size());
    WREATH_TRY(communicator.all_reduce(input.data(), expected.data(), count, dtype));
    const auto own = OnStream::make(setup, input.size(), input.size());
    if (!own) return own.error();
    WREATH_TRY(own->stream->copy(own->input.data(), input.data(), input.size()));
    WREATH_TRY(communicator.start(own->call(Collective::AllReduce, dtype, count)));
    WREATH_TRY(own->stream->copy(found.data(), own->output.data(), found.size()));
    WREATH_TRY(own->stream->synchronize());
    for (std::size_t i = 0; i < found.size(); ++i) wrong += found[i] != expected[i] ? 1 : 0;
    return {};
  });
  if (!done) return done.error();
  return wrong.load();
}

// One of the mixed calls, the same on all ranks. Input: rank + 1 everywhere.
struct Mixed {
  Collective collective;
  Rank root;
  std::size_t count;  // of a block, where blocks move

  // What rank `me` of `n` finds at element `i` of its output; 0: nothing.
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

// The streams of a rank, and what its last call in each should have left.
class MixedRank {
 public:
  MixedRank(const GpuSetup& setup, Communicator& communicator) : setup_(setup), communicator_(communicator) {}

  Status prepare() {
    const std::vector<std::int32_t> values(kMostCount, communicator_.rank() + 1);
    for (std::size_t i = 0; i < kStreams; ++i) {
      auto made = OnStream::make(setup_, kMostCount * sizeof(std::int32_t), kMostCount * sizeof(std::int32_t));
      if (!made) return made.error();
      WREATH_TRY(setup_.device->copy(made->input.data(), values.data(), values.size() * sizeof(std::int32_t)));
      streams_.push_back(*std::move(made));
    }
    last_.resize(kStreams);
    return {};
  }
  Status start(std::size_t stream, const Mixed& mixed) {
    Call call = streams_[stream].call(mixed.collective, DataType::Int32, mixed.count);
    call.root = mixed.root;
    last_[stream] = mixed;
    WREATH_TRY(communicator_.start(call));
    return {};
  }
  // How many elements are wrong; waits for the streams.
  Result<std::uint64_t> look() {
    std::uint64_t wrong = 0;
    std::vector<std::int32_t> found(kMostCount);
    for (std::size_t i = 0; i < kStreams; ++i) {
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
  const GpuSetup& setup_;
  Communicator& communicator_;
  std::vector<OnStream> streams_;
  std::vector<Mixed> last_;
};

Status run_mixed(const GpuSetup& setup, Communicator& communicator, std::atomic<std::uint64_t>& wrong) {
  MixedRank own(setup, communicator);
  WREATH_TRY(own.prepare());
  std::mt19937 random(1);  // alike on all ranks
  for (int i = 0; i < setup.calls; ++i) {
    const std::size_t stream = random() % kStreams;
    WREATH_TRY(own.start(stream, draw(random, communicator.ranks())));
    if (i % kCallsALook != kCallsALook - 1 && i != setup.calls - 1) continue;
    const auto found = own.look();
    if (!found) return found.error();
    wrong += *found;
  }
  return {};
}

}  // namespace

Result<PartReport> prove_bits(const GpuSetup& setup) {
  PartReport report;
  for (const int n : setup.ranks) {
    auto ranks = make_ranks(setup, n);
    if (!ranks) return ranks.error();
    for (const DataType dtype :
         {DataType::Float32, DataType::Float64, DataType::BFloat16, DataType::Float16, DataType::Int32}) {
      for (const std::size_t count : {std::size_t{7}, std::size_t{100'003}}) {
        const auto wrong = differing(setup, *ranks, dtype, count);
        if (!wrong) return wrong.error();
        fmt::print("bits        {} x {}, {} ranks: {} bytes differ from the CPU's\n", name(dtype), count, n, *wrong);
        report.wrong = report.wrong || *wrong > 0;
        report.json.push_back({{"ranks", n}, {"dtype", name(dtype)}, {"count", count}, {"differing_bytes", *wrong}});
      }
    }
  }
  return report;
}

Result<PartReport> prove_mixed(const GpuSetup& setup) {
  const int n = setup.ranks.back();
  auto ranks = make_ranks(setup, n);
  if (!ranks) return ranks.error();
  std::atomic<std::uint64_t> wrong = 0;
  WREATH_TRY(on_ranks(*ranks, [&](Communicator& communicator) { return run_mixed(setup, communicator, wrong); }));
  fmt::print("mixed       {} calls on {} ranks in {} streams each: {} elements wrong\n", setup.calls, n, kStreams,
             wrong.load());
  return PartReport{{{"ranks", n}, {"calls", setup.calls}, {"streams", kStreams}, {"wrong", wrong.load()}}, wrong > 0};
}

}  // namespace wreath::perf
