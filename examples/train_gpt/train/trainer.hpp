// Trainer is a training run of one rank: model, strategy and optimizer of a mesh, stepped together with the other
// ranks.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
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
  std::int64_t step = 0;  // from 0
  // The mean over all tokens of the global batch, before the step.
  double loss = 0;
  double gradient_norm = 0;  // infinite where the step was skipped
  double loss_scale = 1;     // float16: that of this step
  // The gradients overflowed, so weights and moments stay unchanged.
  bool skipped = false;
  // A rank's `wants_end` was true before the step's end.
  bool last_wanted = false;
  float learning_rate = 0;
  double seconds = 0;
  // The time of this rank in calls and in waiting for them.
  double communication_seconds = 0;
};

// The seconds of this rank in the parts of its steps so far.
struct PhaseSeconds {
  double passes = 0;     // forward and backward of all micro-batches
  double gradients = 0;  // until they are whole
  double norm = 0;
  double optimizer = 0;
  // The time until the weights are on the ranks that need them.
  double weights = 0;
  std::array<double, 5> all() const noexcept { return {passes, gradients, norm, optimizer, weights}; }
};

// Trains on one rank. All ranks of the world make the same calls in the same order. Failures of communication are
// thrown (Exception).
class Trainer {
 public:
  // Makes a trainer; `text` outlives it. The error is InvalidArgument for options that do not fit the world or each
  // other.
  static Result<std::unique_ptr<Trainer>> create(std::shared_ptr<Communicator> world, const TrainOptions& options,
                                                 const Text& text);
  ~Trainer();

  // Makes one step. `wants_end` is asked before the step's last call; all ranks get the answer of any rank in
  // last_wanted.
  StepResult step(const std::function<bool()>& wants_end = {});
  // An observer sees the gradients of each step, times the loss scale, when they are whole, before they are clipped and
  // used. Several observers are called in the order in which they were added.
  using GradientObserver = std::function<void(std::span<const training::Piece>)>;
  void observe_gradients(GradientObserver observer) { observers_.push_back(std::move(observer)); }
  // Continues after so many steps, when weights and moments were loaded into the pieces (checkpoint.hpp).
  void resume_at(std::int64_t steps, std::int64_t optimizer_steps);
  // The other state that a checkpoint keeps (TrainingState::text), and the function that restores it. The error is
  // InvalidArgument for a text of another kind of run.
  std::map<std::string, std::string> state_text() const;
  Status restore_text(const std::map<std::string, std::string>& text);
  // Ends, after a failure, the calls in flight, here and on the other ranks. The weights and moments stay after
  // steps_done() steps where they are whole on each rank. Nothing that communicates may be called after it.
  void abort() noexcept;
  // Returns whether the last step failed in its last call. Other ranks may have done that step, and this rank has all
  // that it needs to do it by itself. It is never so where ranks share the optimizer's work.
  bool can_complete_step() const noexcept { return measured_.has_value() && !strategy_->divided(); }
  // Does the rest of that step, without a call. Needs can_complete_step().
  void complete_step();
  // Returns the mean over the windows of the validation text (data/text.hpp), at most `windows` of them; 0 takes all.
  double validation_loss(std::int64_t windows = 0);
  // Returns `prompt` and `count` letters after it, drawn by the model's probabilities at a temperature.
  std::string sample(const std::string& prompt, int count, float temperature);

  std::int64_t steps_done() const noexcept { return step_; }
  const TrainOptions& options() const noexcept { return options_; }
  const PhaseSeconds& phases() const noexcept { return phases_; }
  training::Mesh& mesh() noexcept { return *mesh_; }
  training::ParameterList& parameters() noexcept { return parameters_; }
  training::DataParallel& strategy() noexcept { return *strategy_; }
  training::Optimizer& optimizer() noexcept { return *optimizer_; }
  training::MemoryAccounting& memory() noexcept { return memory_; }
  // Returns the counts of steps alone, without validation and samples. On a device it waits for the calls in its
  // streams.
  training::CommunicationAccounting& communication() {
    mesh_->settle();
    return communication_;
  }
  // Returns the Compute on which this rank computes; null: the CPU.
  training::Compute* compute() noexcept { return compute_.get(); }
  // Returns the scaler of float16; otherwise null.
  const training::GradScaler* scaler() const noexcept { return scaler_.get(); }
  training::Pipeline& pipeline() noexcept { return *pipeline_; }

 private:
  Trainer(const TrainOptions& options, const Text& text);
  Status set_up(std::shared_ptr<Communicator> world);
  void make_stages();
  Status make_pipeline();
  void make_strategy();
  void load_batches();
  // Measures loss, norm and overflow of the gradients, over all ranks. The loss comes last, and a step does not use it.
  void measure(StepResult& result, const std::function<bool()>& wants_end);
  // Applies gradients to weights, and counts the step. Changes no weights where the gradients overflowed.
  void optimize(const StepResult& result);
  double clipped_norm_factor(double norm) const noexcept;
  std::vector<float> next_scores(std::span<const std::int32_t> tokens);
  // Sets the micro-batches of the next pass, with losses of zero.
  void set_batches(std::vector<MicroBatch> batches, bool training);
  // Returns the number of this rank's `micro_batch` among all of a step's.
  std::int64_t part(int micro_batch) const noexcept;
  // The sums over all ranks: the losses of the last stages' rows, and the number of ranks that want the end.
  struct Totals {
    double loss = 0;
    double want_end = 0;
  };
  Totals total(double loss_sum, bool wants_end = false);

  TrainOptions options_;
  const Text* text_;
  std::int64_t step_ = 0;
  // The step in its last call, where only the loss is missing.
  std::optional<StepResult> measured_;
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
