// GridRun runs lanes as blocks of a device, on its memory.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "src/device/runs/lane_grid.hpp"
#include "src/engine/lanes_run.hpp"

namespace wreath {

class GridRun final : public LanesRun {
 public:
  using LanesRun::LanesRun;
  // Sets the operation. All its buffers are memory of `device`, which also has `grid`.
  void set(Operation& operation, LibraryDevice& device, LaneGrid& grid);

  Advance advance() override;
  RunFault fault() const override;
  std::optional<Rank> waiting_for() const override { return grid_->waiting_for(); }
  bool expects_wire() const override { return true; }
  bool stop() override { return grid_->stop(); }
  // Returns a short time, since blocks wake no peer and move no wire.
  std::optional<std::int64_t> longest_sleep_ns() const override;

 protected:
  HandwrittenLoop loop() const override;
  const ExchangeMessages& placed() override;
  void name_memory(Launch& launch, Buffer buffer, std::span<const std::byte> memory) const override;
  std::size_t single_copy_bytes(SingleCopyCall call) const override;
  Status begin(Launch& launch) override;

 private:
  std::vector<DeviceRange> ranges() const;

  LibraryDevice* device_ = nullptr;
  LaneGrid* grid_ = nullptr;
  ExchangeMessages placed_;
  std::optional<Error> error_;
  mutable bool told_staged_ = false;
  mutable bool told_unreached_ = false;
};

}  // namespace wreath
