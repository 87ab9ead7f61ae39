// Runs a test by every instruction set that its code was compiled for and this machine has.
#pragma once

#include <gtest/gtest.h>
#include <hwy/highway.h>

#include "training/compute/matrix_product.hpp"

namespace wreath::training {

// Until its end, dispatch chooses among `targets` alone.
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

// Whether products are not rounded before they are added.
inline bool fuses() {
  const float value = 1.0f + 0x1p-12f;
  float result = -(1.0f + 0x1p-11f);  // of the square, 2^-24 is left
  matrix_product(matrix(&value, 1, 1), matrix(&value, 1, 1), &result, 1, Accumulate::Yes);
  return result != 0.0f;
}

// Calls test() once for each.
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
