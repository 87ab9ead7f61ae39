// A part of a GPT between two pipeline boundaries: some blocks, the embedding before the first, the head after the
// last.
#pragma once

#include <memory>
#include <vector>

#include "examples/train_gpt/model/block.hpp"
#include "examples/train_gpt/model/embedding.hpp"
#include "examples/train_gpt/model/head.hpp"
#include "training/parameters/strategy.hpp"
#include "training/pipeline/stage.hpp"

namespace wreath::gpt {

// What the stages of a rank share within a step.
struct StepState {
  std::vector<MicroBatch> batches;               // by micro-batch
  float gradient_scale = 1;                      // of the sum of losses
  bool training = true;                          // else forward alone: nothing is kept
  std::vector<training::Buffer<double>> losses;  // by micro-batch: of the last stage's rows
  std::span<float> scores;  // not empty: the head writes its scores here instead, [rows][vocabulary here]
};

// Of stage `index` of `stages`: near-equal numbers of blocks, the first ones longer.
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
  // Adds its parameters, in units of their own after those that are there. `embedding_table`: of the stage on this
  // rank that has the embedding, for the tied head; else null. `state` and `context` outlive it.
  GptStage(training::ParameterList& parameters, const StagePlace& place, training::Parameter* embedding_table,
           const ModelContext& context, StepState& state);
  // Before the first step; outlives it.
  void attach(training::DataParallel& strategy) noexcept { strategy_ = &strategy; }

  std::size_t boundary_count() const override { return context_->held_count(); }
  void forward(int micro_batch, std::span<const float> input, std::span<float> output) override;
  void backward(int micro_batch, std::span<const float> output_gradient, std::span<float> input_gradient) override;
  void backward_weights(int micro_batch) override;
  void backward_whole(int micro_batch, std::span<const float> output_gradient,
                      std::span<float> input_gradient) override;

  // Null where this stage has none.
  Embedding* embedding() noexcept { return embedding_.get(); }
  Head* head() noexcept { return head_.get(); }

 private:
  training::DataParallel& strategy() const;
  const MicroBatch& batch(int micro_batch) const { return state_->batches[static_cast<std::size_t>(micro_batch)]; }
  // The activations that enter the head.
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
