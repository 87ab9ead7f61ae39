// LowLatency makes all_reduces without a driver. Ranks agree on them when they link. The progress thread looks whether
// one has ended early.
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
  // Links these calls on `device`, which may be null, where the options want them. The engine then has them on all
  // ranks or on none. An error belongs to the communicator: a peer does not answer.
  static Status link(Engine& engine, LibraryDevice* device);

  bool takes(const Call& call) const override { return calls_->takes(call); }
  Result<bool> begin(Operation& operation) override;
  std::string plan_text(const Query& query) const override;
  bool watch() override;
  bool in_flight() override { return calls_->in_flight(); }
  std::string_view unfinished() const override {
    return "a stream did not come to a small all_reduce, which will leave its buffers alone,";
  }
  void stop() override { calls_->stop(); }

  // Waits for a call that is over when `passed` has passed.
  Status wait(Event& passed, std::int64_t timeout_ms);
  // The caller calls these two before and after the launch of a graph that has such calls.
  Status before_graph(Stream& stream) { return calls_->before_graph(stream); }
  Status after_graph(Stream& stream);

 private:
  LowLatency(Engine& engine, std::unique_ptr<LowLatencyCalls> calls) : engine_(engine), calls_(std::move(calls)) {}
  void expect();
  void look_for_failure();
  void look_for_leavers(std::int64_t now_ns);

  Engine& engine_;
  std::unique_ptr<LowLatencyCalls> calls_;
  // The flag is true where a call may be in flight.
  std::atomic<bool> watches_{false};
  std::int64_t watched_ns_ = 0;  // the progress thread's last look
  // The time since which a call is in flight whose peer has left. The value 0 means that there is none.
  std::int64_t left_ns_ = 0;
};

}  // namespace wreath
