// This file has closed forms of memory.
#include "examples/train_gpt/train/memory_need.hpp"

#include <algorithm>

#include "training/pipeline/schedule.hpp"
#include "training/pipeline/verify.hpp"

namespace wreath::gpt {

namespace {

constexpr double kFloatSize = 4;

// Returns the size of the smallest part, where parts differ in size.
std::int64_t least_part(std::int64_t whole, std::int64_t parts) { return whole / parts; }

std::int64_t layers_of_chunk(const TrainOptions& options) {
  return least_part(options.model.layers, static_cast<std::int64_t>(options.mesh.pp) * options.chunks);
}

// Returns this rank's part of the width, as features of heads.
std::int64_t features_here(const TrainOptions& options) {
  return least_part(options.model.heads, options.mesh.tp) * options.model.head_size();
}

std::int64_t hidden_here(const TrainOptions& options) { return least_part(4 * options.model.width, options.mesh.tp); }

double parameters_here(const TrainOptions& options, const training::MeshPlace& place) {
  const GptConfig& model = options.model;
  const std::int64_t block = model.width * (4 * features_here(options) + 2 * hidden_here(options));
  double parameters = static_cast<double>(options.chunks * layers_of_chunk(options)) * static_cast<double>(block);
  if (place.pp == 0) {
    const std::int64_t rows = least_part(model.vocabulary, options.mesh.tp) + model.context;
    parameters += static_cast<double>(rows * model.width);
  }
  return parameters;
}

// Returns the bytes of the model's state. Data in files does not count.
double model_state(const TrainOptions& options, double parameters) {
  const int replicas = options.mesh.dp * options.mesh.cp;
  const int shards = options.hybrid_shards > 0 ? options.hybrid_shards : replicas;
  const bool half = options.precision != "float32";
  const bool in_files = !options.offload_folder.empty();
  double weights = half ? 2 : kFloatSize;
  double gradients = kFloatSize;
  double optimizer = options.optimizer == OptimizerKind::AdamW && !in_files ? 2 * kFloatSize : 0;
  const bool masters_in_files = in_files && options.zero_stage == 3;
  if (half && !masters_in_files) optimizer += kFloatSize;
  if (!half && masters_in_files) weights = 0;
  if (options.zero_stage >= 1) optimizer /= replicas;
  if (options.zero_stage >= 2) gradients /= replicas;
  if (options.zero_stage >= 3) weights /= shards;
  return parameters * (weights + gradients + optimizer);
}

// Returns the highest number of micro-batches, by chunks, that a rank has between their forward pass and the end of
// their backward pass.
int in_flight(const TrainOptions& options, const training::MeshPlace& place) {
  auto schedule = training::make_schedule(options.schedule, {options.mesh.pp, options.chunks, options.micro_batches});
  return training::verify(schedule.value()).value().in_flight[static_cast<std::size_t>(place.pp)];
}

// Returns the elements of activations. A block keeps, for the rows it holds, its input, both norms' results and the
// attention's. For its heads and hidden values it keeps Q, K, V, the attended, the hidden and the activated values.
// Backward adds the gradients of one block, or comes after the head, which has scores.
double activations(const TrainOptions& options, const training::MeshPlace& place) {
  const GptConfig& model = options.model;
  const std::int64_t places = 2 * least_part(model.context, 2 * static_cast<std::int64_t>(options.mesh.cp));
  const std::int64_t rows = options.sequences() * places;
  const std::int64_t held = options.sequence_parallel ? least_part(rows, options.mesh.tp) : rows;
  const std::int64_t of_held = held * model.width;
  const std::int64_t whole = 4 * of_held + rows * (4 * features_here(options) + 2 * hidden_here(options));
  const std::int64_t kept = options.recompute ? of_held : whole;
  const std::int64_t gradients = 4 * of_held + rows * (4 * features_here(options) + hidden_here(options));
  std::int64_t working = gradients + whole - kept;
  if (place.pp == options.mesh.pp - 1) {
    working = std::max(working, 2 * of_held + rows * least_part(model.vocabulary, options.mesh.tp));
  }
  return static_cast<double>(in_flight(options, place) * layers_of_chunk(options)) * static_cast<double>(kept) +
         static_cast<double>(working);
}

}  // namespace

MemoryNeed memory_need(const TrainOptions& options, const training::MeshPlace& place) {
  MemoryNeed need;
  need.model_state = static_cast<std::uint64_t>(model_state(options, parameters_here(options, place)));
  need.activations = static_cast<std::uint64_t>(kFloatSize * activations(options, place));
  return need;
}

}  // namespace wreath::gpt
