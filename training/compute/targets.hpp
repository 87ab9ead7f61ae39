// This file selects the instruction sets that the vector code of this folder is compiled for. Include it before
// hwy/foreach_target.h.
#pragma once

// The instruction sets between the baseline, AVX2 and AVX-512 gain little. Vectors whose size the compiler does not
// know cannot be members.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
