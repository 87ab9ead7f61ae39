// This is the run of lanes on this rank's CPU: steps of schedules, sends and receives, and the handwritten loops.
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
  // Peers read buffers of so many bytes where they lie, if they map that memory.
  std::size_t read_in_place_bytes = ~std::size_t{0};
  // The outputs that are written past the caches; none are before it is set.
  StreamedBytes streamed_bytes;
  // This becomes HostProcessor::read_device, since a peer of this process may send from device memory.
  int (*read_device)(std::uint64_t device, std::byte* target, const std::byte* source, std::size_t bytes) = nullptr;
};

class LanesRun : public Run {
 public:
  LanesRun(Engine& engine, LaneResources& resources) : engine_(engine), resources_(resources) {}
  Result<Started> start() override;
  Advance advance() override;
  RunFault fault() const override;
  std::optional<Rank> waiting_for() const override;
  std::vector<Question> questions() const override;
  bool expects(Rank peer) const override { return resources_.lanes.waits_for(peer); }
  WireBytes moved() const override { return {resources_.lanes.sent_bytes(), 0}; }

 protected:
  Engine& engine() const { return engine_; }
  LaneResources& resources() const { return resources_; }

  // A run of lanes that are not on the host overrides the functions below.

  // Returns the messages with the addresses that the lanes use.
  virtual const ExchangeMessages& placed() { return operation().messages; }
  // Names `buffer`, which lies at `memory`, for peers, so that they read it where it is.
  virtual void name_memory(Launch& launch, Buffer buffer, std::span<const std::byte> memory) const;
  virtual std::size_t single_copy_bytes(SingleCopyCall call) const;
  virtual Status begin(Launch& launch);

 private:
  HandwrittenLoop loop() const;
  Result<Launch> launch();
  Result<Launch> launch_call();
  Result<Launch> launch_messages();
  void measure_buffers(Launch& launch, std::uint32_t parts) const;

  Engine& engine_;
  LaneResources& resources_;
};

}  // namespace wreath
