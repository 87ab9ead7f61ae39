// This file checks that options fit together, and computes the learning rate.
#include "examples/train_gpt/train/options.hpp"

#include <cmath>
#include <limits>
#include <numbers>

#include "training/pipeline/schedule.hpp"
#include "training/precision/precision.hpp"

namespace wreath::gpt {

namespace {

Error refuse(const std::string& what) { return {ErrorCode::InvalidArgument, what}; }

// These limits are beyond any model of today, and small enough that no product of sizes overflows.
constexpr std::int64_t kMostLayers = 10'000;
constexpr std::int64_t kMostWidth = 100'000;
constexpr std::int64_t kMostContext = 1'000'000;
constexpr std::int64_t kMostBatch = 1'000'000;

Status check_range(const char* name, std::int64_t value, std::int64_t lowest,
                   std::int64_t highest = std::numeric_limits<std::int64_t>::max()) {
  if (value >= lowest && value <= highest) return {};
  return refuse(std::string(name) + " " + std::to_string(value) +
                (value < lowest ? ": must be at least " + std::to_string(lowest)
                                : ": must be at most " + std::to_string(highest)));
}

Status check_positive(const char* name, std::int64_t value) { return check_range(name, value, 1); }

// Checks that the value is finite and not negative.
Status check_number(const char* name, float value) {
  if (value >= 0 && std::isfinite(value)) return {};
  return refuse(std::string(name) + " " + std::to_string(value) + ": must be a number of at least 0");
}

Status check_recipe(const TrainOptions& options) {
  WREATH_TRY(check_range("--steps", options.steps, 0));
  WREATH_TRY(check_range("--warmup-steps", options.warmup_steps, 0));
  WREATH_TRY(check_range("--decay-steps", options.decay_steps, 0));
  WREATH_TRY(check_number("--learning-rate", options.learning_rate));
  WREATH_TRY(check_number("--lowest-learning-rate", options.lowest_learning_rate));
  WREATH_TRY(check_number("--clip", options.clip));
  return check_number("--weight-decay", options.weight_decay);
}

Status check_model(const GptConfig& model) {
  WREATH_TRY(check_range("--layers", model.layers, 1, kMostLayers));
  WREATH_TRY(check_range("--heads", model.heads, 1));
  WREATH_TRY(check_range("--width", model.width, 1, kMostWidth));
  WREATH_TRY(check_range("--context", model.context, 1, kMostContext));
  if (model.width % model.heads != 0) {
    return refuse("--width " + std::to_string(model.width) + ": must be a multiple of --heads " +
                  std::to_string(model.heads));
  }
  if (!(model.dropout >= 0 && model.dropout < 1)) {
    return refuse("--dropout " + std::to_string(model.dropout) + ": must be at least 0 and below 1");
  }
  return {};
}

Status check_mesh(const training::MeshShape& mesh) {
  WREATH_TRY(check_positive("--dp", mesh.dp));
  WREATH_TRY(check_positive("--pp", mesh.pp));
  WREATH_TRY(check_positive("--cp", mesh.cp));
  WREATH_TRY(check_positive("--tp", mesh.tp));
  constexpr std::int64_t kMostRanks = 65'536;
  std::int64_t ranks = 1;
  for (const int size : {mesh.dp, mesh.pp, mesh.cp, mesh.tp}) {
    ranks *= size;
    if (ranks > kMostRanks)
      return refuse("--dp x --pp x --cp x --tp: more than " + std::to_string(kMostRanks) + " ranks");
  }
  return {};
}

Status check_precision(const TrainOptions& options) {
  if (!training::parse_precision(options.precision)) {
    return refuse("--precision " + options.precision + ": must be float32, bfloat16, float16 or fp8");
  }
  int exponent = 0;
  const bool in_range = options.loss_scale >= 0x1p-126f && options.loss_scale <= 0x1p126f;
  if (in_range && std::frexp(options.loss_scale, &exponent) == 0.5f) return {};
  return refuse("--loss-scale " + std::to_string(options.loss_scale) + ": must be a power of two");
}

Status check_replicas(const TrainOptions& options) {
  if (options.zero_stage < 0 || options.zero_stage > 3) {
    return refuse("--zero " + std::to_string(options.zero_stage) + ": must be 0, 1, 2 or 3");
  }
  if (options.hybrid_shards == 0) return {};
  const int replicas = options.mesh.dp * options.mesh.cp;
  if (options.zero_stage == 3 && options.hybrid_shards > 0 && replicas % options.hybrid_shards == 0) return {};
  return refuse("--hybrid-shards " + std::to_string(options.hybrid_shards) +
                ": needs --zero 3, and must divide --dp times --cp, " + std::to_string(replicas));
}

Status check_attention(const TrainOptions& options) {
  if (options.mesh.cp > options.model.context) {
    return refuse("--cp " + std::to_string(options.mesh.cp) + ": a sequence of --context " +
                  std::to_string(options.model.context) + " tokens cannot be dealt out to so many ranks");
  }
  if (options.context_attention == "ring") return {};
  if (options.context_attention != "ulysses") {
    return refuse("--context-attention " + options.context_attention + ": must be ring or ulysses");
  }
  const std::int64_t heads = options.model.heads / options.mesh.tp;
  if (options.mesh.cp <= heads) return {};
  return refuse("--context-attention ulysses: " + std::to_string(heads) +
                " heads of a tensor rank cannot be dealt out to --cp " + std::to_string(options.mesh.cp) + " ranks");
}

Status check_device(const TrainOptions& options) {
  if (options.device == nullptr) return {};
  if (!options.offload_folder.empty()) return refuse("--offload: not with --device, where state lies in device memory");
  if (options.model.head_size() > training::kMostHeadSize) {
    return refuse("--device: heads of " + std::to_string(options.model.head_size()) + " values (--width / --heads), " +
                  std::to_string(training::kMostHeadSize) + " at most");
  }
  return {};
}

}  // namespace

Status check(const TrainOptions& options) {
  WREATH_TRY(check_mesh(options.mesh));
  WREATH_TRY(check_model(options.model));
  WREATH_TRY(check_recipe(options));
  WREATH_TRY(check_range("--batch", options.batch, 1, kMostBatch));
  WREATH_TRY(check_positive("--micro-batches", options.micro_batches));
  WREATH_TRY(check_positive("--chunks", options.chunks));
  WREATH_TRY(check_positive("--threads", options.threads));
  WREATH_TRY(check_range("--stage-sleep-ms", options.stage_sleep_ms, 0));
  const std::int64_t parts = static_cast<std::int64_t>(options.mesh.dp) * options.micro_batches;
  if (options.batch % parts != 0) {
    return refuse("--batch " + std::to_string(options.batch) + ": must be a multiple of --dp " +
                  std::to_string(options.mesh.dp) + " times --micro-batches " + std::to_string(options.micro_batches));
  }
  if (options.mesh.tp > options.model.heads) {
    return refuse("--tp " + std::to_string(options.mesh.tp) + ": there are only " +
                  std::to_string(options.model.heads) + " heads");
  }
  const std::int64_t stages = static_cast<std::int64_t>(options.mesh.pp) * options.chunks;
  if (stages > options.model.layers) {
    return refuse("--pp " + std::to_string(options.mesh.pp) + " times --chunks " + std::to_string(options.chunks) +
                  ": there are only " + std::to_string(options.model.layers) + " layers");
  }
  WREATH_TRY(check_replicas(options));
  if (options.sequence_parallel && options.mesh.tp == 1) return refuse("--sequence-parallel: needs --tp of 2 or more");
  WREATH_TRY(check_attention(options));
  const auto schedule =
      training::make_schedule(options.schedule, {options.mesh.pp, options.chunks, options.micro_batches});
  if (!schedule) return schedule.error();
  WREATH_TRY(check_precision(options));
  return check_device(options);
}

float learning_rate_at(const TrainOptions& options, std::int64_t step) noexcept {
  const auto at = static_cast<double>(step);
  const double highest = options.learning_rate;
  const double lowest = options.lowest_learning_rate;
  if (step < options.warmup_steps) {
    return static_cast<float>(highest * (at + 1) / static_cast<double>(options.warmup_steps + 1));
  }
  if (step >= options.decay_steps) return options.lowest_learning_rate;
  const double done = (at - static_cast<double>(options.warmup_steps)) /
                      static_cast<double>(options.decay_steps - options.warmup_steps);
  return static_cast<float>(lowest + 0.5 * (1 + std::cos(std::numbers::pi * done)) * (highest - lowest));
}

}  // namespace wreath::gpt
