// What a training run is told.
#pragma once

#include <cstdint>
#include <string>

#include "examples/train_gpt/model/config.hpp"
#include "training/compute/compute.hpp"
#include "training/mesh/mesh.hpp"
#include "wreath/device.hpp"
#include "wreath/result.hpp"

namespace wreath::gpt {

enum class OptimizerKind : std::uint8_t { AdamW, Sgd };

// nanoGPT's CPU recipe for shakespeare_char by default.
struct TrainOptions {
  GptConfig model;
  training::MeshShape mesh;
  int zero_stage = 0;
  int hybrid_shards = 0;  // zero_stage 3: ranks that divide the weights; 0: all replicas
  bool sequence_parallel = false;
  std::string context_attention = "ring";  // or "ulysses"
  std::string schedule = "1f1b";
  int chunks = 1;           // model stages a pipeline rank, for interleaved schedules
  int micro_batches = 1;    // of a step on one rank
  std::int64_t batch = 12;  // sequences of a step, over all ranks
  std::int64_t steps = 2000;
  OptimizerKind optimizer = OptimizerKind::AdamW;
  float learning_rate = 1e-3f;
  float lowest_learning_rate = 1e-4f;
  std::int64_t warmup_steps = 100;
  std::int64_t decay_steps = 2000;  // cosine from the warm-up's end to the lowest at this step
  float clip = 1.0f;                // of the gradient's norm; 0: none
  float weight_decay = 0.1f;
  std::uint64_t seed = 1337;
  bool overlap = true;
  bool recompute = false;
  std::string precision = "float32";  // training/precision/precision.hpp
  float loss_scale = 65536;           // float16: at first
  std::size_t bucket_bytes = 0;       // 0: DistributedDataParallel's
  std::string offload_folder;         // optimizer state, and with zero_stage 3 the weights, in mapped files there
  Device* device = nullptr;           // its rank computes there; null: on the CPU
  training::ComputeOptions compute;   // ... and how, on the host device
  int threads = 1;                    // of a rank, for the layers' mathematics
  int stage_sleep_ms = 0;             // added to each pass of a pipeline's stage (SleepingStage)

  std::int64_t sequences() const noexcept { return batch / (static_cast<std::int64_t>(mesh.dp) * micro_batches); }
};

// InvalidArgument names the option and its value: sizes that do not fit together.
Status check(const TrainOptions& options);

// At the step numbered from 0.
float learning_rate_at(const TrainOptions& options, std::int64_t step) noexcept;

}  // namespace wreath::gpt
