// A training run of one rank: model, strategy and optimizer of a mesh, stepped together with the other ranks.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "examples/train_gpt/data/text.hpp"
#include "examples/train_gpt/model/gpt_stage.hpp"
#include "examples/train_gpt/train/options.hpp"
#include "examples/train_gpt/train/sleeping_stage.hpp"
#include "training/optimizer/optimizer.hpp"
#include "training/pipeline/pipeline.hpp"
#include "training/precision/grad_scaler.hpp"
#include "training/strategies.hpp"

namespace wreath::gpt {

struct StepResult {
  std::int64_t step = 0;     // from 0
  double loss = 0;           // mean over all tokens of the global batch, before the step
  double gradient_norm = 0;  // infinite where the step was skipped
  double loss_scale = 1;     // float16: that of this step
  bool skipped = false;      // its gradients overflowed: weights and moments stay as they were
  bool last_wanted = false;  // a rank's `wants_end` said so before the step's end
  float learning_rate = 0;
  double seconds = 0;
  double communication_seconds = 0;  // of this rank, in calls and waiting for them
};

// Seconds of this rank in the parts of its steps so far.
struct PhaseSeconds {
  double passes = 0;     // forward and backward of all micro-batches
  double gradients = 0;  // until they are whole
  double norm = 0;
  double optimizer = 0;
  double weights = 0;  // until they are where they are needed
  std::array<double, 5> all() const noexcept { return {passes, gradients, norm, optimizer, weights}; }
};

// All ranks of the world make the same calls in the same order. Failures of communication are thrown (Exception).
class Trainer {
 public:
  // `text` outlives it. InvalidArgument: options that do not fit the world or each other.
  static Result<std::unique_ptr<Trainer>> create(std::shared_ptr<Communicator> world, const TrainOptions& options,
                                                 const Text& text);
  ~Trainer();

  // `wants_end` is asked before the step's last call; what a rank says, all get in last_wanted.
  StepResult step(const std::function<bool()>& wants_end = {});
  // Called in each step once gradients are whole, times the loss scale, before they are clipped and used;
  // several in the order in which they came.
  using GradientObserver = std::function<void(std::span<const training::Piece>)>;
  void observe_gradients(GradientObserver observer) { observers_.push_back(std::move(observer)); }
  // Weights and moments were loaded into the pieces (checkpoint.hpp): goes on as after so many steps.
  void resume_at(std::int64_t steps, std::int64_t optimizer_steps);
  // What else a checkpoint keeps (TrainingState::text), and the way back. InvalidArgument: not of such a run.
  std::map<std::string, std::string> state_text() const;
  Status restore_text(const std::map<std::string, std::string>& text);
  // After a failure: ends what is in flight, here and on the other ranks. The weights and moments stay as they are,
  // after steps_done() steps where they are whole on each rank, and nothing else may be called that communicates.
  void abort() noexcept;
  // Mean over the windows of the validation text (data/text.hpp); at most `windows` of them, 0: all.
  double validation_loss(std::int64_t windows = 0);
  // `prompt` and `count` letters after it, drawn by the model's probabilities at a temperature.
  std::string sample(const std::string& prompt, int count, float temperature);

  std::int64_t steps_done() const noexcept { return step_; }
  const TrainOptions& options() const noexcept { return options_; }
  const PhaseSeconds& phases() const noexcept { return phases_; }
  training::Mesh& mesh() noexcept { return *mesh_; }
  training::ParameterList& parameters() noexcept { return parameters_; }
  training::DataParallel& strategy() noexcept { return *strategy_; }
  training::Optimizer& optimizer() noexcept { return *optimizer_; }
  training::MemoryAccounting& memory() noexcept { return memory_; }
  // Of steps alone: validation and samples do not count. Of a device: waits for the calls in its streams.
  training::CommunicationAccounting& communication() {
    mesh_->settle();
    return communication_;
  }
  // Where it computes; null: on the CPU.
  training::Compute* compute() noexcept { return compute_.get(); }
  // Of float16; else null.
  const training::GradScaler* scaler() const noexcept { return scaler_.get(); }
  training::Pipeline& pipeline() noexcept { return *pipeline_; }

 private:
  Trainer(const TrainOptions& options, const Text& text);
  Status set_up(std::shared_ptr<Communicator> world);
  void make_stages();
  Status make_pipeline();
  void make_strategy();
  void load_batches();
  // Loss, norm and overflow of the gradients, over all ranks.
  void measure(StepResult& result, const std::function<bool()>& wants_end);
  // Gradients to weights; skips where they overflowed.
  void optimize(const StepResult& result);
  double clipped_norm_factor(double norm) const noexcept;
  std::vector<float> next_scores(std::span<const std::int32_t> tokens);
  // The micro-batches that follow as one pass; losses are zero.
  void set_batches(std::vector<MicroBatch> batches, bool training);
  // The number of this rank's `micro_batch` among all of a step's.
  std::int64_t part(int micro_batch) const noexcept;
  // Over all ranks: what the last stages' rows add up to, and how many want the end.
  struct Totals {
    double loss = 0;
    double want_end = 0;
  };
  Totals total(double loss_sum, bool wants_end = false);

  TrainOptions options_;
  const Text* text_;
  std::int64_t step_ = 0;
  std::unique_ptr<training::Compute> compute_;  // null: the CPU
  training::MemoryAccounting memory_;
  training::CommunicationAccounting communication_;
  std::unique_ptr<training::Mesh> mesh_;
  training::HybridGroups hybrid_;
  std::unique_ptr<training::TensorRegion> region_;
  std::unique_ptr<training::ContextAttention> attention_;
  ModelContext context_;
  StepState state_;
  training::ParameterList parameters_;
  std::vector<std::unique_ptr<GptStage>> stages_;
  std::vector<std::unique_ptr<SleepingStage>> sleeping_;  // around stages_, or none
  std::unique_ptr<training::Pipeline> pipeline_;
  std::unique_ptr<training::DataParallel> strategy_;
  std::unique_ptr<training::Optimizer> optimizer_;
  std::unique_ptr<training::GradScaler> scaler_;
  std::vector<GradientObserver> observers_;
  PhaseSeconds phases_;
};

}  // namespace wreath::gpt
