// Session is a run of train_gpt on one rank: data, steps, validation, checkpoints, and the sample at the end.
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
  // The caller wanted to leave.
  Left,
  // SIGTERM came to a rank, and a checkpoint of the present step is in its folder.
  Terminated
};

// Tells how a run ended on this rank.
struct Ending {
  Status status{};  // the reason of a failure
  int code = 0;     // the program's exit code
  // This rank must report the error. Only the first rank reports an error that all ranks found together.
  bool tells = true;
};
// Makes the ending of a rank that fails.
Ending failed(const Error& error, bool first, bool together);

// The parts of a run, for one world at a time. All ranks of the world make the same calls in the same order. Failures
// of communication are returned or thrown (Exception).
class Session {
 public:
  // Reads the text.
  static Result<std::unique_ptr<Session>> create(const CommandLine& line);

  // Makes a trainer for the world, with the weights that the recipe starts from. The former world must have been left.
  // The error is System, on all ranks, where a host has less memory available than its ranks are known to need.
  Status enter(std::shared_ptr<Communicator> world, const training::MeshShape& mesh);
  // Frees all that belongs to the world. It waits for a save in flight, whose failure is a warning.
  void leave();
  // Ends, after a failure and before leave(), the calls in flight, here and on the other ranks.
  void abort();

  // Continues from the folder's latest checkpoint. Returns false where there is none. The error is InvalidArgument, on
  // all ranks, for a checkpoint of another model, vocabulary or optimizer (recipe.hpp). Other changes are written to
  // standard error.
  Result<bool> load_latest();
  // Continues from `values` (training/elastic/state.hpp), which belong to `state`.
  Status load(std::span<const float> values, const training::TrainingState& state);
  // Prepares for steps. It opens checkpoints, and on the first rank the log. With `keep` the log's lines of earlier
  // steps stay. `last` is the step before this one, for the log where its line is missing.
  Status begin(bool keep, const std::optional<LogLine>& last = {});

  // Makes steps up to the last, and asks `leave_before` before each. Errors, on all ranks, are a step whose loss or
  // gradients are no finite numbers, and a save that has failed meanwhile.
  Result<Progress> steps(const std::function<bool()>& leave_before = {});
  // Save the present state where the folder of checkpoints does not have it.
  Status save();
  Status save_and_wait();
  // Ends the run with a checkpoint, validation, report and sample. Returns Terminated where SIGTERM came to this rank
  // before the checkpoint was there.
  Result<Progress> finish();
  // Closes the logs and returns whether they are whole.
  Status close_log();

  // Returns the part of the present state that is no tensor, without the recipe.
  training::TrainingState state() const;
  bool ready() const noexcept { return ready_; }
  // Returns whether all ranks of the world have found the last error together. Such an error would come again.
  bool failed_together() const noexcept { return failed_together_; }
  // Notes that all ranks of the world have come to this status together.
  Status together(const Status& status);
  Trainer& trainer() noexcept { return *trainer_; }
  training::Shard shard() { return {trainer_->strategy().pieces(), trainer_->optimizer().moments()}; }
  // Returns the last step that this rank has done.
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
  // It lives while the state is in no checkpoint and there is a folder for one.
  std::optional<TerminationWatch> watch_;
  // Counts skipped steps in a row whose loss was no number, either.
  int lost_steps_ = 0;
  bool saving_ = false;  // on all ranks, or on none
  bool failed_together_ = false;
  bool ready_ = false;
  bool greeted_ = false;
};

// Makes a whole run. Every rank of the world calls it. Failures of communication are thrown.
Ending train(const std::shared_ptr<Communicator>& world, const CommandLine& line);

}  // namespace wreath::gpt
