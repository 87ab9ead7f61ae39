// DataParallelOptions: what a program chooses of its data-parallel strategy, and the groups that the strategy moves
// data in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "training/compute/convert.hpp"
#include "training/mesh/group.hpp"

namespace wreath::training {

// Starts the reduction of a bucket's gradients over the group, in place, and returns what ends it: that is called once
// and returns when the bucket holds the result. Calls of both are in the same order on all ranks.
using CommunicationHook =
    std::function<std::function<void()>(std::span<float> bucket, Group& group, const Reduction& reduction)>;

struct DataParallelOptions {
  // 0: DistributedDataParallel, all whole. ZeroRedundancyOptimizer 1: optimizer state divided; 2: gradients, too.
  // 3: FullyShardedDataParallel, weights, too.
  int zero_stage = 0;
  // Stages 0 and 1: gradients move in buckets of up to so many bytes, in reverse order of registration (a parameter
  // that is larger has its own). Stages 2 and 3: a unit is a bucket.
  std::size_t first_bucket_bytes = std::size_t{1} << 20;
  std::size_t bucket_bytes = std::size_t{25} << 20;
  bool mean = true;     // over the replicas; false: the sum
  bool overlap = true;  // gradients move while backward goes on. false: stages 0 and 1 in finish_backward, stages 2 and
                        // 3 at once; the same bits
  std::uint64_t seed = 1337;
  int prefetch = 1;  // stage 3: units gathered ahead of the one in use, 0 .. 2
  // Unit u also uses the parameters of the units also_uses[u] (a head that shares the embedding's weight); shorter
  // than the units, or empty, where there are none. Their gradients are ready when all their users' are.
  std::vector<std::vector<int>> also_uses;
  CommunicationHook hook;  // stage 0: instead of all_reduce
  // A 16-bit format: working weights are kept in it (MemoryTag::Parameters, 2 bytes each) and, as gradients do, move in
  // it; those of a unit in use are widened (MemoryTag::Gathered). pieces() are float32 master weights, divided from
  // stage 1 on (MemoryTag::Optimizer). Gradients add up in float32. Empty: float32 throughout.
  std::optional<DataType> half;
  // Stage 3: weights lie in a file in this folder (NVMe), which is read a unit further ahead than prefetch goes; with
  // `half` the master weights do, and the working weights stay in memory. Empty: in memory.
  std::string offload_folder;
};

// Groups of this rank's mesh. Partial gradients are summed over `tensor`, tied ones over `embedding`, then all over
// `replicas`. Hybrid sharding (stage 3): weights are divided over the `shards` ranks and repeated over `replicate`,
// replicas.rank() == replicate.rank() * shards.ranks() + shards.rank().
struct DataParallelGroups {
  Group& replicas;
  Group& tensor;
  Group& embedding;
  Group* shards = nullptr;
  Group* replicate = nullptr;
};

}  // namespace wreath::training
