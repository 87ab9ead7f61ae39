// The engine's side of calls that no driver runs: ranks agree on them when they link, and the progress thread looks
// whether one has ended early.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "src/base/clock.hpp"
#include "src/base/log.hpp"
#include "src/communicator/call_shape.hpp"
#include "src/communicator/device_runs.hpp"
#include "src/communicator/engine.hpp"
#include "wreath/units.hpp"

namespace wreath {
namespace {

constexpr std::uint32_t kAreas = 0xFFFFFFFD;  // what Links swaps and tells
constexpr std::int64_t kLowLatencyLookNs = 5'000'000;
constexpr std::int64_t kTurnMs = 20;             // between two looks whether the communicator has failed
constexpr std::int64_t kLeftNs = 2'000'000'000;  // a peer that made the call and left has written all it will

std::string refusal(const Status& status) { return status ? std::string() : status.error().message; }

}  // namespace

// Stands for an engine in the graphs that captured its calls.
class LowLatencyGuard final : public GraphGuard {
 public:
  explicit LowLatencyGuard(const std::shared_ptr<Engine>& engine) : engine_(engine) {}

  Status check() override {
    const auto engine = engine_.lock();
    if (engine == nullptr || engine->leaving()) return destroyed();
    if (generation_ != fork_generation()) return inherited();
    return engine->error();
  }
  Status before(Stream& stream) override {
    const auto engine = engine_.lock();
    return engine == nullptr ? destroyed() : engine->low_latency_->before_graph(stream);
  }
  Status after(Stream& stream) override {
    const auto engine = engine_.lock();
    if (engine == nullptr) return destroyed();
    WREATH_TRY(engine->low_latency_->after_graph(stream));
    engine->expect_low_latency();
    return {};
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
  std::uint32_t generation_ = fork_generation();
};

// ---- linking ----

Result<std::unique_ptr<LowLatencyCalls>> Engine::make_low_latency() {
  auto* const device = static_cast<LibraryDevice*>(membership_.device);
  if (device == nullptr) return Error{ErrorCode::Unavailable, "it has no device"};
  if (!device->runs_processes_at_once() && is_shared_with_processes(*this, *device)) {
    return Error{ErrorCode::Unavailable, fmt::format("processes take turns on {}", device->name())};
  }
  const Member& self = membership_.members[static_cast<std::size_t>(rank())];
  for (const Member& member : membership_.members) {
    if (member.endpoint.host != self.endpoint.host) {
      return Error{ErrorCode::Unavailable, fmt::format("rank {} is on another host", member.endpoint.rank)};
    }
    WREATH_TRY(device->reaches(member.endpoint.device));
  }
  return LowLatencyCalls::create(
      *device, {rank(), ranks(), options_.low_latency_bytes, options_.timeouts.arrival_ms, options_.algorithm});
}

Status Engine::link_low_latency(LowLatencyCalls& calls, std::vector<Offer> offers) {
  for (Rank peer = 0; peer < ranks(); ++peer) {
    if (peer != rank()) WREATH_TRY(calls.accept(peer, std::move(offers[static_cast<std::size_t>(peer)])));
  }
  return calls.prepare();
}

// All ranks have them, or none has. An error is the communicator's: a peer does not answer.
Status Engine::prepare_low_latency() {
  const bool fits = options_.algorithm.empty() || options_.algorithm == "one_shot" || options_.algorithm == "two_shot";
  if (options_.low_latency_bytes == 0 || ranks() == 1 || ranks() > kMaximumFanIn || !fits || trace_ != nullptr)
    return {};
  const Deadline deadline = Deadline::after_ms(options_.timeouts.bootstrap_ms);
  std::vector<Offer> own(static_cast<std::size_t>(ranks()));
  auto calls = make_low_latency();
  Status usable = calls ? Status() : Status(calls.error());
  const std::uint64_t process = membership_.members[static_cast<std::size_t>(rank())].endpoint.process;
  for (std::size_t peer = 0; usable && peer < own.size(); ++peer) {
    auto offer = (*calls)->offer(membership_.members[peer].endpoint.process != process);
    usable = offer ? Status() : Status(offer.error());
    if (offer) own[peer] = *std::move(offer);
  }
  auto offers = links_->swap_offers(*control_, kAreas, std::move(own), deadline);
  if (!offers) return offers.error();
  if (usable) usable = link_low_latency(**calls, *std::move(offers));
  auto told = links_->tell_all(*control_, kAreas, refusal(usable), deadline);
  if (!told) return told.error();
  (*told)[static_cast<std::size_t>(rank())] = refusal(usable);
  const auto refused = std::find_if(told->begin(), told->end(), [](const std::string& text) { return !text.empty(); });
  if (refused != told->end()) {
    log_warning("low_latency_bytes = {}: not here, rank {} says: {}", options_.low_latency_bytes,
                refused - told->begin(), *refused);
    return {};
  }
  log_info("all_reduces of up to {} are kernels of their own", format_bytes(options_.low_latency_bytes));
  const std::lock_guard lock(mutex_);
  low_latency_ = *std::move(calls);
  if (failure_) low_latency_->stop();
  return {};
}

// ---- calls ----

// A kernel that runs in its stream.
class LowLatencyWork final : public Completion {
 public:
  LowLatencyWork(Engine& engine, std::shared_ptr<Event> passed) : engine_(engine), passed_(std::move(passed)) {}
  bool over() const override { return passed_->done(); }
  Status wait(std::int64_t timeout_ms) override { return engine_.wait_low_latency(*passed_, timeout_ms); }

