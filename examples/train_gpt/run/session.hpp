// A run of train_gpt on one rank: data, steps, validation, checkpoints, the sample at the end.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "examples/train_gpt/run/command_line.hpp"
#include "examples/train_gpt/run/log.hpp"
#include "examples/train_gpt/run/report.hpp"
#include "examples/train_gpt/train/trainer.hpp"
#include "training/checkpoint/checkpoint.hpp"
#include "wreath/communicator.hpp"

namespace wreath::gpt {

// The parts of a run, for one world at a time. All ranks of the world make the same calls in the same order. Failures
// of communication are returned or thrown (Exception).
class Session {
 public:
  // Reads the text.
  static Result<std::unique_ptr<Session>> create(const CommandLine& line);

  // A trainer for the world, with the weights the recipe starts from. The world before has been left. System, on all
  // ranks: a host has less memory available than its ranks are known to need.
  Status enter(std::shared_ptr<Communicator> world, const training::MeshShape& mesh);
  // Drops all that belongs to the world. A save in flight is waited for; that it failed is a warning.
  void leave();
  // After a failure, before leave(): ends what is in flight, here and on the other ranks.
  void abort();

  // Goes on from the folder's latest checkpoint; false: there is none.
  Result<bool> load_latest();
  // Goes on from `values` (training/elastic/state.hpp), which belong to `state`.
  Status load(std::span<const float> values, const training::TrainingState& state);
  // Ready for steps: opens checkpoints, and on the first rank the log, whose lines of steps before this one stay if
  // `keep`. `last`: the step before this one, for the log where its line is missing.
  Status begin(bool keep, const std::optional<LogLine>& last = {});

  // Steps up to the last; `leave_before` is asked before each. true: it said so. Errors, on all ranks: a step whose
  // loss or gradients are no finite numbers, a save that has failed meanwhile.
  Result<bool> steps(const std::function<bool()>& leave_before = {});
  // What the folder of checkpoints lacks of the present state.
  Status save();
  Status save_and_wait();
  // The end: a checkpoint, validation, report and sample.
  Status finish();

  // What of the present state is no tensor.
  training::TrainingState state() const;
  bool ready() const noexcept { return ready_; }
  // The last error is one that all ranks of the world have found together: it would come again.
  bool failed_together() const noexcept { return failed_together_; }
  Trainer& trainer() noexcept { return *trainer_; }
  training::Shard shard() { return {trainer_->strategy().pieces(), trainer_->optimizer().moments()}; }
  // The last step that this rank has done.
  const std::optional<LogLine>& last() const noexcept { return last_; }

 private:
  explicit Session(const CommandLine& line) : line_(line) {}
  bool first() const noexcept { return world_->rank() == 0; }
  void greet() const;
  std::int64_t parameter_count() const noexcept;
  Result<std::optional<std::string>> latest();
  Status open_checkpointer();
  Status open_log(bool keep);
  void forget_steps_from(std::int64_t step);
  Status check_memory(const training::MeshShape& mesh);
  Status check_step(const StepResult& result);
  Status check_save();
  Status together(const Status& status);

  CommandLine line_;
  std::unique_ptr<Text> text_;
  std::shared_ptr<Communicator> world_;
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<training::Checkpointer> checkpointer_;
  std::unique_ptr<Log> log_;
  History history_;
  std::optional<LogLine> last_;
  int lost_steps_ = 0;   // skipped ones in a row whose loss was no number, either
  bool saving_ = false;  // on all ranks, or on none
  bool failed_together_ = false;
  bool ready_ = false;
  bool greeted_ = false;
};

// A whole run. Every rank of the world calls it. Failures of communication are thrown.
Status train(const std::shared_ptr<Communicator>& world, const CommandLine& line);

}  // namespace wreath::gpt
