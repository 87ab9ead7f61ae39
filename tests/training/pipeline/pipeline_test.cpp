// Pipelines give the same bits with every schedule and number of ranks, and send the bytes of the formula. No rank
// waits for ever when another fails.
#include "training/pipeline/pipeline.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <stdexcept>

#include "tests/training/pipeline/fake_pipeline.hpp"
#include "training/pipeline/verify.hpp"

namespace wreath::training::running {
namespace {

using test::FakeStage;
using test::PipelineOutcome;
using test::run_pipeline;
using testing::HasSubstr;

PipelineSchedule schedule_of(std::string_view name, int ranks, int chunks, int micro_batches) {
  return make_schedule(name, {ranks, chunks, micro_batches}).value();
}

std::vector<std::uint32_t> bits(const std::vector<float>& values) {
  std::vector<std::uint32_t> all;
  for (const float value : values) all.push_back(std::bit_cast<std::uint32_t>(value));
  return all;
}

// Runs `stages` one after the other, micro-batch by micro-batch, without a pipeline.
PipelineOutcome by_hand(int stages, int micro_batches, std::size_t count, int steps) {
  std::vector<FakeStage> chain;
  for (int stage = 0; stage < stages; ++stage) chain.emplace_back(stage, stages, micro_batches, count);
  for (int i = 0; i < steps * micro_batches; ++i) {
    const int micro_batch = i % micro_batches;
    std::vector<float> boundary;
    for (FakeStage& stage : chain) {
      std::vector<float> output(&stage == &chain.back() ? 0 : count);
      stage.forward(micro_batch, boundary, output);
      boundary = output;
    }
    for (std::size_t stage = chain.size(); stage-- > 0;) {
      std::vector<float> input_gradient(stage == 0 ? 0 : count);
      chain[stage].backward(micro_batch, boundary, input_gradient);
      chain[stage].backward_weights(micro_batch);
      boundary = input_gradient;
    }
  }
  PipelineOutcome outcome;
  for (const FakeStage& stage : chain) outcome.weight_gradients.push_back(stage.weight_gradient());
  outcome.loss = chain.back().loss();
  return outcome;
}

TEST(FakeStage, HasTheGradientsThatDifferencesGive) {
  // The loss is the sum over i of g_i (a x_i + m), with the last stage's own g. Its derivative by a is the sum of g_i
  // x_i.
  FakeStage stage(0, 1, 1, 2);
  stage.forward(0, {}, {});
  stage.backward(0, {}, {});
  stage.backward_weights(0);
  EXPECT_FLOAT_EQ(stage.weight_gradient(), 0.01f * 0.1f + 0.02f * 0.2f);
  EXPECT_FLOAT_EQ(stage.loss(), 0.7f * 0.3f);
}

struct Case {
  const char* schedule;
  int ranks, chunks, micro_batches;
};

class PipelineRuns : public testing::TestWithParam<Case> {};

TEST_P(PipelineRuns, EqualBitsAndTheFormulasPayload) {
  const auto& [name, ranks, chunks, micro_batches] = GetParam();
  const PipelineSchedule schedule = schedule_of(name, ranks, chunks, micro_batches);
  test::Run run;
  run.steps = 2;
  const PipelineOutcome outcome = run_pipeline(schedule, run);
  const PipelineOutcome expected = by_hand(ranks * chunks, micro_batches, run.count, run.steps);
  EXPECT_EQ(bits(outcome.weight_gradients), bits(expected.weight_gradients));
  EXPECT_EQ(outcome.loss, expected.loss);
  EXPECT_EQ(outcome.kept, 0);
  EXPECT_EQ(outcome.bytes_left, 0u);

  const auto boundaries = static_cast<std::uint64_t>(ranks == 1 ? 0 : ranks * chunks - 1);
  const std::uint64_t bytes = 2 * static_cast<std::uint64_t>(micro_batches) * boundaries * run.count * sizeof(float);
  EXPECT_EQ(outcome.sent_bytes, bytes * static_cast<std::uint64_t>(run.steps));
  EXPECT_EQ(outcome.received_bytes, bytes * static_cast<std::uint64_t>(run.steps));
  EXPECT_EQ(outcome.other_bytes, 0u);
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const int ranks : {1, 2, 3, 4}) {
    for (const int micro_batches : {1, 2, 3, 8}) {
      for (const ScheduleBuilder& builder : schedule_builders()) {
        const int chunks = builder.name == "interleaved" ? 2 + micro_batches % 2 : 1;
        all.push_back({builder.name.data(), ranks, chunks, micro_batches});
      }
    }
  }
  return all;
}

std::string case_name(const testing::TestParamInfo<Case>& tested) {
  const auto& [name, ranks, chunks, micro_batches] = tested.param;
  return "s_" + std::string(name) + "_p" + std::to_string(ranks) + "_v" + std::to_string(chunks) + "_m" +
         std::to_string(micro_batches);
}

INSTANTIATE_TEST_SUITE_P(Schedules, PipelineRuns, testing::ValuesIn(cases()), case_name);

TEST(Pipeline, MoreRanksOrChunksLeaveTheBitsAlone) {
  const std::vector<std::uint32_t> expected = bits(run_pipeline(schedule_of("gpipe", 4, 1, 7)).weight_gradients);
  EXPECT_EQ(bits(run_pipeline(schedule_of("zb_h1", 4, 1, 7)).weight_gradients), expected);
  EXPECT_EQ(bits(run_pipeline(schedule_of("interleaved", 2, 2, 7)).weight_gradients), expected);
  EXPECT_EQ(bits(run_pipeline(schedule_of("interleaved", 1, 4, 7)).weight_gradients), expected);
}

TEST(Pipeline, LargeMessagesOverAWire) {
  test::Run run;
  run.count = 100'000;
  run.options.transports = {"tcp"};
  const PipelineOutcome outcome = run_pipeline(schedule_of("1f1b", 3, 1, 4), run);
  EXPECT_EQ(bits(outcome.weight_gradients), bits(by_hand(3, 4, run.count, 1).weight_gradients));
}

TEST(Pipeline, MoreMicroBatchesThanCallsInFlight) {
  const int count = 3 * static_cast<int>(kQueuedMessages);
  test::Run run;
  run.count = 1;
  const PipelineOutcome outcome = run_pipeline(schedule_of("gpipe", 2, 1, count), run);
  EXPECT_EQ(bits(outcome.weight_gradients), bits(by_hand(2, count, 1, 1).weight_gradients));
}

// A stage throws on one rank. All ranks throw within seconds, and no buffer is lost.
TEST(Pipeline, AnExceptionOfAStageReachesAllRanks) {
  const PipelineSchedule schedule = schedule_of("1f1b", 4, 1, 6);
  for (int failing = 0; failing < 4; ++failing) {
    std::atomic<int> own{0}, learned{0};
    CommunicatorOptions options;
    options.timeouts.arrival_ms = 10'000;
    test::with_groups(4, options, [&](Group& group, CommunicationAccounting&) {
      MemoryAccounting memory;
      FakeStage stage(group.rank(), 4, 6, 64);
      if (group.rank() == failing) {
        stage.on_forward = [](int micro_batch) {
          if (micro_batch == 2) throw std::runtime_error("the stage fails");
        };
      }
      Pipeline pipeline = Pipeline::create(group, schedule, {&stage}, memory).value();
      try {
        pipeline.run_step();
        ADD_FAILURE() << "rank " << group.rank() << " did not learn of the failure";
      } catch (const Exception& error) {
        EXPECT_EQ(error.error().code, ErrorCode::Aborted) << error.what();
        ++learned;
      } catch (const std::runtime_error& error) {
        EXPECT_STREQ(error.what(), "the stage fails");
        ++own;
      }
      EXPECT_EQ(memory.bytes(MemoryTag::Activations), 0u);
      EXPECT_TRUE(group.communicator().barrier()) << "the group itself goes on";
    });
    EXPECT_EQ(own, 1);
    EXPECT_EQ(learned, 3);
  }
}

// Calls create() on 2 ranks and returns the error of each.
std::vector<std::string> creation_errors(const std::function<PipelineSchedule(int rank)>& schedule,
                                         const std::function<std::size_t(int rank)>& count, std::size_t chunks) {
  std::vector<std::string> errors(2);
  test::with_groups(2, {}, [&](Group& group, CommunicationAccounting&) {
    MemoryAccounting memory;
    FakeStage stage(group.rank(), 2, 1, count(group.rank()));
    const Result<Pipeline> made =
        Pipeline::create(group, schedule(group.rank()), std::vector<Stage*>(chunks, &stage), memory);
    errors[static_cast<std::size_t>(group.rank())] = made ? "none" : made.error().message;
  });
  return errors;
}

TEST(Pipeline, RanksAgreeOnWhatIsWrong) {
  const auto good = [](int) { return schedule_of("1f1b", 2, 1, 4); };
  const auto five = [](int) { return std::size_t{5}; };
  using testing::Each;
  using testing::ElementsAre;
  EXPECT_THAT(creation_errors(good, five, 1), Each("none"));
  EXPECT_THAT(creation_errors(good, five, 2), Each(HasSubstr("2 chunks for a pipeline schedule of 1 chunks per rank")));
  EXPECT_THAT(creation_errors([](int) { return schedule_of("1f1b", 3, 1, 4); }, five, 1),
              Each(HasSubstr("schedule of 3 ranks in group pp of 2")));
  EXPECT_THAT(creation_errors([](int rank) { return schedule_of("1f1b", 2, 1, 4 + rank); }, five, 1),
              Each(HasSubstr("ranks 0 and 1 of group pp have different pipeline schedules")));
  EXPECT_THAT(creation_errors(
                  good, [](int rank) { return static_cast<std::size_t>(5 + rank); }, 1),
              Each(HasSubstr("boundaries of 5 and of 6 floats")));
  const auto broken = [](int rank) {
    PipelineSchedule schedule = schedule_of("1f1b", 2, 1, 4);
    if (rank == 1) schedule.actions[1].pop_back();
    return schedule;
  };
  EXPECT_THAT(creation_errors(broken, five, 1),
              ElementsAre(HasSubstr("rank 1 of group pp has no valid pipeline"), HasSubstr("rank 1 never runs")));
}

}  // namespace
}  // namespace wreath::training::running
