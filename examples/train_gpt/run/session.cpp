// This file has a run: its set-up, the loop over steps, and its end.
#include "examples/train_gpt/run/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "examples/train_gpt/run/host_memory.hpp"
#include "examples/train_gpt/run/hub_files.hpp"
#include "examples/train_gpt/run/recipe.hpp"
#include "examples/train_gpt/run/sources.hpp"
#include "examples/train_gpt/train/memory_need.hpp"
#include "training/checkpoint/agreement.hpp"
#include "training/elastic/elastic_world.hpp"
#include "training/elastic/state.hpp"

namespace wreath::gpt {

namespace {

Result<Text> read_text(const CommandLine& line) {
  if (!line.data.empty()) return Text::from_file(line.data, line.train.model.context);
  Result<std::string> sources = project_sources(WREATH_SOURCE_DIR);
  if (!sources) return sources.error();
  return Text::from("the project's sources", *sources, line.train.model.context);
}

// Makes a failure on one rank a failure on all, so that no rank is left waiting.
Status agree(Communicator& world, const Status& mine) {
  Result<training::Agreement> ranks = training::Agreement::create(world);
  if (!ranks) return ranks.error();
  return ranks->agree(mine);
}

// The run fails after so many skipped steps in a row whose loss was no number, either. A loss scale that can help has
// by then been halved to one and further.
constexpr int kMostLostSteps = 50;

}  // namespace

Result<std::unique_ptr<Session>> Session::create(const CommandLine& line) {
  std::unique_ptr<Session> session(new Session(line));
  Result<Text> text = read_text(line);
  if (!text) return text.error();
  session->text_ = std::make_unique<Text>(std::move(*text));
  return session;
}

// ---- worlds ----

Status Session::enter(std::shared_ptr<Communicator> world, const training::MeshShape& mesh) {
  world_ = std::move(world);
  line_.train.mesh = mesh;
  WREATH_TRY(together(check_memory(mesh)));
  Result<std::unique_ptr<Trainer>> trainer = Trainer::create(world_, line_.train, *text_);
  if (!trainer) return trainer.error();
  trainer_ = std::move(*trainer);
  return {};
}

void Session::leave() {
  ready_ = false;
  if (checkpointer_) {
    saving_ = false;
    if (const Status saved = checkpointer_->wait(); !saved && first()) {
      std::fprintf(stderr, "wreath: warning: a save in flight was lost: %s\n", saved.error().message.c_str());
    }
  }
  watch_.reset();
  checkpointer_.reset();
  log_.reset();
  trainer_.reset();
  world_.reset();
}

void Session::abort() {
  if (trainer_) trainer_->abort();
  if (world_) static_cast<void>(world_->abort());
}

Status Session::check_memory(const training::MeshShape& mesh) {
  // A device's memory is requested only as it is needed.
  if (line_.train.device != nullptr) return {};
  // Without steps nothing is kept for a backward pass.
  if (line_.train.steps == 0) return {};
  TrainOptions options = line_.train;
  options.model.vocabulary = text_->vocabulary();
  Result<training::Agreement> ranks = training::Agreement::create(*world_);
  if (!ranks) return ranks.error();
  return check_hosts(*ranks, memory_need(options, training::place_of(mesh, ranks->rank())));
}

// ---- state ----

// Returns the latest checkpoint that the first rank finds. A save that is being published so exists for all ranks or
// for none.
Result<std::optional<std::string>> Session::latest() {
  Result<std::optional<std::string>> found = std::optional<std::string>();
  if (first()) found = training::latest_checkpoint(line_.checkpoint);
  WREATH_TRY(together(agree(*world_, found ? Status() : Status(found.error()))));
  std::string path = *found ? **found : "";
  std::uint64_t bytes = path.size();
  if (world_->ranks() > 1) {
    WREATH_TRY(world_->broadcast(std::span(&bytes, 1), 0));
    path.resize(bytes);
    if (bytes > 0) WREATH_TRY(world_->broadcast(path.data(), path.data(), bytes, DataType::Uint8, 0));
  }
  if (path.empty()) return std::optional<std::string>();
  return std::optional(path);
}

Result<bool> Session::load_latest() {
  const Result<std::optional<std::string>> found = latest();
  if (!found) return found.error();
  if (!*found) return false;
  WREATH_TRY(together(agree(*world_, training::guarded([&] { return check_recipe(**found); }))));
  const Result<training::TrainingState> state = training::load_checkpoint(*world_, **found, shard());
  if (!state) return together(state.error()).error();
  WREATH_TRY(trainer_->restore_text(state->text));
  trainer_->resume_at(state->step, state->optimizer_steps);
  if (first()) std::printf("resumed from %s\n", (*found)->c_str());
  return true;
}

Status Session::check_recipe(const std::string& checkpoint) const {
  const Result<training::TrainingState> state = training::read_state(checkpoint);
  if (!state) return state.error();
  Recipe kept = state->text;
  kept["seed"] = std::to_string(state->seed);
  const RecipeChanges changes = changes_between(kept, recipe_of(line_.train, *text_));
  if (!changes.wrong.empty()) return Error{ErrorCode::InvalidArgument, checkpoint + ": " + changes.wrong};
  for (const std::string& remark : changes.remarks) {
    if (first()) std::fprintf(stderr, "wreath: warning: %s: %s\n", checkpoint.c_str(), remark.c_str());
  }
  return {};
}

Status Session::load(std::span<const float> values, const training::TrainingState& state) {
  WREATH_TRY(training::copy_into(shard(), values));
  WREATH_TRY(trainer_->restore_text(state.text));
  trainer_->resume_at(state.step, state.optimizer_steps);
  return {};
}

Status Session::open_checkpointer() {
  if (line_.checkpoint.empty()) return {};
  training::CheckpointOptions options;
  options.writers = line_.checkpoint_writers;
  options.documents = hub_files(trainer_->options().model, *text_);
  auto checkpointer = training::Checkpointer::create(*world_, line_.checkpoint, shard(), trainer_->memory(), options);
  if (!checkpointer) return together(checkpointer.error()).error();
  checkpointer_ = std::move(*checkpointer);
  return {};
}

Status Session::begin(bool keep, const std::optional<LogLine>& last) {
  WREATH_TRY(open_checkpointer());
  forget_steps_from(trainer_->steps_done());
  WREATH_TRY(together(agree(*world_, first() ? open_log(keep) : Status())));
  if (checkpointer_) watch_.emplace();
  if (first()) {
    if (last) log_->complete(*last);
    if (!greeted_) greet();
  }
  greeted_ = true;
  last_ = last;
  ready_ = true;
  return {};
}

Status Session::open_log(bool keep) {
  Result<std::unique_ptr<Log>> log = Log::open(line_, keep ? trainer_->steps_done() : 0);
  if (!log) return log.error();
  log_ = std::move(*log);
  return {};
}

void Session::forget_steps_from(std::int64_t step) {
  std::erase_if(history_.steps, [&](const StepResult& result) { return result.step >= step; });
  std::erase_if(history_.validation, [&](const ValidationPoint& point) { return point.step >= step; });
}

void Session::greet() const {
  const TrainOptions& train = line_.train;
  std::printf("%s: %lld letters, %lld kinds; %lld layers, %lld heads, width %lld, context %lld: %lld parameters\n",
              text_->source().c_str(), static_cast<long long>(text_->training().size() + text_->validation().size()),
              static_cast<long long>(text_->vocabulary()), static_cast<long long>(train.model.layers),
              static_cast<long long>(train.model.heads), static_cast<long long>(train.model.width),
              static_cast<long long>(train.model.context), static_cast<long long>(parameter_count()));
  std::printf("%s, ZeRO stage %d, %s schedule, %d micro-batches; a step is %lld sequences\n", name(train.mesh).c_str(),
              train.zero_stage, train.schedule.c_str(), train.micro_batches, static_cast<long long>(train.batch));
  if (trainer_->compute() != nullptr) std::printf("on %s\n", trainer_->compute()->description().c_str());
  if (trainer_->steps_done() >= train.steps) {
    std::printf("nothing to train: the model is at step %lld, --steps is %lld%s\n",
                static_cast<long long>(trainer_->steps_done()), static_cast<long long>(train.steps),
                line_.html.empty() ? "" : "; no report");
  }
  std::fflush(stdout);
}

// Returns the count of the whole model, by its shape, since a rank of a pipeline holds other layers.
std::int64_t Session::parameter_count() const noexcept {
  const GptConfig& model = trainer_->options().model;
  const std::int64_t width = model.width;
  const std::int64_t norm = model.bias ? 2 * width : width;
  const std::int64_t block = 12 * width * width + 2 * norm + (model.bias ? 9 * width : 0);
  return model.vocabulary * width + model.context * width + model.layers * block + norm;
}

// ---- steps ----

training::TrainingState Session::state() const {
  training::TrainingState state;
  state.step = trainer_->steps_done();
  state.optimizer_steps = trainer_->optimizer().steps();
  state.seed = line_.train.seed;
  state.data_cursor = trainer_->steps_done() * line_.train.batch;
  state.text = trainer_->state_text();
  return state;
}

Status Session::save() {
  if (!checkpointer_) return {};
  saving_ = true;
  training::TrainingState saved = state();
  saved.text.merge(recipe_of(trainer_->options(), *text_));
  return together(checkpointer_->save(saved, shard()));
}

Status Session::save_and_wait() {
  WREATH_TRY(save());
  saving_ = false;
  return checkpointer_ ? together(checkpointer_->wait()) : Status();
}

Status Session::save_on_termination() {
  WREATH_TRY(save_and_wait());
  if (!first()) return {};
  std::fprintf(stderr, "wreath: info: SIGTERM: the state after %lld steps is saved in %s\n",
               static_cast<long long>(trainer_->steps_done()), line_.checkpoint.c_str());
  return {};
}

Status Session::close_log() { return log_ ? log_->close() : Status(); }

// Ends a save once all ranks have finished theirs. Its result is the same on all ranks, but not its moment.
Status Session::check_save() {
  if (!saving_) return {};
  std::int32_t writing = checkpointer_->writing() ? 1 : 0;
  if (world_->ranks() > 1) WREATH_TRY(world_->all_reduce(std::span(&writing, 1), ReduceOp::Max));
  if (writing != 0) return {};
  saving_ = false;
  return checkpointer_->wait();
}

Status Session::together(const Status& status) {
  failed_together_ = !status;
  return status;
}

// Checks a step. All ranks have the same numbers.
Status Session::check_step(const StepResult& result) {
  const bool finite = std::isfinite(result.loss);
  if (!result.skipped) lost_steps_ = 0;
  if (finite && (result.skipped || std::isfinite(result.gradient_norm))) return {};
  if (result.skipped && ++lost_steps_ < kMostLostSteps) return {};
  const std::string what = finite ? fmt::format("the gradient's norm is {}", result.gradient_norm)
                                  : fmt::format("the loss is {}", result.loss);
  return Error{ErrorCode::InvalidArgument,
               fmt::format("step {}: {}: training has diverged (--learning-rate {:g}, --clip {:g})", result.step, what,
                           result.learning_rate, line_.train.clip)};
}

Status Session::one_step() {
  const std::int64_t step = trainer_->steps_done();
  std::optional<double> validation;
  if (line_.validate_every > 0 && step % line_.validate_every == 0) {
    validation = trainer_->validation_loss(line_.validation_windows);
  }
  last_ = LogLine{trainer_->step([this] { return watch_ && TerminationWatch::terminated(); }), validation};
  const Status sound = together(check_step(last_->result));
  if (log_) log_->step(*last_, !sound || step + 1 == line_.train.steps);
  if (!sound) return sound.error();
  WREATH_TRY(together(check_save()));
  if (!line_.html.empty()) history_.steps.push_back(last_->result);
  if (validation) history_.validation.push_back({step, *validation});
  return {};
}

Result<Progress> Session::steps(const std::function<bool()>& leave_before) {
  while (trainer_->steps_done() < line_.train.steps) {
    if (leave_before && leave_before()) return Progress::Left;
    WREATH_TRY(one_step());
    if (last_->result.last_wanted) {
      WREATH_TRY(save_on_termination());
      return Progress::Terminated;
    }
    const bool due = line_.save_every > 0 && trainer_->steps_done() % line_.save_every == 0;
    if (due && trainer_->steps_done() < line_.train.steps) WREATH_TRY(save());
  }
  return Progress::Done;
}

Result<Progress> Session::finish() {
  WREATH_TRY(save_and_wait());
  watch_.reset();
  if (checkpointer_ && TerminationWatch::terminated()) return Progress::Terminated;
  if (line_.validate_at_end) {
    const double validation = trainer_->validation_loss();
    if (first()) std::printf("validation loss over the whole text's last tenth: %.4f\n", validation);
    history_.validation.push_back({trainer_->steps_done(), validation});
  }
  if (!line_.html.empty() && !history_.steps.empty()) {
    WREATH_TRY(write_report(line_.html, line_, history_, *trainer_, *world_));
  }
  if (line_.sample > 0) {
    const std::string text = trainer_->sample("\n", line_.sample, 0.8f);
    if (first()) std::printf("---%s\n---\n", text.c_str());
  }
  WREATH_TRY(close_log());
  return Progress::Done;
}

Ending failed(const Error& error, bool first, bool together) {
  return {error, exit_code(error.code), first || !together || training::caused_by_a_loss(error)};
}

namespace {

Result<Progress> run(Session& session, const std::shared_ptr<Communicator>& world, const CommandLine& line) {
  WREATH_TRY(session.enter(world, line.train.mesh));
  if (line.resume) {
    const Result<bool> loaded = session.load_latest();
    if (!loaded) return loaded.error();
    if (!*loaded) {
      const Error none{ErrorCode::InvalidArgument, line.checkpoint + ": there is no checkpoint to resume from"};
      return session.together(none).error();
    }
  }
  WREATH_TRY(session.begin(line.resume));
  Result<Progress> progress = session.steps();
  if (progress && *progress == Progress::Done) progress = session.finish();
  if (progress && *progress == Progress::Terminated) WREATH_TRY(session.close_log());
  return progress;
}

}  // namespace

Ending train(const std::shared_ptr<Communicator>& world, const CommandLine& line) {
  const bool first = world->rank() == 0;
  Result<std::unique_ptr<Session>> session = Session::create(line);
  const Status made = agree(*world, session ? Status() : Status(session.error()));
  if (!made) return failed(made.error(), first, true);
  const Result<Progress> progress = run(**session, world, line);
  if (!progress) {
    if (!(*session)->failed_together()) (*session)->abort();
    return failed(progress.error(), first, (*session)->failed_together());
  }
  return {.code = *progress == Progress::Terminated ? kTerminatedCode : 0};
}

}  // namespace wreath::gpt
