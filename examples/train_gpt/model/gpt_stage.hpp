// This file declares a part of a GPT between two pipeline boundaries. It has some blocks, the embedding before the
// first, and the head after the last.
#pragma once

#include <memory>
#include <vector>

#include "examples/train_gpt/model/block.hpp"
#include "examples/train_gpt/model/embedding.hpp"
#include "examples/train_gpt/model/head.hpp"
#include "training/parameters/strategy.hpp"
#include "training/pipeline/stage.hpp"

namespace wreath::gpt {

// The state that the stages of a rank share within a step.
struct StepState {
  std::vector<MicroBatch> batches;  // by micro-batch
  float gradient_scale = 1;         // of the sum of losses
  // Without it the pass is forward alone, and nothing is kept.
  bool training = true;
  // The losses of the last stage's rows, by micro-batch.
  std::vector<training::Buffer<double>> losses;
  // Where it is not empty, the head writes its scores here instead, [rows][vocabulary here].
  std::span<float> scores;
};

// The place of stage `index` of `stages`, which have near-equal numbers of blocks, the first ones more.
struct StagePlace {
  int index = 0;
  int stages = 1;
  bool alone = true;  // all stages are on one rank
  training::Range layers(std::int64_t of) const noexcept { return training::part_of(of, stages, index); }
  bool first() const noexcept { return index == 0; }
  bool last() const noexcept { return index == stages - 1; }
};

class GptStage final : public training::Stage {
 public:
  // Adds its parameters, in units of their own after those that are there. `embedding_table` is the table of the stage
  // on this rank that has the embedding, for the tied head. It is null where no stage here has it. `state` and
  // `context` outlive the stage.
  GptStage(training::ParameterList& parameters, const StagePlace& place, training::Parameter* embedding_table,
           const ModelContext& context, StepState& state);
  // Must be called before the first step; the strategy outlives the stage.
  void attach(training::DataParallel& strategy) noexcept { strategy_ = &strategy; }

  std::size_t boundary_count() const override { return context_->held_count(); }
  void forward(int micro_batch, std::span<const float> input, std::span<float> output) override;
  void backward(int micro_batch, std::span<const float> output_gradient, std::span<float> input_gradient) override;
  void backward_weights(int micro_batch) override;
  void backward_whole(int micro_batch, std::span<const float> output_gradient,
                      std::span<float> input_gradient) override;

  // Both return null where this stage has none.
  Embedding* embedding() noexcept { return embedding_.get(); }
  Head* head() noexcept { return head_.get(); }

 private:
  training::DataParallel& strategy() const;
  const MicroBatch& batch(int micro_batch) const { return state_->batches[static_cast<std::size_t>(micro_batch)]; }
  // Returns the activations that enter the head.
  training::Buffer<float> run_blocks(int micro_batch, const MicroBatch& batch, std::span<const float> input);
  void walk_back(int micro_batch, std::span<const float> output_gradient, std::span<float> input_gradient,
                 bool weights);
  template <typename Backward, typename Weights>
  void back_through(int unit, bool weights, const Backward& backward, const Weights& add_weights);
  template <typename Weights>
  void add_weights(int unit, const Weights& weights);

  const ModelContext* context_;
  StepState* state_;
  training::DataParallel* strategy_ = nullptr;
  std::unique_ptr<Embedding> embedding_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::unique_ptr<Head> head_;
};

}  // namespace wreath::gpt