 private:
  Engine& engine_;  // the operation keeps it
  std::shared_ptr<Event> passed_;
};

void Engine::expect_low_latency() {
  if (!watches_low_latency_.exchange(true)) progress_->kick();
}

Result<std::shared_ptr<Operation>> Engine::begin_low_latency(std::shared_ptr<Operation> operation) {
  if (const Status usable = error(); !usable) {
    operation->finish(usable.error());
    return operation;
  }
  const Call& call = operation->call;
  const auto signature = static_cast<std::uint32_t>(mix_call(membership_.communicator, call, elements_of(call)) >> 32);
  auto passed =
      low_latency_->launch(call, signature, [this] { return std::make_shared<LowLatencyGuard>(shared_from_this()); });
  if (!passed) {
    fail(passed.error().code, rank(), fmt::format("all_reduce: {}", passed.error().message));
    return passed.error();
  }
  if (*passed == nullptr) {
    operation->finish(captured(call));
    return operation;
  }
  operation->completion = std::make_shared<LowLatencyWork>(*this, *std::move(passed));
  expect_low_latency();
  return operation;
}

// A call that has ended early has left its reason when its event is passed.
Status Engine::wait_low_latency(Event& event, std::int64_t timeout_ms) {
  const Deadline deadline = Deadline::after_ms(timeout_ms);
  Status passed = event.synchronize(timeout_ms < 0 ? kTurnMs : std::min(timeout_ms, kTurnMs));
  while (!passed && passed.error().code == ErrorCode::NotReady) {
    if (failed_.load(std::memory_order_acquire)) return error();  // its stream may take long to come to it
    if (deadline.passed()) return still_runs("all_reduce", timeout_ms);
    passed = event.synchronize(kTurnMs);
  }
  if (!passed) return passed;
  look_for_low_latency_failure();
  return error();
}

// Whether all calls are over.
bool Engine::await_low_latency(const Deadline& deadline) {
  while (low_latency_ != nullptr && low_latency_->in_flight()) {
    if (failed_ || deadline.passed()) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return true;
}

// ---- the progress thread's side ----

void Engine::look_for_low_latency_failure() {
  if (failed_.load(std::memory_order_acquire)) return;
  if (const auto theirs = low_latency_->stream_failure()) {
    return fail(ErrorCode::InvalidUsage, rank(),
                fmt::format("all_reduce: its stream failed before it came to the call: {}", theirs->message));
  }
  const auto end = low_latency_->failure();
  if (!end) return;
  const auto peer = static_cast<Rank>(end->rank);
  if (end->outcome == LowLatencyOutcome::Differs) {
    fail(ErrorCode::Mismatch, peer, fmt::format("all_reduce: {} makes another one at this place", member(peer)));
  } else {
    fail(ErrorCode::Timeout, peer,
         fmt::format("all_reduce: {} did not come within {} ms", member(peer), options_.timeouts.arrival_ms));
  }
}

// Whether it is to be called again before long.
bool Engine::watch_low_latency() {
  if (!watches_low_latency_.load(std::memory_order_acquire)) return false;
  const std::int64_t now = now_ns();
  if (now - low_latency_watched_ns_ < kLowLatencyLookNs) return true;
  low_latency_watched_ns_ = now;
  watches_low_latency_ = false;  // before the look: a call in between sets it again
  const bool in_flight = low_latency_->in_flight();
  look_for_low_latency_failure();
  if (!in_flight) {
    low_latency_left_ns_ = 0;
    return watches_low_latency_;
  }
  watches_low_latency_ = true;
  look_for_low_latency_leavers(now);
  return true;
}

void Engine::look_for_low_latency_leavers(std::int64_t now) {
  for (Rank peer = 0; peer < ranks(); ++peer) {
    if (peer == rank() || !has_left(peer)) continue;
    if (low_latency_left_ns_ == 0) low_latency_left_ns_ = now;
    if (now - low_latency_left_ns_ < kLeftNs) return;
    return fail(ErrorCode::PeerLost, peer,
                fmt::format("all_reduce: {} has left before it made the call", member(peer)));
  }
}

}  // namespace wreath
