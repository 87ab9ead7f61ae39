// This file declares the options of a training run.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "examples/train_gpt/model/config.hpp"
#include "training/compute/compute.hpp"
#include "training/mesh/mesh.hpp"
#include "wreath/device.hpp"
#include "wreath/result.hpp"

namespace wreath::gpt {

enum class OptimizerKind : std::uint8_t { AdamW, Sgd };

// The options, by default nanoGPT's CPU recipe for shakespeare_char.
struct TrainOptions {
  GptConfig model;
  training::MeshShape mesh;
  int zero_stage = 0;
  // With zero_stage 3 so many ranks divide the weights; 0 means all replicas.
  int hybrid_shards = 0;
  bool sequence_parallel = false;
  std::string context_attention = "ring";  // or "ulysses"
  std::string schedule = "1f1b";
  // The model's stages on each pipeline rank, for interleaved schedules.
  int chunks = 1;
  int micro_batches = 1;  // of a step on one rank
  // The sequences of a step, over all ranks.
  std::int64_t batch = 12;
  std::int64_t steps = 2000;
  OptimizerKind optimizer = OptimizerKind::AdamW;
  float learning_rate = 1e-3f;
  float lowest_learning_rate = 1e-4f;
  std::int64_t warmup_steps = 100;
  // The learning rate falls as a cosine from the warm-up's end to the lowest at this step.
  std::int64_t decay_steps = 2000;
  float clip = 1.0f;  // of the gradient's norm; 0: none
  float weight_decay = 0.1f;
  std::uint64_t seed = 1337;
  bool overlap = true;
  bool recompute = false;
  std::string precision = "float32";  // training/precision/precision.hpp
  float loss_scale = 65536;           // float16: at first
  std::size_t bucket_bytes = 0;       // 0: DistributedDataParallel's
  // The folder of mapped files for optimizer state and, with zero_stage 3, the weights.
  std::string offload_folder;
  // The rank with these options computes on this device; null: the CPU.
  Device* device = nullptr;
  // The rank computes so; the grid is for the host device.
  training::ComputeOptions compute;
  // The threads of a rank for the layers' mathematics.
  int threads = 1;
  // The time that is added to each pass of a pipeline's stage (SleepingStage).
  int stage_sleep_ms = 0;
  // It is called before the last call of each step, and may throw. Tests make a step fail there.
  std::function<void(std::int64_t step, training::Group& world)> before_last_call;

  std::int64_t sequences() const noexcept { return batch / (static_cast<std::int64_t>(mesh.dp) * micro_batches); }
};

// Checks that the sizes fit together. The error is InvalidArgument, which names the option and its value.
Status check(const TrainOptions& options);

// Returns the learning rate at the step numbered from 0.
float learning_rate_at(const TrainOptions& options, std::int64_t step) noexcept;

}  // namespace wreath::gpt
