// This file makes the data-parallel strategies by name: DistributedDataParallel, ZeroRedundancyOptimizer and
// FullyShardedDataParallel.
//
// Li et al., "PyTorch Distributed: experiences on accelerating data parallel training", VLDB 2020 (buckets, overlap);
// Rajbhandari et al., "ZeRO: memory optimizations toward training trillion parameter models", SC 2020 (stages).
#pragma once

#include <memory>

#include "training/compute/memory.hpp"
#include "training/parameters/strategy.hpp"
#include "training/parameters/strategy_options.hpp"

namespace wreath::training {

struct HybridGroups {
  std::unique_ptr<Group> shards;     // "shards": ranks beside each other
  std::unique_ptr<Group> replicate;  // "replicate"
};
// Makes the groups for hybrid sharding. All ranks of `replicas` call it with the same number, which divides theirs.
// Otherwise InvalidArgument is thrown.
HybridGroups make_hybrid_groups(Group& replicas, int shard_ranks);

// Gives the parameters memory and their initial values (Initializer), which are the same on all ranks by construction.
// Parameters, groups and accounting outlive the strategy. Throws Exception: InvalidArgument for options that make no
// sense. The strategy throws InvalidUsage that names a call which its caller left out (strategy.hpp).
std::unique_ptr<DataParallel> make_data_parallel(ParameterList& parameters, const DataParallelGroups& groups,
                                                 MemoryAccounting& memory, const DataParallelOptions& options);

}  // namespace wreath::training
