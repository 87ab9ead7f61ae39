// DataParallelOptions has the choices of a program for its data-parallel strategy. DataParallelGroups has the groups
// that the strategy communicates in.
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

// Starts the reduction of a bucket's gradients over the group, in place, and returns a function that ends it. That
// function is called once and returns when the bucket holds the result. Both are called in the same order on all ranks.
using CommunicationHook =
    std::function<std::function<void()>(std::span<float> bucket, Group& group, const Reduction& reduction)>;

struct DataParallelOptions {
  // The stage. 0 is DistributedDataParallel, with all state whole. ZeroRedundancyOptimizer is 1, with optimizer state
  // divided, and 2, with gradients divided, too. FullyShardedDataParallel is 3, with weights divided, too.
  int zero_stage = 0;
  // In stages 0 and 1 gradients are reduced in buckets of up to so many bytes, in reverse order of registration. A
  // parameter that is larger has a bucket of its own. In stages 2 and 3 a unit is a bucket.
  std::size_t first_bucket_bytes = std::size_t{1} << 20;
  std::size_t bucket_bytes = std::size_t{25} << 20;
  bool mean = true;  // over the replicas; false: the sum
  // True reduces gradients while backward goes on. With false, stages 0 and 1 reduce them in finish_backward, and
  // stages 2 and 3 at once. The bits are the same.
  bool overlap = true;
  std::uint64_t seed = 1337;
  // In stage 3, so many units ahead of the one in use are gathered: 0 .. 2.
  int prefetch = 1;
  // Unit u also uses the parameters of the units also_uses[u] (a head that shares the embedding's weight). It is
  // shorter than the units, or empty, where the later units use no others. Gradients are ready when those of all their
  // users are.
  std::vector<std::vector<int>> also_uses;
  CommunicationHook hook;  // stage 0: instead of all_reduce
  // The 16-bit format of the working weights, or empty for float32 throughout. Working weights are kept in it
  // (MemoryTag::Parameters, 2 bytes each), and both weights and gradients are sent in it. The weights of a unit in use
  // are widened (MemoryTag::Gathered). pieces() are float32 master weights, divided from stage 1 on
  // (MemoryTag::Optimizer). Gradients add up in float32.
  std::optional<DataType> half;
  // The folder of a file that holds the weights in stage 3 (NVMe). The file is read one unit further ahead than
  // prefetch goes. With `half` the file holds the master weights, and the working weights stay in memory. Empty: all
  // are in memory.
  std::string offload_folder;
};

// The groups of this rank's mesh. Partial gradients are summed over `tensor`, tied ones over `embedding`, then all over
// `replicas`. With hybrid sharding (stage 3) weights are divided over the `shards` ranks and repeated over `replicate`.
// There, replicas.rank() == replicate.rank() * shards.ranks() + shards.rank().
struct DataParallelGroups {
  Group& replicas;
  Group& tensor;
  Group& embedding;
  Group* shards = nullptr;
  Group* replicate = nullptr;
};

}  // namespace wreath::training
