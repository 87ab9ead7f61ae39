// DDP, ZeRO-1, 2 and 3 have the same bits, with all settings.
#include <gtest/gtest.h>

#include "tests/training/data_parallel/driver.hpp"

namespace wreath::training::test {
namespace {

void expect_same(const std::vector<Outcome>& outcomes, const Outcome& expected, const std::string& what) {
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.weights, expected.weights) << what;
    EXPECT_EQ(outcome.norm, expected.norm) << what;
  }
}

// Rank 1 ends after its second unit; rank 0 must get an error.
void job_that_ends_early(const Job& job, const std::shared_ptr<Communicator>& world, Outcome& outcome) {
  Mesh mesh = Mesh::create(world, job.shape, outcome.traffic).value();
  ParameterList parameters;
  small_model(parameters, {});
  const auto strategy =
      make_data_parallel(parameters, {mesh.replicas(), mesh.tp(), mesh.embedding()}, outcome.memory, job.options);
  const auto step = [&] {
    strategy->begin_step(1);
    backward(job, parameters, *strategy, {mesh.rank(), 0, 0});
    strategy->finish_backward();
    strategy->skip_step();
  };
  if (mesh.rank() == 0) {
    const auto steps = [&] {
      while (true) step();
    };
    EXPECT_THROW(steps(), Exception);
    return;
  }
  step();
  strategy->begin_step(1);
  strategy->before_forward(0);
  static_cast<void>(mesh.replicas().communicator().abort());
}

TEST(Zero, EveryStageHasTheBitsOfDistributedDataParallel) {
  for (const int ranks : {1, 2, 3, 4}) {
    for (const bool mean : {true, false}) {
      Job job = job_of(ranks, 0);
      job.options.mean = mean;
      const Outcome expected = run(job)[0];
      for (const int stage : {1, 2, 3}) {
        job.options.zero_stage = stage;
        expect_same(run(job), expected, "stage " + std::to_string(stage) + " on " + std::to_string(ranks));
      }
    }
  }
}

TEST(Zero, BitsDoNotDependOnOverlapBucketsPrefetchOrTransport) {
  const Outcome expected = run(job_of(3, 0))[0];
  for (const int stage : {1, 2, 3}) {
    Job job = job_of(3, stage);
    job.options.overlap = false;
    expect_same(run(job), expected, "no overlap");
    job.options.overlap = true;
    job.transports = {"tcp"};
    expect_same(run(job), expected, "tcp");
    job.transports = {};
    for (const int setting : {0, 1, 2}) {
      job.options.first_bucket_bytes = job.options.bucket_bytes =
          setting == 0 ? 1 : 700 * static_cast<std::size_t>(setting);
      job.options.prefetch = setting;
      expect_same(run(job), expected, "buckets or prefetch " + std::to_string(setting));
    }
  }
}

// The result is the mean over ranks of sums over micro-batches (stages 0 and 1), or the sum of means (2 and 3). The
// comment of ShardedGradients says so.
TEST(Zero, AccumulatesOverMicroBatches) {
  Job job = job_of(2, 0);
  job.steps = 1;
  job.micro_batches = 3;
  const Outcome expected = run(job)[0];
  job.options.zero_stage = 1;
  expect_same(run(job), expected, "stage 1");
  for (const int stage : {2, 3}) {
    job.options.zero_stage = stage;
    const std::vector<Outcome> outcomes = run(job);
    std::size_t elements = 0;
    for (std::size_t rank = 0; rank < 2; ++rank) {
      elements += outcomes[rank].own_elements;
      for (const auto& [name, gradient] : outcomes[rank].gradients) {
        for (std::size_t i = 0; i < gradient.size(); ++i) {
          float sum = 0;
          for (int m = 0; m < 3; ++m) sum += (gradient_at({0, 0, m}, name, i) + gradient_at({1, 0, m}, name, i)) / 2;
          // A zero belongs to another rank.
          if (gradient[i] != 0) {
            ASSERT_EQ(gradient[i], sum) << name << " " << i;
          }
        }
      }
    }
    EXPECT_EQ(elements, kSmallModelElements);
  }
}

TEST(Zero, TiedUnitsShareAWeight) {
  Job job = job_of(3, 0);
  job.micro_batches = 1;
  job.options.also_uses = {{}, {}, {}, {}, {0}};
  const Outcome expected = run(job)[0];
  for (const int stage : {1, 2, 3}) {
    job.options.zero_stage = stage;
    expect_same(run(job), expected, "stage " + std::to_string(stage));
  }
}

