// The loss scale grows and backs off at the right steps, and its state can be kept.
#include "training/precision/grad_scaler.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace wreath::training {
namespace {

TEST(GradScaler, BeginsAsPyTorchDoes) {
  const GradScaler scaler;
  EXPECT_EQ(scaler.scale(), 65536);
  EXPECT_EQ(scaler.skipped(), 0);
}

TEST(GradScaler, DoublesAfterAnIntervalOfGoodStepsAndHalvesAtAnOverflow) {
  GradScaler scaler;
  for (int i = 0; i < 1999; ++i) scaler.update(false);
  EXPECT_EQ(scaler.scale(), 65536);
  scaler.update(false);
  EXPECT_EQ(scaler.scale(), 131072);
  for (int i = 0; i < 1999; ++i) scaler.update(false);
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), 65536);
  EXPECT_EQ(scaler.skipped(), 1);
  for (int i = 0; i < 1999; ++i) scaler.update(false);
  EXPECT_EQ(scaler.scale(), 65536) << "good steps are counted anew";
}

TEST(GradScaler, StaysWithinItsRange) {
  GradScaler scaler({.initial_scale = 0x1p126, .growth_interval = 1});
  scaler.update(false);
  EXPECT_EQ(scaler.scale(), 0x1p126);
  for (int i = 0; i < 300; ++i) scaler.update(true);
  EXPECT_EQ(scaler.scale(), 0x1p-126);
}

TEST(GradScaler, FindsInfinityAndNanInAnyPiece) {
  CommunicationAccounting accounting;
  Group alone("world", accounting);
  std::vector<float> fine(100, 1.0f);
  for (const float value : {-std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> other(100, 65504.0f);
    const std::vector<Piece> pieces = {{nullptr, 0, {}, fine}, {nullptr, 0, {}, other}};
    EXPECT_FALSE(GradScaler().found_infinity(pieces, alone));
    other.back() = value;
    EXPECT_TRUE(GradScaler().found_infinity(pieces, alone));
  }
}

TEST(GradScaler, GoesOnFromItsState) {
  GradScaler scaler({.growth_interval = 3});
  for (const bool found : {true, true, false, false}) scaler.update(found);
  GradScaler other({.growth_interval = 3});
  ASSERT_TRUE(other.restore(scaler.state()));
  EXPECT_EQ(other.skipped(), 2);
  other.update(false);
  EXPECT_EQ(other.scale(), 32768);
}

TEST(GradScaler, RefusesWhatIsNoState) {
  GradScaler scaler;
  const std::string before = scaler.state();
  for (const char* wrong : {"", "scale", "scale 3 good_steps 0 skipped 0", "scale inf good_steps 0 skipped 0",
                            "scale 65536 good_steps -1 skipped 0", "scale 65536 good_steps 0 skipped 0 more",
                            "scale 65536 good_steps 2000 skipped 0"}) {
    const Status restored = scaler.restore(wrong);
    ASSERT_FALSE(restored) << wrong;
    EXPECT_EQ(restored.error().code, ErrorCode::InvalidArgument);
    EXPECT_EQ(scaler.state(), before);
  }
}

TEST(GradScaler, RefusesOptionsThatMakeNoSense) {
  EXPECT_THROW(GradScaler({.initial_scale = 3}), Exception);
  EXPECT_THROW(GradScaler({.initial_scale = -2}), Exception);
  EXPECT_THROW(GradScaler({.growth = 0.5}), Exception);
  EXPECT_THROW(GradScaler({.backoff = 1}), Exception);
  EXPECT_THROW(GradScaler({.growth_interval = 0}), Exception);
}

}  // namespace
}  // namespace wreath::training
