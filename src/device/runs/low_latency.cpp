// LowLatency links, waits and watches. low_latency_calls.cpp has the kernels' memory and order.
#include "src/device/runs/low_latency.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "src/base/clock.hpp"
#include "src/base/log.hpp"
#include "src/device/runs/grid_run.hpp"
#include "src/engine/call_shape.hpp"
#include "src/engine/engine.hpp"
#include "wreath/units.hpp"

namespace wreath {
namespace {

constexpr std::uint32_t kAreas = 0xFFFFFFFD;  // the subject in Links
constexpr std::int64_t kLowLatencyLookNs = 5'000'000;
// The time between two looks for a failure of the communicator.
constexpr std::int64_t kTurnMs = 20;
// A peer that made the call and left has written all its data after this time.
constexpr std::int64_t kLeftNs = 2'000'000'000;

std::string refusal(const Status& status) { return status ? std::string() : status.error().message; }

// LowLatencyGuard represents an engine in the graphs that captured its calls.
class LowLatencyGuard final : public GraphGuard {
 public:
  LowLatencyGuard(const std::shared_ptr<Engine>& engine, LowLatency& calls) : engine_(engine), calls_(calls) {}

  Status check() override {
    const auto engine = engine_.lock();
    if (engine == nullptr || engine->leaving()) return destroyed();
    if (generation_ != fork_generation()) return inherited();
    return engine->error();
  }
  Status before(Stream& stream) override {
    const auto engine = engine_.lock();
    return engine == nullptr ? destroyed() : calls_.before_graph(stream);
  }
  Status after(Stream& stream) override {
    const auto engine = engine_.lock();
    return engine == nullptr ? destroyed() : calls_.after_graph(stream);
  }

 private:
  static Status destroyed() {
    return Error{ErrorCode::InvalidUsage, "launch: the communicator of a captured all_reduce was destroyed", -1};
  }
  static Status inherited() {
    return Error{ErrorCode::InvalidUsage, "launch: the communicator of a captured all_reduce is the parent's of a fork",
                 -1};
  }

  std::weak_ptr<Engine> engine_;
  LowLatency& calls_;  // the engine's calls
  std::uint32_t generation_ = fork_generation();
};

// LowLatencyWork is the Completion of a kernel that runs in its stream. The operation keeps the engine.
class LowLatencyWork final : public Completion {
 public:
  LowLatencyWork(LowLatency& calls, std::shared_ptr<Event> passed) : calls_(calls), passed_(std::move(passed)) {}
  bool over() const override { return passed_->done(); }
  Status wait(std::int64_t timeout_ms) override { return calls_.wait(*passed_, timeout_ms); }

