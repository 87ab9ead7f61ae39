// Checkpoints: the whole training state in one folder, written by all ranks beside the training and loaded on any mesh.
//
// FOLDER/step-000100/
//   model-00001-of-00002.safetensors ...      weights, whole, under their parameters' names
//   model.safetensors.index.json              which file holds which: HF's transformers open them
//   optimizer-00001-of-00004.safetensors ...  moments, whole, "wte.weight.exp_avg", with an index of their own
//   training_state.json                       TrainingState
// Names are those of HF's hub file of GPT-2 ("h.0.attn.c_attn.weight", without "transformer."): they are the
// parameters' own, and transformers read both. A tied head is stored once, as the embedding. The files' bytes depend on
// the state alone, not on the mesh that wrote them.
//
// All ranks must see FOLDER (several hosts: on a file system that they share, which keeps bytes that two hosts write
// beside each other); one that does not ends the save with an error on all ranks. One job at a time saves into a
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

// What is no tensor; equal on all ranks.
struct TrainingState {
  std::int64_t step = 0;
  std::int64_t optimizer_steps = 0;
  std::uint64_t seed = 0;  // of the random streams, which are functions of seed, name and step
  std::int64_t data_cursor = 0;
  std::map<std::string, std::string> text;  // whatever else the program wants back
  bool operator==(const TrainingState&) const = default;
};

// This rank's part of the tensors. Moments are as long as the pieces laid end to end. Ranks may hold the same elements.
struct Shard {
  std::span<const Piece> pieces;
  std::vector<Optimizer::Moment> moments;  // of the same names on all ranks
};

struct CheckpointOptions {
  int writers = 8;                               // ranks that write at the same time
  std::uint64_t file_bytes = 5'000'000'000;      // of tensors in a file
  int keep = 0;                                  // of the checkpoints up to the step saved, so many newest stay; 0: all
  std::map<std::string, std::string> documents;  // more files of the folder, by name: "config.json"
};

// Of the last save.
struct SaveTimes {
  std::int64_t waited_ns = 0;   // save(): for the one before
  std::int64_t stall_ns = 0;    // save(): for the copy of the shard
  std::int64_t writing_ns = 0;  // in the background, up to the new name; after wait()
  std::int64_t bytes = 0;       // that this rank copied and wrote
};

// Saves a shard of one layout. One rank's; of one thread. Every rank makes the same calls in the same order. It holds a
// copy of what this rank writes (MemoryTag::Checkpoint: of elements that several ranks hold, one rank's), and a
// duplicate of the world's communicator, over which its own thread agrees with the others.
class Checkpointer {
 public:
  // Makes the folder where it is missing. Errors, on all ranks: a shard that is none (plan.hpp), options out of range,
  // a folder that rank 0 cannot write.
  static Result<std::unique_ptr<Checkpointer>> create(Communicator& world, const std::string& folder,
                                                      const Shard& shard, MemoryAccounting& memory,
                                                      const CheckpointOptions& options = {});
  // Waits for a save in flight.
  ~Checkpointer();

  // Copies the shard and returns; a thread writes it: to a hidden folder, whose files are synced, and which then gets
  // its name in one step, so that no crash leaves half a checkpoint under a name that counts. What dead saves left is
  // removed. A step that is saved already is replaced. With a save in flight it waits for that one; where that has
  // failed, its error is returned and nothing is begun. Errors of the shard here (other pieces than create()'s) fail
  // the save on all ranks.
  Status save(const TrainingState& state, const Shard& shard);
  // Returns when the last save is in its folder; its error, once.
  Status wait();
  // Whether a save is going on that wait() would wait for. Of this rank: others may be earlier or later.
  bool writing() const noexcept;
  const SaveTimes& times() const noexcept { return times_; }

 private:
  struct Job;
  explicit Checkpointer(std::unique_ptr<Job> job);
  std::unique_ptr<Job> job_;
  SaveTimes times_;
};

// The folder of the checkpoint of the highest step; nullopt where there is none. What a dead save left does not count.
Result<std::optional<std::string>> latest_checkpoint(const std::string& folder);

// Reads what a checkpoint keeps beside its tensors. This rank reads it by itself.
Result<TrainingState> read_state(const std::string& checkpoint);

struct LoadOptions {
  bool weights_only = false;                 // moments and training_state.json may be absent
  std::vector<std::string> ignored_endings;  // of weights that the model need not know: ".attn.bias" of HF's GPT-2
};

// Reads `checkpoint` ("FOLDER/step-000100") into the shard: of each file the ranges that this rank holds. Padding
// becomes zero. Every rank calls it with the same folder, whatever mesh wrote it. DataParallel::finish_step() then
// brings the weights to who needs them, and Optimizer::set_steps() takes optimizer_steps.
//
// Errors, on all ranks, name file and tensor: one that is missing, unknown, of another shape or not F32; a file that is
// torn or none of ours. Until all files' headers are found right, the shard is as it was.
Result<TrainingState> load_checkpoint(Communicator& world, const std::string& checkpoint, const Shard& shard,
                                      const LoadOptions& options = {});

}  // namespace wreath::training
