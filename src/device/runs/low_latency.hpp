// All_reduces without a driver: ranks agree on them when they link, and the progress thread looks whether one has ended
// early.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "src/device/runs/low_latency_calls.hpp"
#include "src/engine/undriven.hpp"

namespace wreath {

class Engine;

class LowLatency final : public Undriven {
 public:
  // Links them, where the options want them: the engine then has them on all ranks or on none. An error is the
  // communicator's: a peer does not answer.
  static Status link(Engine& engine);

  bool takes(const Call& call) const override { return calls_->takes(call); }
  Result<bool> begin(Operation& operation) override;
  std::string plan_text(const Query& query) const override;
  bool watch() override;
  bool in_flight() override { return calls_->in_flight(); }
  void stop() override { calls_->stop(); }

  // Waits for a call behind which `passed` is.
  Status wait(Event& passed, std::int64_t timeout_ms);
  // Around the launch of a graph that has such calls.
  Status before_graph(Stream& stream) { return calls_->before_graph(stream); }
  Status after_graph(Stream& stream);

 private:
  LowLatency(Engine& engine, std::unique_ptr<LowLatencyCalls> calls) : engine_(engine), calls_(std::move(calls)) {}
  void expect();
  void look_for_failure();
  void look_for_leavers(std::int64_t now_ns);

  Engine& engine_;
  std::unique_ptr<LowLatencyCalls> calls_;
  std::atomic<bool> watches_{false};  // a call may be in flight
  std::int64_t watched_ns_ = 0;       // by the progress thread
  std::int64_t left_ns_ = 0;          // since when a call is in flight whose peer has left; 0: none is
};

}  // namespace wreath
