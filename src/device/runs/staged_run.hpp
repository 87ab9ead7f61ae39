// StagedRun is a run around another one. The host works on copies of buffers in memory of a device.
#pragma once

#include "src/device/runs/staged_buffers.hpp"
#include "src/engine/call_shape.hpp"
#include "src/engine/operation.hpp"
#include "src/engine/run.hpp"

namespace wreath {

class StagedRun final : public Run {
 public:
  explicit StagedRun(Place place) : place_(place) {}
  // Sets the operation and its run `inner`. The operation's buffers become the copies.
  void set(Operation& operation, Run& inner);

  Result<Started> start() override;
  // Copies results back when the inner run is done.
  Advance advance() override;
  RunFault fault() const override;
  std::optional<Rank> waiting_for() const override { return inner_->waiting_for(); }
  std::vector<Question> questions() const override { return inner_->questions(); }
  bool expects_wire() const override { return inner_->expects_wire(); }
  WireBytes moved() const override { return inner_->moved(); }
  Status end() override { return inner_->end(); }
  bool stop() override { return inner_->stop(); }
  std::optional<std::int64_t> longest_sleep_ns() const override { return inner_->longest_sleep_ns(); }

 private:
  Status copy_in();

  Place place_;
  Run* inner_ = nullptr;
  bool copied_ = false;
  StagedBuffers buffers_;
  std::optional<Error> error_;
};

}  // namespace wreath
