// Runs the calls of ranks as grids of blocks on the host device.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/device/library_device.hpp"
#include "src/executor/block/kernels.hpp"
#include "src/executor/block/run_lanes.hpp"
#include "src/schedule/lower.hpp"
#include "tests/unit/executor/job.hpp"

namespace wreath {

// Holds one rank's grid, which has a block for each lane.
struct RankGrid {
  std::vector<LaneState> lanes;
  std::vector<DeviceSendFifo> sends;
  std::vector<DeviceRecvFifo> recvs;
  std::vector<SendFifo*> targets;
  std::vector<RecvFifo*> sources;
  LaneRun run{};
  std::unique_ptr<Stream> stream;
};

inline LibraryDevice& host() { return static_cast<LibraryDevice&>(host_device()); }

// Launches the grid's lanes, which go on from wherever they are.
inline void launch_lanes(RankGrid& grid, int threads) {
  const int blocks = static_cast<int>(grid.lanes.size());
  if (blocks == 0) return;
  const bool steps = grid.run.operation.loop == HandwrittenLoop::None;
  host()
      .launch(*grid.stream, steps ? run_lanes_kernel() : run_handwritten_kernel(),
              {blocks, threads, &grid.run, sizeof grid.run})
      .value();
}

inline void launch(RankGrid& grid, Plan& plan, const RankCall& call, int threads) {
  grid.run.arithmetic = call.arithmetic;
  grid.run.operation = begin_operation(plan, call.state, call.arithmetic);
  for (const SendFifo* fifo : plan.targets) grid.sends.push_back({*fifo});
  for (const RecvFifo* fifo : plan.sources) grid.recvs.push_back({*fifo});
  for (DeviceSendFifo& fifo : grid.sends) grid.targets.push_back(&fifo);
  for (DeviceRecvFifo& fifo : grid.recvs) grid.sources.push_back(&fifo);
  grid.run.operation.targets = grid.targets.data();
  grid.run.operation.sources = grid.sources.data();
  for (std::size_t lane = 0; lane < plan.lowered.lanes.size(); ++lane) {
    grid.lanes.push_back(begin_lane(plan, grid.run.operation, lane));
  }
  grid.run.lanes = grid.lanes.data();
  launch_lanes(grid, threads);
}

// Copies the grid's ends back into the plan, which goes on where the grid has left them.
inline void give_back(const RankGrid& grid, Plan& plan) {
  for (std::size_t i = 0; i < grid.sends.size(); ++i) *plan.targets[i] = grid.sends[i];
  for (std::size_t i = 0; i < grid.recvs.size(); ++i) *plan.sources[i] = grid.recvs[i];
}

inline std::string unfinished(const std::vector<RankGrid>& grids) {
  for (std::size_t rank = 0; rank < grids.size(); ++rank) {
    for (const LaneState& lane : grids[rank].lanes) {
      if (!lane.done) return "rank " + std::to_string(rank) + " lane " + std::to_string(lane.index) + " is not done";
    }
  }
  return {};
}

inline std::vector<Lowered> lower_ranks(const Algorithm& algorithm, const Problem& problem, int data_lanes) {
  std::vector<Lowered> programs;
  for (Rank rank = 0; rank < problem.ranks; ++rank) {
    programs.push_back(std::move(lower(algorithm.build(problem, rank), rank, data_lanes)).value());
  }
  return programs;
}

inline std::vector<JobShape> shapes(const Algorithm& algorithm, int ranks) {
  const auto n = static_cast<std::uint64_t>(ranks);
  if (algorithm.collective == Collective::Barrier) return {{.dtype = DataType::Uint8, .op = ReduceOp::Max}};
  std::vector<JobShape> all;
  const std::uint64_t share = moves_blocks(algorithm.collective) ? 1 : n;
  all.push_back({.dtype = DataType::Uint8, .count = 300 * share + 1});
  if (reduces(algorithm.collective)) {
    all[0].dtype = DataType::Float32;
    all.push_back({.dtype = DataType::BFloat16, .op = ReduceOp::PremultipliedSum, .count = 80 * share + 1});
    all.push_back({.dtype = DataType::Float16, .op = ReduceOp::Avg, .count = 100 * share, .in_place = true});
  }
  if ((algorithm.traits & kVarying) != 0) {
    JobShape varying{.dtype = DataType::Int32, .op = ReduceOp::Max};
    const std::uint64_t blocks = algorithm.collective == Collective::AllToAll ? n * n : n;
    for (std::uint64_t i = 0; i < blocks; ++i) varying.block_counts.push_back(i * 37 % 130);
    all.push_back(varying);
  }
  return all;
}

}  // namespace wreath
