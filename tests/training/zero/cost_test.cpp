// The bytes that the stages of ZeRO move and keep agree with closed forms that are written here.
#include <gtest/gtest.h>

#include "tests/training/data_parallel/driver.hpp"

namespace wreath::training::test {
namespace {

constexpr std::size_t kUnits[] = {13 * 7 + 3 * 7, 7 + 7 * 21 + 7 * 29, 7 + 7 * 21 + 7 * 29, 7 + 7 * 21 + 7 * 29, 7};

std::size_t padded(std::size_t elements, std::size_t ranks) { return (elements + ranks - 1) / ranks * ranks; }

// Returns Psi with each bucket padded to a multiple of the ranks. In stages 2 and 3 a unit is a bucket.
std::size_t padded_units(std::size_t ranks) {
  std::size_t sum = 0;
  for (const std::size_t unit : kUnits) sum += padded(unit, ranks);
  return sum;
}

struct Kept {
  std::size_t parameters = 0, gradients = 0;  // bytes
  std::size_t optimizers = 1;                 // ranks that divide the moments
};

// Returns a text that says what differs from the formulas, or an empty text.
std::string memory_mismatch(const std::vector<Outcome>& outcomes, const Kept& kept) {
  std::string mismatch;
  const auto compare = [&](const char* what, std::size_t is, std::size_t formula) {
    if (is != formula)
      mismatch += std::string(what) + " " + std::to_string(is) + ", not " + std::to_string(formula) + "; ";
  };
  std::size_t moments = 0;
  for (const Outcome& outcome : outcomes) {
    const auto peak = [&](MemoryTag tag) { return outcome.memory.peak_bytes(tag); };
    compare("parameters", peak(MemoryTag::Parameters), kept.parameters);
    compare("gradients", peak(MemoryTag::Gradients), kept.gradients);
    compare("optimizer", peak(MemoryTag::Optimizer), 8 * outcome.own_elements);
    if (peak(MemoryTag::Optimizer) > 8 * padded_units(kept.optimizers) / kept.optimizers)
      mismatch += "a share too large";
    moments += peak(MemoryTag::Optimizer);
  }
  // The moments have every element once, without padding.
  compare("all moments", moments, outcomes.size() / kept.optimizers * 8 * kSmallModelElements);
  return mismatch;
}

TEST(ZeroMemory, StageOneKeepsEightBytesAParameterAndItsShareOfTheMoments) {
  for (const int ranks : {2, 3, 4}) {
    const auto n = static_cast<std::size_t>(ranks);
    const std::size_t whole = 4 * padded(kSmallModelElements, n);  // one bucket
    EXPECT_EQ(memory_mismatch(run(job_of(ranks, 1)), {whole, whole, n}), "");
  }
}

TEST(ZeroMemory, StageTwoKeepsItsShareOfTheGradients) {
  for (const int ranks : {2, 3, 4}) {
    const auto n = static_cast<std::size_t>(ranks);
    for (const int micro_batches : {1, 3}) {
      Job job = job_of(ranks, 2);
      job.micro_batches = micro_batches;
      const std::vector<Outcome> outcomes = run(job);
      EXPECT_EQ(memory_mismatch(outcomes, {4 * padded_units(n), 4 * padded_units(n) / n, n}), "");
      // The buckets are those of the unit in backward and of two that are being sent.
      for (const Outcome& outcome : outcomes) {
        EXPECT_EQ(outcome.memory.peak_bytes(MemoryTag::Buckets), 4 * 3 * padded(kUnits[1], n));
        EXPECT_EQ(outcome.memory.bytes(MemoryTag::Buckets), 0u);
      }
    }
  }
}

TEST(ZeroMemory, WithoutOverlapOneBucketIsThere) {
  for (const int stage : {2, 3}) {
    Job job = job_of(2, stage);
    job.options.overlap = false;
    for (const Outcome& outcome : run(job)) {
      EXPECT_EQ(outcome.memory.peak_bytes(MemoryTag::Buckets), 4 * padded(kUnits[1], 2));
    }
  }
}

TEST(ZeroMemory, StageThreeKeepsItsShareOfAllAndGathersFewUnits) {
  for (const int ranks : {2, 3, 4}) {
    const auto n = static_cast<std::size_t>(ranks);
    for (const int prefetch : {0, 1, 2}) {
      Job job = job_of(ranks, 3);
      job.options.prefetch = prefetch;
      const std::vector<Outcome> outcomes = run(job);
      EXPECT_EQ(memory_mismatch(outcomes, {4 * padded_units(n) / n, 4 * padded_units(n) / n, n}), "");
      // The gathered units are the one in use and those ahead of it.
      for (const Outcome& outcome : outcomes) {
        EXPECT_EQ(outcome.memory.peak_bytes(MemoryTag::Gathered),
                  4 * (1 + static_cast<std::size_t>(prefetch)) * padded(kUnits[1], n));
      }
    }
  }
}

TEST(ZeroMemory, HybridKeepsAShardOfWeightsAndDividesTheRestOverAll) {
  Job job = job_of(4, 3);
  job.hybrid_shards = 2;
  EXPECT_EQ(memory_mismatch(run(job), {4 * padded_units(4) / 2, 4 * padded_units(4) / 4, 4}), "");
}

struct Moved {
  std::size_t reduce_scatter = 0, all_gather = 0;  // bytes a step
  std::size_t scatters = 0, gathers = 0;           // calls a step
};

std::string traffic_mismatch(const Job& job, const Moved& moved, const std::string& group = "dp_cp") {
  std::string mismatch;
  const auto steps = static_cast<std::size_t>(job.steps);
  const auto compare = [&](const char* what, std::size_t is, std::size_t formula) {
    if (is != formula)
      mismatch += std::string(what) + " " + std::to_string(is) + ", not " + std::to_string(formula) + "; ";
  };
  for (const Outcome& outcome : run(job)) {
    const Traffic scattered = outcome.traffic.of(group, "reduce_scatter");
    const Traffic gathered = outcome.traffic.of(group, "all_gather");
    compare("scattered", scattered.bytes, steps * moved.reduce_scatter);
    compare("gathered", gathered.bytes, steps * moved.all_gather);
    compare("scatters", scattered.calls, steps * moved.scatters);
    compare("gathers", gathered.calls, steps * moved.gathers);
    compare("all_reduces", outcome.traffic.of(group, "all_reduce").calls, 0);
    compare("the norm's bytes", outcome.traffic.of("world", "all_reduce").bytes, steps * (4 + 16));
  }
  return mismatch;
}

TEST(ZeroTraffic, StageOneScattersAndGathersOnceAStep) {
  Job job = job_of(3, 1);
  job.micro_batches = 4;
  const std::size_t bytes = 4 * padded(kSmallModelElements, 3);
  EXPECT_EQ(traffic_mismatch(job, {bytes, bytes, 1, 1}), "");
}

TEST(ZeroTraffic, StageTwoScattersEveryMicroBatch) {
  Job job = job_of(3, 2);
  job.micro_batches = 4;
  const std::size_t bytes = 4 * padded_units(3);
  EXPECT_EQ(traffic_mismatch(job, {4 * bytes, bytes, 4 * 5, 5}), "");
}

// Every micro-batch gathers each unit forward and backward, except for the last unit, which it gathers once.
TEST(ZeroTraffic, StageThreeGathersTwiceAMicroBatch) {
  for (const int prefetch : {0, 1, 2}) {
    Job job = job_of(3, 3);
    job.micro_batches = 4;
    job.options.prefetch = prefetch;
    const std::size_t bytes = 4 * padded_units(3);
    EXPECT_EQ(traffic_mismatch(job, {4 * bytes, 4 * (2 * bytes - 4 * padded(kUnits[4], 3)), 4 * 5, 4 * 9}), "");
  }
}

TEST(ZeroTraffic, HybridMovesAnAllReduceOfTheShardBetweenCopies) {
  Job job = job_of(4, 3);
  job.hybrid_shards = 2;
  const std::size_t bytes = 4 * padded_units(4);
  EXPECT_EQ(traffic_mismatch(job, {bytes, 2 * bytes - 4 * padded(kUnits[4], 4), 5, 9}, "shards"), "");
  EXPECT_EQ(traffic_mismatch(job, {bytes / 2, bytes / 2, 5, 5}, "replicate"), "");
}

// One job keeps a copy too many and another makes a call too many. The checks above must show it.
TEST(ZeroTraffic, PlantedBugsShow) {
  const std::size_t whole = 4 * padded(kSmallModelElements, 2);
  Job job = job_of(2, 1);
  job.planted_bug = [](Mesh&, MemoryAccounting& memory) {
    const Buffer<float> copy(memory, MemoryTag::Gradients, kSmallModelElements);
  };
  EXPECT_NE(memory_mismatch(run(job), {whole, whole, 2}), "");
  EXPECT_EQ(traffic_mismatch(job, {whole, whole, 1, 1}), "");
  job.planted_bug = [](Mesh& mesh, MemoryAccounting&) {
    std::vector<float> two(2);
    mesh.replicas().all_gather(std::span<const float>(two).subspan(static_cast<std::size_t>(mesh.rank()), 1),
                               std::span<float>(two));
  };
  EXPECT_EQ(memory_mismatch(run(job), {whole, whole, 2}), "");
  EXPECT_NE(traffic_mismatch(job, {whole, whole, 1, 1}), "");
}

}  // namespace
}  // namespace wreath::training::test
