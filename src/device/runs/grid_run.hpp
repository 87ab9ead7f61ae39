// GridRun runs operations on memory of a device: as lanes that are its blocks, or by another run on copies in memory of
// the host.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "src/device/runs/lane_grid.hpp"
#include "src/device/runs/staged_run.hpp"
#include "src/engine/lanes_run.hpp"

namespace wreath {

class GridRun final : public LanesRun, public OuterRuns {
 public:
  // `own` is the device of the communicator, or null.
  GridRun(Engine& engine, LibraryDevice* own);

  // Loads kernels before any stream waits for a call. A device's driver may load them only where nothing runs, and
  // blocks all others meanwhile.
  void prepare() override;
  // Links all_reduces without a driver. It also makes the grid of the communicator's device before the first call. So
  // nobody asks the device's driver for a grid's needs while its streams wait. The host device's grid is made at its
  // first use.
  Status link() override;
  Run& run_for(Operation& operation, Run& own) override;

  Advance advance() override;
  RunFault fault() const override;
  std::optional<Rank> waiting_for() const override { return grid_->waiting_for(); }
  bool expects(Rank /*peer*/) const override { return true; }
  bool stop() override { return grid_->stop(); }
  // Returns a short time, since blocks wake no peer and move no wire.
  std::optional<std::int64_t> longest_sleep_ns() const override;

 protected:
  const ExchangeMessages& placed() override;
  void name_memory(Launch& launch, Buffer buffer, std::span<const std::byte> memory) const override;
  std::size_t single_copy_bytes(SingleCopyCall call) const override;
  Status begin(Launch& launch) override;

 private:
  struct CallMemory;

  std::vector<DeviceRange> ranges() const;
  CallMemory memory_of(const Operation& operation) const;
  LaneGrid* grid_for(const Operation& operation, const CallMemory& memory);
  LaneGrid* grid_of(LibraryDevice& device);
  Result<std::unique_ptr<LaneGrid>> make_grid(LibraryDevice& device);

  LibraryDevice* own_;
  // A device has null where its blocks cannot run lanes.
  std::map<LibraryDevice*, std::unique_ptr<LaneGrid>> grids_;
  StagedRun staged_run_;
  bool warned_of_copies_ = false;
  LibraryDevice* device_ = nullptr;
  LaneGrid* grid_ = nullptr;
  ExchangeMessages placed_;
  std::optional<Error> error_;
  mutable bool told_staged_ = false;
  mutable bool told_unreached_ = false;
};

// Says whether ranks in other processes use this rank's device.
bool is_shared_with_processes(const Engine& engine, const LibraryDevice& device);

}  // namespace wreath
