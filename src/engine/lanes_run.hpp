// These are the runs of lanes on this rank's CPU: steps of schedules, sends and receives, and the handwritten loops of
// both.
#pragma once

#include <memory>
#include <span>

#include "src/engine/exchange_lanes.hpp"
#include "src/engine/launch.hpp"
#include "src/engine/operation.hpp"
#include "src/engine/plans.hpp"
#include "src/engine/run.hpp"
#include "src/tuner/single_copy.hpp"
#include "src/tuner/streaming.hpp"

namespace wreath {

// All runs of lanes share these, since the lanes of one operation run at a time.
struct LaneResources {
  LaneScheduler lanes;
  std::unique_ptr<Plans> plans;
  ExchangeLanes exchange;
  // SingleCopy decides which messages peers read out of this process.
  SingleCopy single_copy;
  // Outputs of at least so many bytes are written past the caches.
  std::uint64_t stream_bytes = kNothingStreams;
  // This becomes HostProcessor::read_device, since a peer of this process may send from device memory.
  int (*read_device)(std::uint64_t device, std::byte* target, const std::byte* source, std::size_t bytes) = nullptr;
};

class LanesRun : public Run {
 public:
  LanesRun(Engine& engine, LaneResources& resources) : engine_(engine), resources_(resources) {}
  void set(Operation& operation) { operation_ = &operation; }

  Result<Started> start() override;
  Advance advance() override;
  RunFault fault() const override;
  std::optional<Rank> waiting_for() const override;
  std::vector<Question> questions() const override;
  bool expects_wire() const override { return resources_.lanes.waits(); }
  WireBytes moved() const override { return {resources_.lanes.sent_bytes(), 0}; }

 protected:
  Operation& operation() const { return *operation_; }
  Engine& engine() const { return engine_; }
  LaneResources& resources() const { return resources_; }

  // A run of lanes that are not on the host overrides the functions below.

  // Returns the loop that moves the messages, or None where the steps move them.
  virtual HandwrittenLoop loop() const { return HandwrittenLoop::None; }
  // Returns the messages with the addresses that the lanes use.
  virtual const ExchangeMessages& placed() { return operation_->messages; }
  // Names `buffer`, which lies at `memory`, for peers, so that they read it where it is.
  virtual void name_memory(Launch& launch, Buffer buffer, std::span<const std::byte> memory) const;
  virtual std::size_t single_copy_bytes(SingleCopyCall call) const;
  virtual Status begin(Launch& launch);

 private:
  Result<Launch> launch();
  Result<Launch> launch_call();
  Result<Launch> launch_messages();
  void measure_buffers(Launch& launch, std::uint32_t parts) const;

  Engine& engine_;
  LaneResources& resources_;
  Operation* operation_ = nullptr;
};

// Returns the loop that the engine's options choose for an operation. None means that steps run it.
HandwrittenLoop loop_of(const Engine& engine, const Operation& operation);

class HandwrittenRun final : public LanesRun {
 public:
  using LanesRun::LanesRun;

 protected:
  HandwrittenLoop loop() const override { return loop_of(engine(), operation()); }
};

class LaneRuns final : public RunFactory {
 public:
  LaneRuns(Engine& engine, LaneResources& resources) : run_(engine, resources) {}
  Run* run_for(Operation& operation, RunRows /*below*/) override {
    run_.set(operation);
    return &run_;
  }

 private:
  LanesRun run_;
};

class HandwrittenRuns final : public RunFactory {
 public:
  HandwrittenRuns(Engine& engine, LaneResources& resources) : engine_(engine), run_(engine, resources) {}
  Run* run_for(Operation& operation, RunRows /*below*/) override {
    if (loop_of(engine_, operation) == HandwrittenLoop::None) return nullptr;
    run_.set(operation);
    return &run_;
  }

 private:
  Engine& engine_;
  HandwrittenRun run_;
};

}  // namespace wreath
