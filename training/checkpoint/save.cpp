// This file saves checkpoints: it copies the shard on the caller's thread, and another thread writes the copy.
#include <fmt/format.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "training/checkpoint/agreement.hpp"
#include "training/checkpoint/checkpoint.hpp"
#include "training/checkpoint/file_set.hpp"
#include "training/checkpoint/folder.hpp"
#include "training/checkpoint/plan.hpp"
#include "training/checkpoint/shard.hpp"
#include "training/checkpoint/state_text.hpp"
#include "training/compute/compute.hpp"

namespace wreath::training {

namespace {

using Clock = std::chrono::steady_clock;

std::int64_t ns_since(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
}

Error wrong(const std::string& what) { return {ErrorCode::InvalidArgument, "checkpoint: " + what}; }

Status check_options(const CheckpointOptions& options) {
  if (options.writers < 1) return wrong(fmt::format("writers is {}, not 1 or more", options.writers));
  if (options.keep < 0) return wrong(fmt::format("keep is {}, not 0 or more", options.keep));
  if (options.file_bytes < 1) return wrong("file_bytes is 0");
  for (const auto& [name, text] : options.documents) {
    if (name.empty() || name.front() == '.' || name.find('/') != std::string::npos) {
      return wrong(fmt::format("'{}' cannot be a document's name", name));
    }
  }
  return {};
}

}  // namespace

// The state that the saving thread uses. Between wait() and save() it is the caller's.
struct Checkpointer::Job {
  // Runs the whole save. Success or an error is the same on all ranks, unless they lose each other.
  Status write();
  // Makes the files of this rank in the hidden folder, which rank 0 makes.
  Status make_files();
  Status write_files();
  Status write_array(std::size_t array);
  Status finish() const;
  void copy(const Shard& now);

  Agreement ranks;
  std::string folder;
  CheckpointOptions options;
  ShardLayout layout;
  ShardPlan plan;
  FileSet model;
  FileSet optimizer;
  // The values, then each moment, with plan.count elements each.
  Buffer<float> copies;

