// DistributedDataParallel gives the bits of one process that sums all gradients, with any buckets, ranks and transport.
#include <gtest/gtest.h>

#include "tests/training/data_parallel/driver.hpp"

namespace wreath::training::test {
namespace {

TEST(DistributedDataParallel, StartsFromTheSameWeightsOnEveryMesh) {
  Job job = job_of(3, 0);
  job.steps = 0;
  Job alone = job_of(1, 0);
  alone.steps = 0;
  const Values expected = run(alone)[0].weights;
  EXPECT_EQ(expected.size(), 12u);
  for (const Outcome& outcome : run(job)) EXPECT_EQ(outcome.weights, expected);
  EXPECT_NE(expected.at("wte")[0], expected.at("wpe")[0]);
}

TEST(DistributedDataParallel, GivesTheMeanInTheLibrarysOrderOfSums) {
  for (const int ranks : {1, 2, 3, 4}) {
    for (const bool mean : {true, false}) {
      Job job = job_of(ranks, 0);
      job.steps = 1;
      job.options.mean = mean;
      for (const Outcome& outcome : run(job)) {
        for (const auto& [name, gradient] : outcome.gradients) {
          for (std::size_t i = 0; i < gradient.size(); ++i) {
            std::vector<float> of_ranks;
            for (int rank = 0; rank < ranks; ++rank) of_ranks.push_back(gradient_at({rank, 0, 0}, name, i));
            const float sum = canonical_sum(of_ranks);
            ASSERT_EQ(gradient[i], mean ? sum / static_cast<float>(ranks) : sum) << ranks << " " << name << " " << i;
          }
        }
      }
    }
  }
}

TEST(DistributedDataParallel, HasTheSameBitsWithAnyBucketsOverlapAndTransport) {
  const Outcome expected = run(job_of(3, 0))[0];
  for (const bool overlap : {true, false}) {
    for (const std::size_t bytes : {1u, 100u, 2'000u, 1u << 20}) {
      Job job = job_of(3, 0);
      job.options.overlap = overlap;
      job.options.first_bucket_bytes = bytes / 2;
      job.options.bucket_bytes = bytes;
      for (const Outcome& outcome : run(job)) {
        EXPECT_EQ(outcome.weights, expected.weights) << overlap << " " << bytes;
        EXPECT_EQ(outcome.norm, expected.norm);
      }
    }
  }
  Job tcp = job_of(3, 0);
  tcp.transports = {"tcp"};
  for (const Outcome& outcome : run(tcp)) EXPECT_EQ(outcome.weights, expected.weights);
}

// A step moves the bytes of all gradients once, and makes one call for each bucket. The 12 parameters fill buckets from
// the last one on.
TEST(DistributedDataParallel, MovesEveryGradientOnceAStep) {
  Job job = job_of(2, 0);
  job.micro_batches = 3;
  job.steps = 5;
  job.options.first_bucket_bytes = 1;  // ln_f (28 bytes) alone
  // A bucket holds mlp (812), attn (588) and ln (28), and the last one holds wpe and wte (448).
  job.options.bucket_bytes = 1'500;
  for (const Outcome& outcome : run(job)) {
    const Traffic traffic = outcome.traffic.of("dp_cp", "all_reduce");
    EXPECT_EQ(traffic.bytes, 5 * 4 * kSmallModelElements);
    EXPECT_EQ(traffic.calls, 5u * 5u);
    EXPECT_EQ(outcome.traffic.all().size(), 1u);
  }
}

TEST(DistributedDataParallel, KeepsSixteenBytesAParameter) {
  for (const Outcome& outcome : run(job_of(2, 0))) {
    EXPECT_EQ(outcome.memory.peak_bytes(MemoryTag::Parameters), 4 * kSmallModelElements);
    EXPECT_EQ(outcome.memory.peak_bytes(MemoryTag::Gradients), 4 * kSmallModelElements);
    EXPECT_EQ(outcome.memory.peak_bytes(MemoryTag::Optimizer), 8 * kSmallModelElements);
    EXPECT_EQ(outcome.memory.peak_bytes(MemoryTag::Buckets), 0u);
    EXPECT_EQ(outcome.memory.peak_bytes(MemoryTag::Gathered), 0u);
  }
}

// Ranks use different units, so that buckets are ready in different orders. There is no mismatch, and unused gradients
// take part as zeros.
TEST(DistributedDataParallel, UnusedParametersTakePartWithZeros) {
  Job job = job_of(2, 0);
  job.steps = 2;
  job.options.first_bucket_bytes = 1;
  job.options.bucket_bytes = 1;
  job.uses = [](int unit, int rank) { return unit != 1 + rank; };
  const std::vector<Outcome> outcomes = run(job);
  EXPECT_EQ(outcomes[0].weights, outcomes[1].weights);
  for (std::size_t i = 0; i < 7; ++i) {
    EXPECT_EQ(outcomes[0].gradients.at("h.0.ln")[i], gradient_at({1, 1, 0}, "h.0.ln", i) / 2);
    EXPECT_EQ(outcomes[0].gradients.at("h.1.ln")[i], gradient_at({0, 1, 0}, "h.1.ln", i) / 2);
  }
}

TEST(DistributedDataParallel, NoSyncAddsUpOverRounds) {
  Job job = job_of(2, 0);
  job.steps = 1;
  job.micro_batches = 3;
  const Outcome expected = run(job)[0];
  const auto rounds = [&](std::shared_ptr<Communicator> world, Outcome& outcome) {
    Mesh mesh = Mesh::create(std::move(world), job.shape, outcome.traffic).value();
    ParameterList parameters;
    small_model(parameters, {});
    const auto strategy =
        make_data_parallel(parameters, {mesh.replicas(), mesh.tp(), mesh.embedding()}, outcome.memory, job.options);
    for (int step = 0; step < 2; ++step) {  // the second step begins from zero again
      for (int i = 0; i < 3; ++i) {
        std::unique_ptr<NoSync> no_sync = i < 2 ? std::make_unique<NoSync>(*strategy) : nullptr;
        strategy->begin_step(1);
        backward(job, parameters, *strategy, {mesh.rank(), 0, i});
        strategy->finish_backward();
      }
      note_gradients(strategy->pieces(), outcome);
      strategy->finish_step();
    }
  };
  wreath::test::LocalRanks ranks(2, {});
  ranks.run([&](Communicator& communicator) {
    Outcome outcome;
    rounds(std::make_shared<Communicator>(std::move(communicator)), outcome);
    EXPECT_EQ(outcome.gradients, expected.gradients);
    EXPECT_EQ(outcome.traffic.of("dp_cp", "all_reduce").bytes, 2 * 4 * kSmallModelElements);
  });
}

TEST(DistributedDataParallel, CompressionSendsHalfTheBytes) {
  const auto run_compressed = [](int ranks) {
    std::vector<Outcome> outcomes(static_cast<std::size_t>(ranks));
    wreath::test::LocalRanks local(ranks, {});
    local.run([&](Communicator& communicator) {
      Outcome& outcome = outcomes[static_cast<std::size_t>(communicator.rank())];
      Job job = job_of(ranks, 0);
      job.steps = 1;
      job.options.hook = bf16_compression(outcome.memory);
      run_rank(job, std::make_shared<Communicator>(std::move(communicator)), outcome);
    });
    return outcomes;
  };
  Job job = job_of(2, 0);
  job.steps = 1;
  const Outcome plain = run(job)[0];
  for (const Outcome& outcome : run_compressed(2)) {
    EXPECT_EQ(outcome.traffic.of("dp_cp", "all_reduce").bytes, 2 * kSmallModelElements);
    EXPECT_EQ(outcome.memory.bytes(MemoryTag::Buckets), 0u);
    for (const auto& [name, gradient] : outcome.gradients) {
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        const float scale = std::abs(gradient_at({0, 0, 0}, name, i)) + std::abs(gradient_at({1, 0, 0}, name, i));
        ASSERT_NEAR(gradient[i], plain.gradients.at(name)[i], scale / 256) << name << " " << i;
      }
    }
    EXPECT_NE(outcome.gradients, plain.gradients);
  }
}

TEST(DistributedDataParallel, BucketsStartWhileBackwardGoesOn) {
  for (const bool overlap : {true, false}) {
    Outcome outcome;
    Mesh mesh = Mesh::create(nullptr, {}, outcome.traffic).value();
    ParameterList parameters;
    small_model(parameters, {});
    std::vector<std::size_t> started;  // the elements of each bucket
    Job job;
    job.options.overlap = overlap;
    job.options.first_bucket_bytes = 1;
    job.options.bucket_bytes = 1'500;
    job.options.hook = [&](std::span<float> bucket, Group&, const Reduction&) {
      started.push_back(bucket.size());
      return [] {};
    };
    const auto strategy =
        make_data_parallel(parameters, {mesh.replicas(), mesh.tp(), mesh.embedding()}, outcome.memory, job.options);
    strategy->begin_step(1);
    forward_all(parameters, *strategy);
    const std::vector<std::size_t> expected = {7, 357, 357, 357, 112};
    for (int unit = 4; unit >= 0; --unit) {
      strategy->before_backward(unit);
      strategy->after_backward(unit);
      strategy->gradients_ready(unit);
      EXPECT_EQ(started.size(), overlap ? static_cast<std::size_t>(5 - unit) : 0u);
    }
    strategy->finish_backward();
    EXPECT_EQ(started, expected);
  }
}

// A weight that two units use is sent only when both have added to it.
TEST(DistributedDataParallel, WaitsForAllUsersOfAWeight) {
  Job job = job_of(2, 0);
  job.options.also_uses = {{}, {}, {}, {}, {0}};
  const Outcome expected = run(job)[0];
  job.options.first_bucket_bytes = job.options.bucket_bytes = 1;
  EXPECT_EQ(run(job)[1].weights, expected.weights);
  job.options.also_uses.clear();
  EXPECT_NE(run(job)[0].weights, expected.weights);
}

// Four ranks form dp2 x tp2. Gradients of which tensor ranks have shares are summed over them, in one call, before the
// mean.
TEST(DistributedDataParallel, SumsPartialGradientsOverTensorRanksFirst) {
  Job job;
  job.shape = {2, 1, 1, 2};
  job.steps = 1;
  job.add_parameters = [](ParameterList& parameters, const MeshPlace& place) {
    small_model(parameters, place);
    for (const char* name : {"h.0.ln", "h.2.ln", "ln_f"}) parameters.find(name)->gradient_is_partial = true;
  };
  for (const Outcome& outcome : run(job)) {
    EXPECT_EQ(outcome.traffic.of("tp", "all_reduce").calls, 1u);
    EXPECT_EQ(outcome.traffic.of("tp", "all_reduce").bytes, 3 * 7 * 4u);
    for (std::size_t i = 0; i < 7; ++i) {
      const auto at = [&](int rank) { return gradient_at({rank, 0, 0}, "h.2.ln", i); };
      EXPECT_EQ(outcome.gradients.at("h.2.ln")[i], ((at(0) + at(1)) + (at(2) + at(3))) / 2);
    }
  }
}

TEST(DistributedDataParallel, SumsTiedGradientsOverBothEndsOfThePipelineFirst) {
  Job job;
  job.shape = {2, 2, 1, 1};
  job.steps = 1;
  job.add_parameters = [](ParameterList& parameters, const MeshPlace& place) {
    parameters.add(parameter_of("h." + std::to_string(place.pp), {5, 5}, 0));
    parameters.add(parameter_of("wte", {13, 7}, place.pp == 0 ? 0 : 1)).tied = true;
  };
  for (const Outcome& outcome : run(job)) {
    EXPECT_EQ(outcome.traffic.of("embedding", "all_reduce").bytes, 13 * 7 * 4u);
    for (std::size_t i = 0; i < 13 * 7; ++i) {
      const auto at = [&](int rank) { return gradient_at({rank, 0, 0}, "wte", i); };
      EXPECT_EQ(outcome.gradients.at("wte")[i], ((at(0) + at(1)) + (at(2) + at(3))) / 2);
    }
  }
}

TEST(DistributedDataParallel, RefusesWhatMakesNoSense) {
  const auto refused = [](const std::function<void(DataParallelOptions&)>& change) {
    CommunicationAccounting traffic;
    MemoryAccounting memory;
    Mesh mesh = Mesh::create(nullptr, {}, traffic).value();
    ParameterList parameters;
    small_model(parameters, {});
    DataParallelOptions options;
    change(options);
    EXPECT_THROW(make_data_parallel(parameters, {mesh.replicas(), mesh.tp(), mesh.embedding()}, memory, options),
                 Exception);
    EXPECT_EQ(memory.bytes(MemoryTag::Parameters), 0u);
  };
  refused([](DataParallelOptions& options) { options.zero_stage = 4; });
  refused([](DataParallelOptions& options) { options.prefetch = 3; });
  refused([](DataParallelOptions& options) { options.also_uses = {{7}}; });
  refused([](DataParallelOptions& options) { options.also_uses = {{0}}; });
  refused([](DataParallelOptions& options) {
    options.zero_stage = 1;
    options.hook = [](std::span<float>, Group&, const Reduction&) { return [] {}; };
  });
}

}  // namespace
}  // namespace wreath::training::test
