// This file sets up a training run, makes its steps and validates.
#include "examples/train_gpt/train/trainer.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "training/compute/threads.hpp"
#include "training/precision/precision.hpp"

namespace wreath::gpt {

using training::Pipeline;
using training::Range;

namespace {

constexpr const char* kScalerState = "grad_scaler";

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

void timed(double& seconds, const std::function<void()>& run) {
  const Clock::time_point start = Clock::now();
  run();
  seconds += seconds_since(start);
}

template <typename T>
std::vector<training::Stage*> pointers(const std::vector<std::unique_ptr<T>>& stages) {
  std::vector<training::Stage*> all;
  for (const auto& stage : stages) all.push_back(stage.get());
  return all;
}

}  // namespace

Result<std::unique_ptr<Trainer>> Trainer::create(std::shared_ptr<Communicator> world, const TrainOptions& options,
                                                 const Text& text) {
  WREATH_TRY(check(options));
  std::unique_ptr<Trainer> trainer(new Trainer(options, text));
  WREATH_TRY(trainer->set_up(std::move(world)));
  return trainer;
}

Trainer::Trainer(const TrainOptions& options, const Text& text) : options_(options), text_(&text) {
  options_.model.vocabulary = text.vocabulary();
}

Trainer::~Trainer() = default;

Status Trainer::set_up(std::shared_ptr<Communicator> world) {
  if (options_.device != nullptr) {
    options_.compute.factors = training::half_format(*training::parse_precision(options_.precision));
    Result<std::unique_ptr<training::Compute>> compute = training::Compute::create(*options_.device, options_.compute);
    if (!compute) return compute.error();
    compute_ = std::move(*compute);
    memory_.place_on(compute_.get());
  }
  Result<training::Mesh> mesh = training::Mesh::create(std::move(world), options_.mesh, communication_);
  if (!mesh) return mesh.error();
  mesh_ = std::make_unique<training::Mesh>(std::move(*mesh));
  training::set_math_threads(options_.threads);
  const training::Precision precision = *training::parse_precision(options_.precision);
  region_ = std::make_unique<training::TensorRegion>(mesh_->tp(), options_.sequence_parallel, memory_,
                                                     precision == training::Precision::Fp8);
  attention_ = options_.context_attention == "ring" ? training::make_ring_attention(mesh_->cp(), memory_)
                                                    : training::make_ulysses_attention(mesh_->cp(), memory_);
  context_.config = options_.model;
  context_.seed = options_.seed;
  context_.shape = {options_.sequences(),
                    training::sequence_ranges(options_.model.context, options_.mesh.cp, mesh_->place().cp)};
  context_.memory = &memory_;
  context_.region = region_.get();
  context_.attention = attention_.get();
  context_.recompute = options_.recompute;
  context_.half = training::half_format(precision);
  make_stages();
  WREATH_TRY(make_pipeline());
  make_strategy();
  if (context_.half == DataType::Float16) {
    scaler_ = std::make_unique<training::GradScaler>(
        training::GradScalerOptions{.initial_scale = static_cast<double>(options_.loss_scale)});
  }
  communication_.reset();
  return {};
}

void Trainer::make_stages() {
  StagePlace place;
  place.stages = options_.mesh.pp * options_.chunks;
  place.alone = options_.mesh.pp == 1;
  training::Parameter* table = nullptr;
  for (int chunk = 0; chunk < options_.chunks; ++chunk) {
    place.index = chunk * options_.mesh.pp + mesh_->place().pp;
    stages_.push_back(std::make_unique<GptStage>(parameters_, place, table, context_, state_));
    if (place.alone && stages_.back()->embedding() != nullptr) table = &stages_.back()->embedding()->table();
  }
}

Status Trainer::make_pipeline() {
  Result<training::PipelineSchedule> schedule =
      training::make_schedule(options_.schedule, {options_.mesh.pp, options_.chunks, options_.micro_batches});
  if (!schedule) return schedule.error();
  std::vector<training::Stage*> chunks = pointers(stages_);
  if (options_.stage_sleep_ms > 0) {
    for (training::Stage* stage : chunks) {
      sleeping_.push_back(
          std::make_unique<SleepingStage>(*stage, state_, std::chrono::milliseconds(options_.stage_sleep_ms)));
    }
    chunks = pointers(sleeping_);
  }
  Result<Pipeline> pipeline = Pipeline::create(mesh_->pp(), std::move(*schedule), std::move(chunks), memory_);
  if (!pipeline) return pipeline.error();
  pipeline_ = std::make_unique<Pipeline>(std::move(*pipeline));
  return {};
}

void Trainer::make_strategy() {
  training::DataParallelOptions options;
  options.zero_stage = options_.zero_stage;
  options.overlap = options_.overlap;
  options.seed = options_.seed;
  options.half = context_.half;
  if (options_.zero_stage == 3) options.offload_folder = options_.offload_folder;
  if (options_.bucket_bytes > 0) options.first_bucket_bytes = options.bucket_bytes = options_.bucket_bytes;
  if (options_.mesh.pp == 1) {
    // The head uses the embedding's table.
    const int head = stages_.back()->head()->unit();
    options.also_uses.resize(static_cast<std::size_t>(head) + 1);
    options.also_uses.back() = {stages_.front()->embedding()->unit()};
  }
  training::DataParallelGroups groups{mesh_->replicas(), mesh_->tp(), mesh_->embedding()};
  if (options_.hybrid_shards > 0) {
    hybrid_ = training::make_hybrid_groups(mesh_->replicas(), options_.hybrid_shards);
    groups.shards = hybrid_.shards.get();
    groups.replicate = hybrid_.replicate.get();
  }
  strategy_ = training::make_data_parallel(parameters_, groups, memory_, options);
  for (const auto& stage : stages_) stage->attach(*strategy_);
  if (options_.optimizer == OptimizerKind::Sgd) {
    optimizer_ = training::make_sgd();
  } else {
    training::AdamWOptions adamw;
    adamw.weight_decay = options_.weight_decay;
    adamw.offload_folder = options_.offload_folder;
    optimizer_ = training::make_adamw(strategy_->pieces(), adamw, memory_);
  }
}

std::int64_t Trainer::part(int micro_batch) const noexcept {
  return static_cast<std::int64_t>(mesh_->place().dp) * options_.micro_batches + micro_batch;
}

void Trainer::set_batches(std::vector<MicroBatch> batches, bool training) {
  state_.losses.clear();
  state_.losses.resize(batches.size());
  for (MicroBatch& batch : batches) batch.drops = training;
  state_.batches = std::move(batches);
}

void Trainer::load_batches() {
  std::vector<MicroBatch> batches;
  for (int micro_batch = 0; micro_batch < options_.micro_batches; ++micro_batch) {
    const BatchAddress address{options_.seed, static_cast<std::uint32_t>(step_),
                               part(micro_batch) * context_.shape.sequences};
    batches.push_back(training_batch(*text_, address, context_.shape, options_.model.context));
  }
  set_batches(std::move(batches), true);
  // The strategy takes the mean over replicas.
  const double tokens = static_cast<double>(options_.batch * options_.model.context);
  const double replicas = static_cast<double>(options_.mesh.dp) * options_.mesh.cp;
  state_.gradient_scale = static_cast<float>((scaler_ ? scaler_->scale() : 1) * replicas / tokens);
}

Trainer::Totals Trainer::total(double loss_sum, bool wants_end) {
  const bool counts = mesh_->place().tp == 0;  // tensor ranks know the same rows
  std::array<double, 2> values{counts ? loss_sum : 0.0, wants_end ? 1.0 : 0.0};
  mesh_->world().all_reduce(std::span<double>(values));
  return {values[0], values[1]};
}

double Trainer::clipped_norm_factor(double norm) const noexcept {
  if (options_.clip <= 0) return 1;
  return std::min(1.0, static_cast<double>(options_.clip) / (norm + 1e-6));
}

void Trainer::resume_at(std::int64_t steps, std::int64_t optimizer_steps) {
  step_ = steps;
  optimizer_->set_steps(optimizer_steps);
  // Copies the loaded weights to the ranks that need them.
  strategy_->finish_step();
}

std::map<std::string, std::string> Trainer::state_text() const {
  if (!scaler_) return {};
  return {{kScalerState, scaler_->state()}};
}

Status Trainer::restore_text(const std::map<std::string, std::string>& text) {
  const auto found = text.find(kScalerState);
  return scaler_ && found != text.end() ? scaler_->restore(found->second) : Status{};
}

void Trainer::measure(StepResult& result, const std::function<bool()>& wants_end) {
  if (scaler_) {
    result.loss_scale = scaler_->scale();
    timed(phases_.norm, [&] { result.skipped = scaler_->found_infinity(strategy_->pieces(), mesh_->world()); });
  }
  if (result.skipped) {
    result.gradient_norm = std::numeric_limits<double>::infinity();
  } else {
    timed(phases_.norm, [&] {
      result.gradient_norm =
          training::gradient_norm(strategy_->pieces(), strategy_->divided(), *mesh_) / result.loss_scale;
    });
  }
  double loss_sum = 0;
  for (const training::Buffer<double>& losses : state_.losses) loss_sum += training::sum_of(losses);
  state_.losses.clear();
  measured_ = result;
  if (options_.before_last_call) options_.before_last_call(step_, mesh_->world());
  const Totals totals = total(loss_sum, wants_end && wants_end());
  result.loss = totals.loss / static_cast<double>(options_.batch * options_.model.context);
  result.last_wanted = totals.want_end > 0;
}

void Trainer::optimize(const StepResult& result) {
  measured_.reset();
  if (scaler_) scaler_->update(result.skipped);
  if (result.skipped) {
    strategy_->skip_step();
  } else {
    timed(phases_.optimizer, [&] {
      optimizer_->step(strategy_->pieces(), result.learning_rate,
                       static_cast<float>(clipped_norm_factor(result.gradient_norm) / result.loss_scale));
    });
    timed(phases_.weights, [&] { strategy_->finish_step(); });
  }
  ++step_;
}

void Trainer::complete_step() {
  const StepResult result = *measured_;
  optimize(result);
}

void Trainer::abort() noexcept {
  mesh_->abort();
  for (const auto* group : {&hybrid_.shards, &hybrid_.replicate}) {
    if (*group && !(*group)->alone()) static_cast<void>((*group)->communicator().abort());
  }
}

StepResult Trainer::step(const std::function<bool()>& wants_end) {
  const Clock::time_point start = Clock::now();
  const double communication_before = communication_.seconds();
  StepResult result;
  result.step = step_;
  result.learning_rate = learning_rate_at(options_, step_);
  load_batches();
  timed(phases_.passes, [&] {
    strategy_->begin_step(options_.micro_batches);
    pipeline_->run_step();
  });
  timed(phases_.gradients, [&] { strategy_->finish_backward(); });
  for (const GradientObserver& observer : observers_) observer(strategy_->pieces());
  // All joint measurements of the ranks come first. Where weights are whole, a step so changes nothing until it cannot
  // fail. A rank that fails in the last of them can still do the step (complete_step).
  measure(result, wants_end);
  optimize(result);
  result.seconds = seconds_since(start);
  result.communication_seconds = communication_.seconds() - communication_before;
  return result;
}

double Trainer::validation_loss(std::int64_t windows) {
  const std::int64_t all = validation_windows(*text_, options_.model.context);
  const std::int64_t count = windows > 0 ? std::min(windows, all) : all;
  const training::CommunicationAccounting of_steps = communication_;
  const MicroBatchShape shape = context_.shape;
  const std::int64_t parts = static_cast<std::int64_t>(options_.mesh.dp) * options_.micro_batches;
  double loss_sum = 0;
  for (std::int64_t first = 0; first < count; first += context_.shape.sequences * parts) {
    // The micro-batches of a pass have one size. The remaining windows go one at a time, and those past the end do not
    // count.
    context_.shape.sequences = std::clamp<std::int64_t>((count - first) / parts, 1, shape.sequences);
    std::vector<MicroBatch> batches;
    std::vector<bool> counts;
    for (int micro_batch = 0; micro_batch < options_.micro_batches; ++micro_batch) {
      const std::int64_t window = first + part(micro_batch) * context_.shape.sequences;
      counts.push_back(window < count);
      batches.push_back(validation_batch(*text_, counts.back() ? window : 0, context_.shape, options_.model.context));
    }
    set_batches(std::move(batches), false);
    pipeline_->run_forward();
    for (std::size_t i = 0; i < counts.size(); ++i) loss_sum += counts[i] ? training::sum_of(state_.losses[i]) : 0.0;
    state_.losses.clear();
  }
  context_.shape = shape;
  const double loss = total(loss_sum).loss / static_cast<double>(count * options_.model.context);
  communication_ = of_steps;
  return loss;
}

}  // namespace wreath::gpt
