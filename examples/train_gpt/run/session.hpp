// A run of train_gpt on one rank: data, steps, validation, checkpoints, the sample at the end.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "examples/train_gpt/run/command_line.hpp"
#include "examples/train_gpt/run/log.hpp"
#include "examples/train_gpt/run/report.hpp"
#include "examples/train_gpt/run/termination.hpp"
#include "examples/train_gpt/train/trainer.hpp"
#include "training/checkpoint/checkpoint.hpp"
#include "wreath/communicator.hpp"

namespace wreath::gpt {

// Tells how far a part of a run came.
enum class Progress : std::uint8_t {
  Done,
  Left,       // the caller wanted to leave
  Terminated  // SIGTERM came to a rank, and a checkpoint of the present step is in its folder
};

// Tells how a run ended on this rank.
struct Ending {
  Status status{};    // why it failed
  int code = 0;       // what the program ends with
  bool tells = true;  // this rank is to tell the error: of what all ranks have found together, the first alone
};
// Makes the ending of a rank that fails.
Ending failed(const Error& error, bool first, bool together);

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

  // Goes on from the folder's latest checkpoint; false: there is none. InvalidArgument, on all ranks: it is of another
  // model, vocabulary or optimizer (recipe.hpp); what else has changed is said on standard error.
  Result<bool> load_latest();
  // Goes on from `values` (training/elastic/state.hpp), which belong to `state`.
  Status load(std::span<const float> values, const training::TrainingState& state);
  // Ready for steps: opens checkpoints, and on the first rank the log, whose lines of steps before this one stay if
  // `keep`. `last`: the step before this one, for the log where its line is missing.
  Status begin(bool keep, const std::optional<LogLine>& last = {});

  // Steps up to the last; `leave_before` is asked before each. Errors, on all ranks: a step whose loss or gradients are
  // no finite numbers, a save that has failed meanwhile.
  Result<Progress> steps(const std::function<bool()>& leave_before = {});
  // What the folder of checkpoints lacks of the present state.
  Status save();
  Status save_and_wait();
  // The end: a checkpoint, validation, report and sample. Terminated: SIGTERM came to this rank before the checkpoint
  // was there.
  Result<Progress> finish();
  // Says whether the logs are whole.
  Status close_log();

  // Returns the part of the present state that is no tensor, without the recipe.
  training::TrainingState state() const;
  bool ready() const noexcept { return ready_; }
  // The last error is one that all ranks of the world have found together: it would come again.
  bool failed_together() const noexcept { return failed_together_; }
  // Notes that all ranks of the world have come to this status together.
  Status together(const Status& status);
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
  Status check_recipe(const std::string& checkpoint) const;
  Status check_step(const StepResult& result);
  Status check_save();
  Status one_step();
  Status save_on_termination();

  CommandLine line_;
  std::unique_ptr<Text> text_;
  std::shared_ptr<Communicator> world_;
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<training::Checkpointer> checkpointer_;
  std::unique_ptr<Log> log_;
  History history_;
  std::optional<LogLine> last_;
  std::optional<TerminationWatch> watch_;  // while the state is in no checkpoint and there is a folder for one
  int lost_steps_ = 0;                     // skipped ones in a row whose loss was no number, either
  bool saving_ = false;                    // on all ranks, or on none
  bool failed_together_ = false;
  bool ready_ = false;
  bool greeted_ = false;
};

// A whole run. Every rank of the world calls it. Failures of communication are thrown.
Ending train(const std::shared_ptr<Communicator>& world, const CommandLine& line);

}  // namespace wreath::gpt
