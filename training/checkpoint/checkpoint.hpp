// This file declares checkpoints: the whole training state in one folder. All ranks write it beside the training, and
// any mesh can load it.
//
// FOLDER/step-000100/
//   model-00001-of-00002.safetensors ...      whole weights under their parameters' names
//   model.safetensors.index.json              the file of each weight; HF's transformers open it
//   optimizer-00001-of-00004.safetensors ...  whole moments, "wte.weight.exp_avg", with an index of their own
//   training_state.json                       TrainingState
// Names are those of HF's hub file of GPT-2 ("h.0.attn.c_attn.weight", without "transformer."). They are the
// parameters' own, and transformers read names with and without the prefix. A tied head is stored once, as the
// embedding. The files' bytes depend on the state alone, not on the mesh that wrote them.
//
// All ranks must see FOLDER. Several hosts need a shared file system, which keeps bytes that two hosts write beside
// each other. A rank that does not see it ends the save with an error on all ranks. One job at a time saves into a
// folder.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "training/compute/memory.hpp"
#include "training/optimizer/optimizer.hpp"
#include "training/parameters/strategy.hpp"
#include "wreath/communicator.hpp"

namespace wreath::training {

// The state besides the tensors, equal on all ranks.
struct TrainingState {
  std::int64_t step = 0;
  std::int64_t optimizer_steps = 0;
  // The seed of the random streams, which are functions of seed, name and step.
  std::uint64_t seed = 0;
  std::int64_t data_cursor = 0;
  std::map<std::string, std::string> text;  // whatever else the program wants back
  bool operator==(const TrainingState&) const = default;
};

// This rank's part of the tensors. Moments are as long as the pieces laid end to end. Ranks may hold the same elements.
struct Shard {
  std::span<const Piece> pieces;
  // Their names are the same on all ranks.
  std::vector<Optimizer::Moment> moments;
};

struct CheckpointOptions {
  // So many ranks write at the same time.
  int writers = 8;
  std::uint64_t file_bytes = 5'000'000'000;  // of tensors in a file
  // The number of newest checkpoints up to the saved step that stay; 0 keeps all.
  int keep = 0;
  // More files of the folder, by name, for example "config.json".
  std::map<std::string, std::string> documents;
};

// The times and bytes of the last save.
struct SaveTimes {
  // The time that save() took to copy the shard.
  std::int64_t stall_ns = 0;
  // The time in the background, up to the new name. It is set after wait().
  std::int64_t writing_ns = 0;
  std::int64_t bytes = 0;  // that this rank copied and wrote
};

// Saves a shard of one layout. It belongs to one rank and one thread. Every rank makes the same calls in the same
// order. It holds a copy of the elements that this rank writes (MemoryTag::Checkpoint); of elements that several ranks
// hold, one rank writes. It also holds a duplicate of the world's communicator, over which its own thread agrees with
// the others.
class Checkpointer {
 public:
  // Makes the Checkpointer, and the folder where it is missing. Errors, on all ranks, are a malformed shard (plan.hpp),
  // options out of range, and a folder that rank 0 cannot write.
  static Result<std::unique_ptr<Checkpointer>> create(Communicator& world, const std::string& folder,
                                                      const Shard& shard, MemoryAccounting& memory,
                                                      const CheckpointOptions& options = {});
  // Waits for a save in flight.
  ~Checkpointer();

  // Copies the shard and returns; a thread writes the copy. It writes to a hidden folder, syncs the files and then
  // renames the folder in one step. No crash so leaves half a checkpoint under a valid name. Remains of dead saves are
  // removed, and a step that is already saved is replaced. With a save in flight it waits for that one. Where that one
  // failed, its error is returned and nothing is begun. Errors of the shard here (other pieces than create()'s) fail
  // the save on all ranks.
  Status save(const TrainingState& state, const Shard& shard);
  // Returns when the last save is in its folder. It returns the save's error, once.
  Status wait();
  // Returns whether a save is in progress that wait() would wait for. It tells about this rank; others may be earlier
  // or later.
  bool writing() const noexcept;
  const SaveTimes& times() const noexcept { return times_; }

 private:
  struct Job;
  explicit Checkpointer(std::unique_ptr<Job> job);
  std::unique_ptr<Job> job_;
  SaveTimes times_;
};

// Returns the folder of the checkpoint of the highest step, or nullopt where there is none. Remains of a dead save do
// not count.
Result<std::optional<std::string>> latest_checkpoint(const std::string& folder);

// Reads the state that a checkpoint keeps beside its tensors. This rank reads it by itself.
Result<TrainingState> read_state(const std::string& checkpoint);

struct LoadOptions {
  bool weights_only = false;  // moments and training_state.json may be absent
  // The endings of weights that the model need not know, for example ".attn.bias" of HF's GPT-2.
  std::vector<std::string> ignored_endings;
};

// Reads `checkpoint` ("FOLDER/step-000100") into the shard, from each file the ranges that this rank holds. Padding
// becomes zero. Every rank calls it with the same folder, whatever mesh wrote it. DataParallel::finish_step() then
// copies the weights to the ranks that need them, and Optimizer::set_steps() takes optimizer_steps.
//
// Errors, on all ranks, name file and tensor. They are a tensor that is missing, unknown, of another shape or not F32,
// and a file that is torn or foreign. The shard stays unchanged until all files' headers were found right.
Result<TrainingState> load_checkpoint(Communicator& world, const std::string& checkpoint, const Shard& shard,
                                      const LoadOptions& options = {});

}  // namespace wreath::training