  StoredState state;
  // The reason that the shard given to save() is not the one of create().
  Status wrong_shard;
  std::string hidden;
  // The open files by name, which this rank has to sync.
  std::map<std::string, SafetensorsWriter> files;
  std::thread thread;
  std::atomic<bool> writing{false};
  Status status;
  std::int64_t writing_ns = 0;
};

void Checkpointer::Job::copy(const Shard& now) {
  float* out = copies.data();
  for (std::size_t array = 0; array < layout.arrays(); ++array) {
    for (const PieceRuns& held : plan.held) {
      const float* from = layout.data(now, array, held.piece);
      for (const Run& run : held.runs) {
        const auto count = static_cast<std::size_t>(run.count);
        training::copy(std::span(from + run.local, count), std::span(out, count));
        out += run.count;
      }
    }
  }
}

Status Checkpointer::Job::make_files() {
  Result<std::string> made = begin_folder(folder, state.state.step);
  if (!made) return made.error();
  hidden = std::move(*made);
  for (const FileSet* set : {&model, &optimizer}) {
    for (std::size_t i = 0; i < set->names.size(); ++i) {
      auto file = SafetensorsWriter::create(hidden + "/" + set->names[i], set->headers[i]);
      if (!file) return file.error();
      files.emplace(set->names[i], std::move(*file));
    }
    if (!set->names.empty()) WREATH_TRY(write_text(hidden, index_name(set->stem), index_text(*set)));
  }
  for (const auto& [name, text] : options.documents) WREATH_TRY(write_text(hidden, name, text));
  return write_text(hidden, kStateFile, encode_state(state));
}

Status Checkpointer::Job::write_array(std::size_t array) {
  const FileSet& set = array == 0 ? model : optimizer;
  const auto places = set.places();
  const float* from = copies.data() + static_cast<std::size_t>(plan.count) * array;
  for (const PieceRuns& held : plan.held) {
    if (held.runs.empty()) continue;
    const FileSet::Place place = places.at(layout.tensor_name(plan.tensors[held.tensor].name, array));
    const std::string& name = set.names[place.file];
    auto file = files.find(name);
    if (file == files.end()) {
      auto opened = SafetensorsWriter::open(hidden + "/" + name, set.headers[place.file]);
      if (!opened) return opened.error();
      file = files.emplace(name, std::move(*opened)).first;
    }
    for (const Run& run : held.runs) {
      const std::span<const float> values(from, static_cast<std::size_t>(run.count));
      const std::uint64_t offset = static_cast<std::uint64_t>(run.global) * sizeof(float);
      WREATH_TRY(file->second.write(*place.tensor, offset, std::as_bytes(values)));
      from += run.count;
    }
  }
  return {};
}

Status Checkpointer::Job::write_files() {
  for (std::size_t array = 0; array < layout.arrays(); ++array) WREATH_TRY(write_array(array));
  for (const auto& [name, file] : files) WREATH_TRY(file.sync());
  files.clear();
  return {};
}

Status Checkpointer::Job::finish() const {
  WREATH_TRY(publish_folder(folder, hidden, state.state.step));
  if (options.keep > 0) remove_older(folder, state.state.step, options.keep - 1);
  return {};
}

Status Checkpointer::Job::write() {
  const bool leads = ranks.rank() == 0;
  hidden.clear();
  files.clear();
  const Result<std::vector<std::string>> steps = ranks.gather(std::to_string(state.state.step));
  if (!steps) return steps.error();
  Status mine = wrong_shard;
  if (mine && steps->front() != std::to_string(state.state.step)) {
    mine = Error{ErrorCode::Mismatch,
                 fmt::format("checkpoint: it saves step {}, rank 0 step {}", state.state.step, steps->front())};
  }
  WREATH_TRY(ranks.agree(mine));
  const Status made = leads ? guarded([&] { return make_files(); }) : Status();
  const Result<std::vector<std::string>> folders = ranks.gather(hidden);
  if (!folders) return folders.error();
  hidden = folders->front();
  Status done = ranks.agree(made);
  if (done) {
    // A rank that does not find the folder there is on another file system.
    done = ranks.agree(guarded([&]() -> Status {
      if (std::filesystem::exists(hidden + "/" + kStateFile)) return {};
      return wrong(
          fmt::format("{} is not there, which rank 0 has made: all ranks must see one folder, on a file system "
                      "that their hosts share",
                      hidden));
    }));
  }
  if (done) done = ranks.agree(ranks.take_turn(options.writers, [&] { return write_files(); }));
  if (done) return ranks.agree(leads ? guarded([&] { return finish(); }) : Status());
  std::error_code ignored;
  if (leads && !hidden.empty()) std::filesystem::remove_all(hidden, ignored);
  return done;
}

Checkpointer::Checkpointer(std::unique_ptr<Job> job) : job_(std::move(job)) {}

Checkpointer::~Checkpointer() {
  if (job_->thread.joinable()) job_->thread.join();
}

Result<std::unique_ptr<Checkpointer>> Checkpointer::create(Communicator& world, const std::string& folder,
                                                           const Shard& shard, MemoryAccounting& memory,
                                                           const CheckpointOptions& options) {
  Result<Agreement> ranks = Agreement::create(world);
  if (!ranks) return ranks.error();
  auto job = std::make_unique<Job>();
  job->ranks = std::move(*ranks);
  job->folder = folder;
  job->options = options;
  Result<ShardLayout> layout = agree_on_layout(job->ranks, shard, check_options(options));
  if (!layout) return layout.error();
  job->layout = std::move(*layout);
  Result<ShardPlan> plan = plan_save(job->ranks, shard.pieces);
  if (!plan) return plan.error();
  job->plan = std::move(*plan);
  job->state.moments = job->layout.moments();
  WREATH_TRY(job->ranks.agree(guarded([&]() -> Status {
    Status writable = job->ranks.rank() == 0 ? check_folder(folder) : Status();
    if (!writable) return writable;
    Result<FileSet> model = divide(kModelFiles, job->layout.tensors(job->plan, 0, 1), options.file_bytes);
    if (!model) return model.error();
    job->model = std::move(*model);
    const std::size_t arrays = job->layout.arrays();
    Result<FileSet> optimizer = divide(kOptimizerFiles, job->layout.tensors(job->plan, 1, arrays), options.file_bytes);
    if (!optimizer) return optimizer.error();
    job->optimizer = std::move(*optimizer);
    job->copies = Buffer<float>(memory, MemoryTag::Checkpoint, static_cast<std::size_t>(job->plan.count) * arrays);
    return {};
  })));
  return std::unique_ptr<Checkpointer>(new Checkpointer(std::move(job)));
}

Status Checkpointer::save(const TrainingState& state, const Shard& shard) {
  WREATH_TRY(wait());
  const Clock::time_point start = Clock::now();
  job_->state.state = state;
  job_->wrong_shard = job_->layout.check(shard);
  if (job_->wrong_shard) job_->copy(shard);
  job_->writing = true;
  try {
    job_->thread = std::thread([job = job_.get()] {
      const Clock::time_point began = Clock::now();
      ::pthread_setname_np(::pthread_self(), "wreath-save");
      job->status = guarded([&] { return job->write(); });
      job->writing_ns = ns_since(began);
      job->writing = false;
    });
  } catch (const std::system_error& refused) {
    job_->writing = false;
    return Error{ErrorCode::System,
                 std::string("a checkpoint: cannot start the thread that writes it: ") + refused.what()};
  }
  times_ = {ns_since(start), 0, static_cast<std::int64_t>(job_->copies.size() * sizeof(float))};
  return {};
}

Status Checkpointer::wait() {
  if (!job_->thread.joinable()) return {};
  job_->thread.join();
  times_.writing_ns = job_->writing_ns;
  return std::exchange(job_->status, Status());
}

bool Checkpointer::writing() const noexcept { return job_->writing; }

}  // namespace wreath::training
