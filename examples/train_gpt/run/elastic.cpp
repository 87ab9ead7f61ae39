// This file has an elastic run: its turns of training, and the work between them.
#include "examples/train_gpt/run/elastic.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "training/checkpoint/agreement.hpp"
#include "training/elastic/elastic_world.hpp"

namespace wreath::gpt {

using training::Contribution;
using training::ElasticWorld;
using training::Formation;

namespace {

// After so many failures in a row, the cause is not a death.
constexpr int kFailuresWithoutStep = 10;

// Returns the data-parallel size that so many ranks allow; 0: none. The other axes, and the step's samples, stay.
int data_ranks(const TrainOptions& options, int ranks) {
  TrainOptions smaller = options;
  const int model = options.mesh.pp * options.mesh.cp * options.mesh.tp;
  for (int dp = std::min(options.mesh.dp, ranks / model); dp >= 1; --dp) {
    smaller.mesh.dp = dp;
    if (check(smaller)) return dp;
  }
  return 0;
}

// The notes that members send each other beside their holdings.
struct Notes {
  bool has_step = false;  // the last one done
  bool has_validation = false;
  StepResult step;
  double validation = 0;
  std::int64_t optimizer_steps = 0;
  // One entry of TrainingState::text, "grad_scaler=...", or empty.
  std::array<char, 96> scaler{};
};
static_assert(std::is_trivially_copyable_v<Notes> && sizeof(Notes) <= sizeof(Contribution::notes));

Notes notes_of(const training::Member& member) {
  Notes notes;
  std::memcpy(static_cast<void*>(&notes), member.contribution.notes.data(), sizeof notes);
  return notes;
}

void set_line(Notes& notes, const std::optional<LogLine>& line) {
  notes.has_step = line.has_value();
  if (!line) return;
  notes.step = line->result;
  notes.has_validation = line->validation.has_value();
  notes.validation = line->validation.value_or(0);
}

std::optional<LogLine> line_of(const Notes& notes) {
  if (!notes.has_step) return std::nullopt;
  return LogLine{notes.step, notes.has_validation ? std::optional(notes.validation) : std::nullopt};
}

void set_state(Notes& notes, const training::TrainingState& state) {
  notes.optimizer_steps = state.optimizer_steps;
  notes.scaler = {};
  for (const auto& [key, value] : state.text) (key + "=" + value).copy(notes.scaler.data(), notes.scaler.size() - 1);
}

training::TrainingState state_of(const Notes& notes, std::int64_t steps) {
  training::TrainingState state;
  state.step = steps;
  state.optimizer_steps = notes.optimizer_steps;
  const std::string text = notes.scaler.data();
  if (const std::size_t equals = text.find('='); equals != std::string::npos) {
    state.text[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return state;
}

std::string names(const std::vector<training::Member>& members) {
  std::string text;
  for (const training::Member& member : members) text += (text.empty() ? "" : ", ") + training::name(member);
  return text;
}

class ElasticRun {
 public:
  explicit ElasticRun(const CommandLine& line)
      : line_(line), model_ranks_(line.train.mesh.pp * line.train.mesh.cp * line.train.mesh.tp) {}

  Status run(const ElasticJob& job);
  // Translates the status that run() returned.
  Ending ending(const Status& status) const {
    if (status) return {.code = code_};
    const bool together = session_ && session_->failed_together();
    Ending ending = failed(status.error(), world_ && first(), together);
    if (code_ != 0) ending.code = code_;
    if (lost_state_ || (world_ && world_->start_again())) ending.code = training::kStartAgainCode;
    return ending;
  }

 private:
  Status turn();
  bool leaves();
  Status meet_again(const Status& ended);
  Contribution contribution(bool unharmed);
  void hold_state();
  Status set_up();
  Result<training::StatePlan> plan() const;
  void complete_step(const Result<training::StatePlan>& plan);
  Status bring_state(const Result<training::StatePlan>& plan);
  Notes notes_after(std::int64_t steps) const;
  Status start_or_load(const std::string& why_not_moved);
  std::vector<int> needs() const;
  std::optional<LogLine> last_line(std::int64_t steps) const;
  void tell(const std::string& source) const;
  bool first() const { return world_->trains() && world_->world()->rank() == 0; }
  training::MeshShape mesh() const {
    training::MeshShape shape = line_.train.mesh;
    shape.dp = world_->formation().world_ranks / model_ranks_;
    return shape;
  }

  CommandLine line_;
  int model_ranks_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<ElasticWorld> world_;
  training::Holding holding_;
  // The rank's state, copied from a trainer that is gone.
  std::vector<float> held_;
  Notes notes_;
  bool began_ = false;
  bool done_ = false;
  bool lost_state_ = false;
  // The exit code of the others' end, or of this member after SIGTERM.
  int code_ = 0;
  int failures_ = 0;  // since a step was done
};

Status ElasticRun::run(const ElasticJob& job) {
  Result<std::unique_ptr<Session>> session = Session::create(line_);
  if (!session) return session.error();
  session_ = std::move(*session);
  training::ElasticOptions options;
  options.world_ranks = [this](int ranks) { return data_ranks(line_.train, ranks) * model_ranks_; };
  Result<std::unique_ptr<ElasticWorld>> world = ElasticWorld::join(job, options);
  if (!world) return world.error();
  world_ = std::move(*world);
  while (!world_->over()) {
    const Status ended = training::guarded([this] { return turn(); });
    if (done_) return {};
    if (world_->over()) break;
    WREATH_TRY(meet_again(ended));
  }
  if (world_->over_code() == 0) return {};
  code_ = world_->over_code();
  return Error{ErrorCode::Aborted, fmt::format("the job has ended with code {}: its first rank says why", code_)};
}

// Does the work of this member from one meeting to the next.
Status ElasticRun::turn() {
  if (!world_->formation().same_world) WREATH_TRY(set_up());
  if (!world_->trains()) {
    world_->wait_for_change();
    return {};
  }
  const auto change_is_due = [this] { return world_->change_is_due(); };
  Result<Progress> progress = session_->steps(change_is_due);
  // Where SIGTERM came only to others, this member continues. They leave, so a later step fails for it.
  while (progress && *progress == Progress::Terminated && !leaves()) progress = session_->steps(change_is_due);
  if (progress && *progress == Progress::Done) progress = session_->finish();
  if (!progress) return progress.error();
  if (*progress == Progress::Left || leaves()) return {};
  if (world_->world()->ranks() > 1) WREATH_TRY(world_->world()->barrier());
  if (first()) WREATH_TRY(world_->announce_over());
  done_ = true;
  return {};
}

// Returns whether SIGTERM came to this member while its state was in no checkpoint. By now a checkpoint has it.
bool ElasticRun::leaves() {
  if (line_.checkpoint.empty() || !TerminationWatch::terminated()) return false;
  code_ = kTerminatedCode;
  done_ = true;
  return true;
}

// Meets after a failure where `ended` is an error. Otherwise a change is due, and all that worked still does.
Status ElasticRun::meet_again(const Status& ended) {
  if (!ended) {
    const std::optional<LogLine>& last = session_->last();
    const bool moved = last && (!notes_.has_step || last->result.step != notes_.step.step);
    failures_ = moved ? 1 : failures_ + 1;
    if (!training::caused_by_a_loss(ended.error()) || failures_ > kFailuresWithoutStep) {
      if (session_->failed_together() && first()) {
        static_cast<void>(world_->announce_over(exit_code(ended.error().code)));
      }
      return ended;
    }
    session_->abort();
  }
  hold_state();
  const bool unharmed = static_cast<bool>(ended) && session_->ready();
  Contribution mine = contribution(unharmed);
  if (unharmed && holding_.part < 0) {
    if (line_.checkpoint.empty()) {
      mine.keep_world = true;
    } else {
      const Status saved = training::guarded([this] { return session_->save_and_wait(); });
      if (!saved) return meet_again(saved);
    }
  }
  // A trainer that may have a step to complete lives until the members have met.
  if (!ended && !holding_.next_is_ready) session_->leave();
  return world_->reform(mine);
}

Contribution ElasticRun::contribution(bool unharmed) {
  Contribution mine;
  mine.holding = holding_;
  mine.began = began_;
  mine.unharmed = unharmed;
  std::memcpy(mine.notes.data(), static_cast<const void*>(&notes_), sizeof notes_);
  return mine;
}

// Copies this rank's state where it is whole. An earlier trainer's copy stays where the present trainer never began.
void ElasticRun::hold_state() {
  if (!session_->ready()) return;
  set_line(notes_, session_->last());
  set_state(notes_, session_->state());
  holding_ = {-1, session_->trainer().steps_done()};
  held_.clear();
  if (line_.train.zero_stage > 0 || session_->trainer().strategy().divided()) return;
  const training::MeshPlace place = session_->trainer().mesh().place();
  holding_.part = place.pp * line_.train.mesh.tp + place.tp;
  holding_.next_is_ready = session_->trainer().can_complete_step();
  held_ = training::copy_of(session_->shard());
}

// Returns the part of the model that each member is to hold; -1: none.
std::vector<int> ElasticRun::needs() const {
  const Formation& formation = world_->formation();
  std::vector<int> parts(formation.members.size(), -1);
  for (int rank = 0; rank < formation.world_ranks; ++rank) {
    const training::MeshPlace place = training::place_of(mesh(), rank);
    parts[static_cast<std::size_t>(rank)] = place.pp * line_.train.mesh.tp + place.tp;
  }
  return parts;
}

Result<training::StatePlan> ElasticRun::plan() const {
  std::vector<training::Holding> holdings;
  for (const training::Member& member : world_->formation().members) {
    holdings.push_back(member.contribution.holding);
  }
  return training::plan_state(holdings, needs());
}

// Does the step that this rank failed in, where others have done it and the plan goes on from there.
void ElasticRun::complete_step(const Result<training::StatePlan>& plan) {
  if (std::exchange(holding_.next_is_ready, false) && plan && plan->steps == holding_.steps + 1) {
    session_->trainer().complete_step();
    hold_state();
  }
}

// Makes a trainer for the new world, and gives it its state.
Status ElasticRun::set_up() {
  const Result<training::StatePlan> plan = this->plan();
  complete_step(plan);
  session_->leave();
  if (world_->trains()) WREATH_TRY(session_->enter(world_->world(), mesh()));
  WREATH_TRY(bring_state(plan));
  began_ = true;
  held_ = {};
  holding_ = {};
  return {};
}

// Returns the notes of a member that has done the plan's steps.
Notes ElasticRun::notes_after(std::int64_t steps) const {
  const std::vector<training::Member>& members = world_->formation().members;
  return notes_of(*std::ranges::find_if(members, [&](const training::Member& member) {
    return member.contribution.holding.part >= 0 && member.contribution.holding.steps == steps;
  }));
}

Status ElasticRun::bring_state(const Result<training::StatePlan>& plan) {
  if (!plan) return start_or_load(plan.error().message);
  const auto self = static_cast<std::size_t>(world_->pool().rank());
  const int source = plan->sources[self];
  std::vector<float> received;
  if (source >= 0 && source != static_cast<int>(self)) received = training::copy_of(session_->shard());
  WREATH_TRY(training::move_state(world_->pool(), *plan, held_, received));
  if (!world_->trains()) return {};
  const training::TrainingState state = state_of(notes_after(plan->steps), plan->steps);
  WREATH_TRY(session_->load(received.empty() ? held_ : received, state));
  WREATH_TRY(session_->begin(true, last_line(plan->steps)));
  tell("the ranks that are left");
  return {};
}

// Starts the job, or loads the last checkpoint.
Status ElasticRun::start_or_load(const std::string& why_not_moved) {
  if (!world_->trains()) return {};
  const bool began = std::ranges::any_of(world_->formation().members,
                                         [](const training::Member& member) { return member.contribution.began; });
  bool loaded = false;
  if (!line_.checkpoint.empty()) {
    const Result<bool> found = session_->load_latest();
    if (!found) return found.error();
    loaded = *found;
  }
  if (began && !loaded) {
    lost_state_ = true;
    return Error{ErrorCode::Unavailable, why_not_moved + ", and there is no checkpoint" +
                                             (line_.checkpoint.empty() ? " (--checkpoint FOLDER)" : "")};
  }
  WREATH_TRY(session_->begin(true));
  if (began) tell("the last checkpoint");
  return {};
}

// Returns the line of the former step from a member that has done it. The log needs it where the log's writer is gone.
std::optional<LogLine> ElasticRun::last_line(std::int64_t steps) const {
  for (const training::Member& member : world_->formation().members) {
    const std::optional<LogLine> line = line_of(notes_of(member));
    if (line && line->result.step == steps - 1) return line;
  }
  return std::nullopt;
}

void ElasticRun::tell(const std::string& source) const {
  if (!first()) return;
  const Formation& formation = world_->formation();
  std::string text;
  if (!formation.lost.empty()) text += fmt::format("{} lost ({}); ", names(formation.lost), formation.cause);
  if (!formation.joined.empty()) text += fmt::format("{} came; ", names(formation.joined));
  std::fprintf(stderr,
               "wreath: %s: %s%zu go on, %d of them as %s, from step %lld, with the state of %s; met in %.2f s\n",
               formation.lost.empty() ? "info" : "warning", text.c_str(), formation.members.size(),
               formation.world_ranks, training::name(mesh()).c_str(),
               static_cast<long long>(session_->trainer().steps_done()), source.c_str(), formation.seconds);
}

}  // namespace

Ending train_elastic(const ElasticJob& job, const CommandLine& line) {
  ElasticRun run(line);
  return run.ending(run.run(job));
}

}  // namespace wreath::gpt
