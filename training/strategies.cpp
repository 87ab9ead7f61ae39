// This file holds the table of data-parallel strategies and checks their options.
#include "training/strategies.hpp"

#include <string>

#include "training/data_parallel/bucket_reducer.hpp"
#include "training/data_parallel/half_replicated_weights.hpp"
#include "training/data_parallel/replicated_weights.hpp"
#include "training/data_parallel/step_order.hpp"
#include "training/zero/fully_sharded.hpp"
#include "training/zero/sharded_gradients.hpp"

namespace wreath::training {

namespace {

[[noreturn]] void refuse_options(const std::string& message) { throw Exception({ErrorCode::InvalidArgument, message}); }

void check(const DataParallelGroups& groups, const DataParallelOptions& options) {
  if (options.zero_stage < 0 || options.zero_stage > 3) {
    refuse_options("zero_stage is " + std::to_string(options.zero_stage) + ", not 0 .. 3");
  }
  if (options.hook && options.zero_stage != 0) refuse_options("a communication hook is for zero_stage 0 alone");
  if (options.half && options.hook)
    refuse_options("a communication hook is for float32 alone: gradients of 2 bytes move so");
  if (options.half && *options.half != DataType::BFloat16 && *options.half != DataType::Float16) {
    refuse_options("half is a format of 8 bits, not of 16");
  }
  if (options.prefetch < 0 || options.prefetch > 2) {
    refuse_options("prefetch is " + std::to_string(options.prefetch) + ", not 0 .. 2");
  }
  if (!options.offload_folder.empty() && options.zero_stage != 3)
    refuse_options("offload of weights is for zero_stage 3 alone");
  if ((groups.shards == nullptr) != (groups.replicate == nullptr)) {
    refuse_options("hybrid sharding takes both groups, shards and replicate");
  }
  if (groups.shards == nullptr) return;
  if (options.zero_stage != 3) refuse_options("hybrid sharding is for zero_stage 3 alone");
  const int shards = groups.shards->ranks();
  if (shards * groups.replicate->ranks() != groups.replicas.ranks() ||
      groups.replicate->rank() * shards + groups.shards->rank() != groups.replicas.rank()) {
    refuse_options("hybrid sharding of " + std::to_string(groups.replicas.ranks()) + " replicas over " +
                   std::to_string(shards) + " shards x " + std::to_string(groups.replicate->ranks()) +
                   " copies: ranks are not replicate * shards + shard");
  }
}

Share share_of(const Group& group) {
  return {static_cast<std::size_t>(group.rank()), static_cast<std::size_t>(group.ranks())};
}

std::unique_ptr<Group> split(const std::string& name, Group& group, int color, int key) {
  if (group.alone()) return std::make_unique<Group>(name, group.accounting());
  Communicator part = group.communicator().split(color, key).value();
  if (part.ranks() == 1) return std::make_unique<Group>(name, group.accounting());
  return std::make_unique<Group>(name, std::make_shared<Communicator>(std::move(part)), group.accounting());
}

}  // namespace

HybridGroups make_hybrid_groups(Group& replicas, int shard_ranks) {
  if (shard_ranks < 1 || replicas.ranks() % shard_ranks != 0) {
    refuse_options("hybrid sharding over " + std::to_string(shard_ranks) + " ranks: they do not divide " +
                   std::to_string(replicas.ranks()) + " replicas");
  }
  const int shard = replicas.rank() % shard_ranks;
  const int copy = replicas.rank() / shard_ranks;
  HybridGroups groups;
  groups.shards = split("shards", replicas, copy, shard);
  groups.replicate = split("replicate", replicas, shard, copy);
  return groups;
}

namespace {

std::unique_ptr<DataParallel> make_replicated(std::unique_ptr<Layout> layout,
                                              std::unique_ptr<GradientReducer> gradients, Group& replicas,
                                              const Share& share, MemoryAccounting& memory,
                                              const DataParallelOptions& options) {
  if (options.half) {
    return std::make_unique<HalfReplicatedWeights>(std::move(layout), std::move(gradients), replicas, share, memory,
                                                   options);
  }
  return std::make_unique<FloatReplicatedWeights>(std::move(layout), std::move(gradients), replicas, share, memory,
                                                  options.seed);
}

std::unique_ptr<DataParallel> make_sharded(ParameterList& parameters, const DataParallelGroups& groups,
                                           MemoryAccounting& memory, const DataParallelOptions& options) {
  const bool hybrid = groups.shards != nullptr;
  const ShardGroups shard_groups{hybrid ? *groups.shards : groups.replicas, hybrid ? groups.replicate : nullptr};
  Share share = share_of(shard_groups.shards);
  if (hybrid) {
    const Share copy = share_of(*groups.replicate);
    share = {share.part * copy.parts + copy.part, share.parts * copy.parts};
  }
  auto layout =
      std::make_unique<Layout>(parameters, groups, options, LayoutOptions{.by_unit = true, .parts = share.parts});
  auto gradients = std::make_unique<ShardedGradients>(*layout, groups, shard_groups, memory, options, share);
  if (options.zero_stage == 2) {
    return make_replicated(std::move(layout), std::move(gradients), groups.replicas, share, memory, options);
  }
  return std::make_unique<FullyShardedDataParallel>(std::move(layout), std::move(gradients), shard_groups, share,
                                                    memory, options);
}

std::unique_ptr<DataParallel> make_strategy(ParameterList& parameters, const DataParallelGroups& groups,
                                            MemoryAccounting& memory, const DataParallelOptions& options) {
  if (options.zero_stage >= 2) return make_sharded(parameters, groups, memory, options);
  const Share share = options.zero_stage == 0 ? Share{} : share_of(groups.replicas);
  const LayoutOptions by_bytes{.by_unit = false,
                               .first_bucket_bytes = options.first_bucket_bytes,
                               .bucket_bytes = options.bucket_bytes,
                               .parts = share.parts};
  auto layout = std::make_unique<Layout>(parameters, groups, options, by_bytes);
  auto gradients = std::make_unique<BucketReducer>(*layout, groups, memory, options, share);
  return make_replicated(std::move(layout), std::move(gradients), groups.replicas, share, memory, options);
}

}  // namespace

std::unique_ptr<DataParallel> make_data_parallel(ParameterList& parameters, const DataParallelGroups& groups,
                                                 MemoryAccounting& memory, const DataParallelOptions& options) {
  check(groups, options);
  return std::make_unique<StepOrder>(make_strategy(parameters, groups, memory, options), parameters.units());
}

}  // namespace wreath::training
