// The kernels: the executor, a block per lane, the same by loops written by hand, all_reduces by the protocol LL, and
// layers of a transformer.
#include "kernels/block/kernels.hpp"
#include "kernels/block/layers.hpp"
#include "kernels/block/low_latency.hpp"
#include "kernels/block/run_straight.hpp"
#include "wreath/cuda_block.cuh"

WREATH_CUDA_KERNEL(wreath_run_lanes, wreath::kBlockThreads, wreath::LaneRun, sizeof(wreath::BlockShared),
                   wreath::run_lanes)
WREATH_CUDA_KERNEL(wreath_run_straight, wreath::kBlockThreads, wreath::LaneRun, sizeof(wreath::BlockShared),
                   wreath::run_straight)
WREATH_CUDA_KERNEL(wreath_run_low_latency, wreath::kBlockThreads, wreath::LowLatencyRun,
                   sizeof(wreath::LowLatencyShared), wreath::run_low_latency)

#define WREATH_LAYER_KERNEL(name, Run)                                                                   \
  WREATH_CUDA_KERNEL(wreath_##name, wreath::kMostLayerThreads, wreath::Run, sizeof(wreath::LayerShared), \
                     wreath::run_##name)
WREATH_LAYER_KERNEL(layer_norm, LayerNormRun)
WREATH_LAYER_KERNEL(layer_norm_backward, LayerNormRun)
WREATH_LAYER_KERNEL(layer_norm_backward_weights, LayerNormRun)
WREATH_LAYER_KERNEL(gelu, GeluRun)
WREATH_LAYER_KERNEL(cross_entropy, CrossEntropyRun)
WREATH_LAYER_KERNEL(adamw, AdamWRun)
