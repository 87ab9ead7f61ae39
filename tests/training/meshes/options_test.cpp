// Options that do not fit are refused by their names and values.
#include "examples/train_gpt/train/options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

namespace wreath::gpt {
namespace {

std::string refusal(const std::function<void(TrainOptions&)>& set) {
  TrainOptions options;
  set(options);
  const Status fits = check(options);
  if (fits) return "accepted";
  EXPECT_EQ(fits.error().code, ErrorCode::InvalidArgument);
  return fits.error().message;
}

TEST(TrainOptions, OfTheRecipeFit) { EXPECT_TRUE(check(TrainOptions{})); }

TEST(TrainOptions, ThatDoNotFitAreNamed) {
  using testing::HasSubstr;
  EXPECT_THAT(refusal([](TrainOptions& o) { o.mesh.dp = 0; }), HasSubstr("--dp 0"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.mesh.tp = -1; }), HasSubstr("--tp -1"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.mesh = {.dp = 100'000, .pp = 100'000}; }),
              HasSubstr("more than 65536 ranks"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.mesh.tp = 5; }), HasSubstr("there are only 4 heads"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.mesh.pp = 5; }), HasSubstr("there are only 4 layers"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.mesh.dp = 5; }), HasSubstr("--batch 12: must be a multiple of --dp 5"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.micro_batches = 0; }), HasSubstr("--micro-batches 0"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.zero_stage = 4; }), HasSubstr("--zero 4"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.hybrid_shards = 2; }), HasSubstr("--hybrid-shards 2"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.sequence_parallel = true; }), HasSubstr("--sequence-parallel"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.context_attention = "sun"; }), HasSubstr("--context-attention sun"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.model.width = 130; }), HasSubstr("--width 130"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.model.dropout = 1; }), HasSubstr("--dropout"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.threads = 0; }), HasSubstr("--threads 0"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.schedule = "sun"; }), HasSubstr("'sun'"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.chunks = 2; }), HasSubstr("1f1b has 1 chunk"));
}

TEST(TrainOptions, ContextParallelRanksNeedATokenEach) {
  const auto ring = [](int context, int cp) {
    return [=](TrainOptions& o) {
      o.model.context = context;
      o.mesh.cp = cp;
    };
  };
  EXPECT_EQ(refusal(ring(64, 64)), "accepted");
  EXPECT_THAT(refusal(ring(64, 100)), testing::HasSubstr("--cp 100: a sequence of --context 64 tokens"));
}

TEST(TrainOptions, UlyssesNeedsAHeadForEachRank) {
  const auto ulysses = [](int heads, int tp, int cp) {
    return [=](TrainOptions& o) {
      o.context_attention = "ulysses";
      o.model.heads = heads;
      o.model.width = heads * 8;
      o.mesh.tp = tp;
      o.mesh.cp = cp;
    };
  };
  EXPECT_EQ(refusal(ulysses(4, 2, 2)), "accepted");
  EXPECT_THAT(refusal(ulysses(2, 1, 4)), testing::HasSubstr("2 heads of a tensor rank cannot be dealt out to --cp 4"));
  EXPECT_THAT(refusal(ulysses(3, 2, 2)), testing::HasSubstr("1 heads of a tensor rank"));
}

TEST(TrainOptions, NumbersOutOfRangeAreNamed) {
  using testing::HasSubstr;
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(refusal([](TrainOptions& o) { o.steps = 0; }), "accepted");
  EXPECT_THAT(refusal([](TrainOptions& o) { o.steps = -1; }), HasSubstr("--steps -1: must be at least 0"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.warmup_steps = -3; }), HasSubstr("--warmup-steps -3"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.decay_steps = -1; }), HasSubstr("--decay-steps -1"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.learning_rate = kNone; }), HasSubstr("--learning-rate nan"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.learning_rate = -1; }), HasSubstr("--learning-rate -1"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.lowest_learning_rate = kNone; }), HasSubstr("--lowest-learning-rate"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.clip = -1; }), HasSubstr("--clip -1"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.weight_decay = -2; }), HasSubstr("--weight-decay -2"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.batch = kHuge; }),
              HasSubstr("--batch 9223372036854775807: must be at most"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.model.layers = 2'000'000'000; }), HasSubstr("--layers 2000000000"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.model.width = kHuge; }), HasSubstr("--width"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.model.context = kHuge; }), HasSubstr("--context"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.precision = "bf16"; }), HasSubstr("--precision bf16"));
  for (const float scale : {0.0f, -2.0f, 3.0f, 0x1p127f, std::numeric_limits<float>::infinity()}) {
    EXPECT_THAT(refusal([&](TrainOptions& o) { o.loss_scale = scale; }), HasSubstr("--loss-scale"));
  }
}

TEST(TrainOptions, LearningRateRisesThenFalls) {
  const TrainOptions options;
  EXPECT_FLOAT_EQ(learning_rate_at(options, 0), 1e-3f / 101);
  EXPECT_FLOAT_EQ(learning_rate_at(options, 100), 1e-3f);
  EXPECT_FLOAT_EQ(learning_rate_at(options, 1050), 5.5e-4f);
  EXPECT_FLOAT_EQ(learning_rate_at(options, 2000), 1e-4f);
  EXPECT_FLOAT_EQ(learning_rate_at(options, 9999), 1e-4f);
}

}  // namespace
}  // namespace wreath::gpt
