// Holds what differs between the versions of torch that this compiles against, 2.6 and newer. Nothing else asks which
// version it is.
#pragma once

#include <torch/version.h>

#define WREATH_TORCH_AT_LEAST(minor) (TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= (minor))

static_assert(WREATH_TORCH_AT_LEAST(6), "torch 2.6 or newer is needed");

// Functions that c10d::Backend has since 2.8 are marked by this. Before, they are functions of Wreath that nothing
// calls.
#if WREATH_TORCH_AT_LEAST(8)
#define WREATH_TORCH_OVERRIDE_2_8 override
#else
#define WREATH_TORCH_OVERRIDE_2_8
#endif
