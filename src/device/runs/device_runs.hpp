// Runs of operations on memory of a device: by its blocks, or by another run on copies in memory of the host.
#pragma once

#include <map>
#include <memory>

#include "src/device/runs/grid_run.hpp"
#include "src/device/runs/lane_grid.hpp"
#include "src/device/runs/staged_run.hpp"
#include "src/engine/run.hpp"

namespace wreath {

// Where the buffers of an operation are.
struct CallMemory {
  LibraryDevice* device = nullptr;  // whose it is
  bool on_device = false;
  bool on_host = false;

  // Adds a buffer; null is none.
  void add(const void* data);
};

class DeviceRuns final : public RunFactory {
 public:
  explicit DeviceRuns(Engine& engine);

  // Loads kernels before any stream waits for a call: a driver may load them only where nothing runs, and lets nobody
  // else in meanwhile.
  void prepare() override;
  // Links all_reduces without a driver, and makes the grid of the communicator's device before the first call: a driver
  // whose streams wait is then not asked for what a grid takes. The host device makes its own when it is needed.
  Status link() override;
  Run* run_for(Operation& operation, RunRows below) override;

 private:
  CallMemory memory_of(const Operation& operation) const;
  LaneGrid* grid_for(const Operation& operation, const CallMemory& memory);
  LaneGrid* grid_of(LibraryDevice& device);
  Result<std::unique_ptr<LaneGrid>> make_grid(LibraryDevice& device);

  Engine& engine_;
  std::map<LibraryDevice*, std::unique_ptr<LaneGrid>> grids_;  // null: its blocks cannot run lanes
  GridRun grid_run_;
  StagedRun staged_run_;
  bool warned_of_copies_ = false;
};

// Whether ranks in other processes use the device of this one.
bool is_shared_with_processes(const Engine& engine, const LibraryDevice& device);

}  // namespace wreath
