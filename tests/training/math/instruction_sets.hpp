// Runs a test by every instruction set that its code was compiled for and this machine has.
#pragma once

#include <gtest/gtest.h>
#include <hwy/highway.h>

#include "training/compute/matrix_product.hpp"

namespace wreath::training {

// While an object lives, dispatch chooses among its `targets` alone.
class OnlyTargets {
 public:
  explicit OnlyTargets(std::int64_t targets) { choose(targets); }
  ~OnlyTargets() { choose(0); }
  OnlyTargets(const OnlyTargets&) = delete;
  OnlyTargets& operator=(const OnlyTargets&) = delete;

 private:
  static void choose(std::int64_t targets) {
    hwy::SetSupportedTargetsForTest(targets);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

// Returns whether a product and a sum are fused, with one rounding instead of two.
inline bool fuses() {
  const float value = 1.0f + 0x1p-12f;
  // If the square is not rounded, 2^-24 of it is left.
  float result = -(1.0f + 0x1p-11f);
  matrix_product(matrix(&value, 1, 1), matrix(&value, 1, 1), &result, 1, Accumulate::Yes);
  return result != 0.0f;
}

// Calls test() once for each instruction set.
template <typename Test>
void with_every_instruction_set(Test test) {
  const std::int64_t here = hwy::SupportedTargets();
  for (const std::int64_t target : {HWY_AVX3, HWY_AVX2, HWY_NEON, HWY_STATIC_TARGET}) {
    if ((here & target) == 0) continue;
    const OnlyTargets only(target);
    SCOPED_TRACE(hwy::TargetName(target));
    test();
  }
}

}  // namespace wreath::training