 private:
  LowLatency& calls_;
  std::shared_ptr<Event> passed_;
};

// ---- linking ----

Result<std::unique_ptr<LowLatencyCalls>> make_calls(const Engine& engine, LibraryDevice* device) {
  if (device == nullptr) return Error{ErrorCode::Unavailable, "it has no device"};
  if (!device->runs_processes_at_once() && is_shared_with_processes(engine, *device)) {
    return Error{ErrorCode::Unavailable, fmt::format("processes take turns on {}", device->name())};
  }
  const AgreedOptions& options = engine.options();
  const Member& self = engine.members()[engine.rank()];
  for (const Member& member : engine.members().table()) {
    if (member.endpoint.host != self.endpoint.host) {
      return Error{ErrorCode::Unavailable, fmt::format("rank {} is on another host", member.endpoint.rank)};
    }
    WREATH_TRY(device->reaches(member.endpoint.device));
  }
  return LowLatencyCalls::create(*device, {engine.rank(), engine.ranks(), options.overrides.low_latency_bytes,
                                           options.timeouts.arrival_ms, options.overrides.algorithm});
}

Status accept_all(LowLatencyCalls& calls, Rank me, std::vector<Offer> offers) {
  for (Rank peer = 0; peer < static_cast<Rank>(offers.size()); ++peer) {
    if (peer != me) WREATH_TRY(calls.accept(peer, std::move(offers[static_cast<std::size_t>(peer)])));
  }
  return calls.prepare();
}

}  // namespace

Status LowLatency::link(Engine& engine, LibraryDevice* device) {
  const AgreedOptions& options = engine.options();
  const std::string& algorithm = options.overrides.algorithm;
  const bool fits = algorithm.empty() || algorithm == "one_shot" || algorithm == "two_shot";
  const bool wanted = options.overrides.low_latency_bytes > 0 && engine.ranks() > 1 && engine.ranks() <= kMaximumFanIn;
  if (!wanted || !fits || engine.trace() != nullptr) return {};
  const auto me = static_cast<std::size_t>(engine.rank());
  const std::vector<Member>& members = engine.members().table();
  const Deadline deadline = Deadline::after_ms(options.timeouts.bootstrap_ms);
  std::vector<Offer> own(members.size());
  auto calls = make_calls(engine, device);
  Status usable = calls ? Status() : Status(calls.error());
  for (std::size_t peer = 0; usable && peer < own.size(); ++peer) {
    auto offer = (*calls)->offer(members[peer].endpoint.process != members[me].endpoint.process);
    usable = offer ? Status() : Status(offer.error());
    if (offer) own[peer] = *std::move(offer);
  }
  Links& links = engine.links();
  auto offers = links.swap_offers(engine.members(), kAreas, std::move(own), deadline);
  if (!offers) return offers.error();
  if (usable) usable = accept_all(**calls, engine.rank(), *std::move(offers));
  auto told = links.tell_all(engine.members(), kAreas, refusal(usable), deadline);
  if (!told) return told.error();
  (*told)[me] = refusal(usable);
  const auto refused = std::find_if(told->begin(), told->end(), [](const std::string& text) { return !text.empty(); });
  if (refused != told->end()) {
    log_warning("low_latency_bytes = {}: not here, rank {} says: {}", options.overrides.low_latency_bytes,
                refused - told->begin(), *refused);
    return {};
  }
  log_info("all_reduces of up to {} are kernels of their own", format_bytes(options.overrides.low_latency_bytes));
  engine.set_undriven(std::unique_ptr<Undriven>(new LowLatency(engine, *std::move(calls))));
  return {};
}

// ---- calls ----

std::string LowLatency::plan_text(const Query& query) const {
  return query.collective == Collective::AllReduce ? calls_->plan_text(query.bytes) : std::string();
}

void LowLatency::expect() {
  if (!watches_.exchange(true)) engine_.wake_driver();
}

Status LowLatency::after_graph(Stream& stream) {
  WREATH_TRY(calls_->after_graph(stream));
  expect();
  return {};
}

Result<bool> LowLatency::begin(Operation& operation) {
  if (const Status usable = engine_.error(); !usable) {
    operation.finish(usable.error());
    return true;
  }
  const Call& call = operation.call;
  const auto signature = static_cast<std::uint32_t>(mix_call(engine_.communicator(), call, elements_of(call)) >> 32);
  auto passed = calls_->launch(call, signature,
                               [this] { return std::make_shared<LowLatencyGuard>(engine_.shared_from_this(), *this); });
  if (!passed) {
    engine_.fail(passed.error().code, engine_.rank(), fmt::format("all_reduce: {}", passed.error().message));
    return passed.error();
  }
  if (*passed == nullptr) return false;
  operation.completion = std::make_shared<LowLatencyWork>(*this, *std::move(passed));
  expect();
  return true;
}

// Waits for a call. A call that has ended early has left its reason when its event has passed.
Status LowLatency::wait(Event& event, std::int64_t timeout_ms) {
  const Deadline deadline = Deadline::after_ms(timeout_ms);
  Status passed = event.synchronize(timeout_ms < 0 ? kTurnMs : std::min(timeout_ms, kTurnMs));
  while (!passed && passed.error().code == ErrorCode::NotReady) {
    // The stream may take long to come to the call.
    WREATH_TRY(engine_.error());
    if (deadline.passed()) return engine_.still_runs("all_reduce", timeout_ms);
    passed = event.synchronize(kTurnMs);
  }
  if (!passed) return passed;
  look_for_failure();
  return engine_.error();
}

// ---- the progress thread's side ----

void LowLatency::look_for_failure() {
  if (!engine_.error()) return;
  if (const auto theirs = calls_->stream_failure()) {
    return engine_.fail(ErrorCode::InvalidUsage, engine_.rank(),
                        fmt::format("all_reduce: its stream failed before it came to the call: {}", theirs->message));
  }
  const auto end = calls_->failure();
  if (!end) return;
  const auto peer = static_cast<Rank>(end->rank);
  if (end->outcome == LowLatencyOutcome::Differs) {
    engine_.fail(ErrorCode::Mismatch, peer,
                 fmt::format("all_reduce: {} makes another one at this place", engine_.member(peer)));
  } else {
    engine_.fail(ErrorCode::Timeout, peer,
                 fmt::format("all_reduce: {} did not come within {} ms", engine_.member(peer),
                             engine_.options().timeouts.arrival_ms));
  }
}

bool LowLatency::watch() {
  if (!watches_.load(std::memory_order_acquire)) return false;
  const std::int64_t now = now_ns();
  if (now - watched_ns_ < kLowLatencyLookNs) return true;
  watched_ns_ = now;
  // The flag is cleared before the look, since a call in between sets it again.
  watches_ = false;
  const bool flies = calls_->in_flight();
  look_for_failure();
  if (!flies) {
    left_ns_ = 0;
    return watches_;
  }
  watches_ = true;
  look_for_leavers(now);
  return true;
}

void LowLatency::look_for_leavers(std::int64_t now) {
  for (Rank peer = 0; peer < engine_.ranks(); ++peer) {
    if (peer == engine_.rank() || !engine_.has_left(peer)) continue;
    if (left_ns_ == 0) left_ns_ = now;
    if (now - left_ns_ < kLeftNs) return;
    return engine_.fail(ErrorCode::PeerLost, peer,
                        fmt::format("all_reduce: {} has left before it made the call", engine_.member(peer)));
  }
}

}  // namespace wreath