TEST(Zero, PartialGradientsAreSummedFirst) {
  for (const MeshShape shape : {MeshShape{2, 1, 1, 2}, MeshShape{1, 1, 2, 2}}) {
    Job job;
    job.shape = shape;
    job.add_parameters = [](ParameterList& parameters, const MeshPlace& place) {
      small_model(parameters, place);
      for (const char* name : {"h.0.ln", "h.0.attn", "h.2.ln", "ln_f"})
        parameters.find(name)->gradient_is_partial = true;
    };
    const std::vector<Outcome> expected = run(job);
    for (const int stage : {1, 2, 3}) {
      job.options.zero_stage = stage;
      const std::vector<Outcome> outcomes = run(job);
      for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
        EXPECT_EQ(outcomes[rank].weights, expected[rank].weights) << "stage " << stage << " on " << name(shape);
        EXPECT_EQ(outcomes[rank].traffic.of("tp", "all_reduce").calls, 3u);  // one a step
      }
    }
  }
}

TEST(Zero, TiedGradientsOfTwoStagesAreSummedFirst) {
  Job job;
  job.shape = {2, 2, 1, 1};
  job.add_parameters = [](ParameterList& parameters, const MeshPlace& place) {
    parameters.add(parameter_of("h." + std::to_string(place.pp), {5, 5}, 0));
    parameters.add(parameter_of("wte", {13, 7}, place.pp == 0 ? 0 : 1)).tied = true;
  };
  const std::vector<Outcome> expected = run(job);
  EXPECT_EQ(expected[0].weights.at("wte"), expected[1].weights.at("wte"));
  for (const int stage : {1, 2, 3}) {
    job.options.zero_stage = stage;
    const std::vector<Outcome> outcomes = run(job);
    for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
      EXPECT_EQ(outcomes[rank].weights, expected[rank].weights) << "stage " << stage;
    }
  }
}

TEST(Zero, HybridShardingHasTheSameBitsOnPowersOfTwo) {
  const Outcome expected = run(job_of(4, 0))[0];
  for (const int shards : {1, 2, 4}) {
    Job job = job_of(4, 3);
    job.hybrid_shards = shards;
    expect_same(run(job), expected, std::to_string(shards) + " shards");
  }
}

// Gradients of the first micro-batch are formed after the second one's backward pass, as in zero-bubble schedules.
TEST(Zero, WeightsGradientsMayComeLate) {
  for (const int stage : {0, 1, 2, 3}) {
    Job job = job_of(2, stage);
    job.steps = 1;
    job.micro_batches = 2;
    const std::vector<Outcome> expected = run(job);
    wreath::test::LocalRanks ranks(2, {});
    ranks.run([&](Communicator& communicator) {
      Outcome outcome;
      Mesh mesh =
          Mesh::create(std::make_shared<Communicator>(std::move(communicator)), job.shape, outcome.traffic).value();
      ParameterList parameters;
      small_model(parameters, {});
      const auto strategy =
          make_data_parallel(parameters, {mesh.replicas(), mesh.tp(), mesh.embedding()}, outcome.memory, job.options);
      strategy->begin_step(2);
      for (int i = 0; i < 2; ++i) {
        forward_all(parameters, *strategy);
        for (int unit = parameters.units() - 1; unit >= 0; --unit) {
          strategy->before_backward(unit);
          strategy->after_backward(unit);
        }
      }
      for (int i = 0; i < 2; ++i) {
        for (int unit = parameters.units() - 1; unit >= 0; --unit) {
          add_gradients(parameters, unit, {mesh.rank(), 0, i});
          strategy->gradients_ready(unit);
        }
      }
      strategy->finish_backward();
      note_gradients(strategy->pieces(), outcome);
      EXPECT_EQ(outcome.gradients, expected[static_cast<std::size_t>(mesh.rank())].gradients) << "stage " << stage;
    });
  }
}

// A rank leaves in the middle of a step. The other ranks get an error at once, and their memory may be freed.
TEST(Zero, ALostRankIsAnErrorAndNoHang) {
  for (const int stage : {0, 1, 2, 3}) {
    Job job = job_of(2, stage);
    wreath::test::LocalRanks ranks(2, {});
    ranks.run([&](Communicator& communicator) {
      Outcome outcome;
      const auto world = std::make_shared<Communicator>(std::move(communicator));
      job_that_ends_early(job, world, outcome);
    });
  }
}

// No rank uses one unit. Its gradients are zero, and no rank waits for a call.
TEST(Zero, UnusedUnitsHaveZeroGradients) {
  Job job = job_of(2, 0);
  job.uses = [](int unit, int) { return unit != 2; };
  const Outcome expected = run(job)[0];
  for (const int stage : {1, 2, 3}) {
    job.options.zero_stage = stage;
    expect_same(run(job), expected, "stage " + std::to_string(stage));
  }
}

// Ranks use different units, which stage 1 allows.
TEST(Zero, UnitsThatOneRankUsedTakePartInStageOne) {
  Job job = job_of(2, 0);
  job.uses = [](int unit, int rank) { return unit != 1 + rank; };
  const Outcome expected = run(job)[0];
  job.options.zero_stage = 1;
  expect_same(run(job), expected, "stage 1");
}

}  // namespace
}  // namespace wreath::training::test
