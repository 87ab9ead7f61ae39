// The driver: what the holder of the token does, round after round.
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>

#include <algorithm>

#include "src/base/log.hpp"
#include "src/communicator/engine.hpp"

namespace wreath {
namespace {

constexpr std::int64_t kSleepNs = 50'000'000;
constexpr std::uint32_t kRoundsALook = 64;   // idle rounds between looks at the clock
constexpr std::uint32_t kCrowdedPauses = 2;  // one takes 20 to 70 ns, a yield to another rank 400
constexpr std::uint32_t kCrowdedYields = 30;
constexpr std::uint32_t kSmallLooks = 200;
constexpr std::uint32_t kLeastYields = 8;  // pumps put off what they owe for some rounds, but not for a sleep
constexpr std::uint32_t kProgressRounds = 64;

}  // namespace

Operation* Engine::front() {
  if (inline_ != nullptr) return inline_;
  if (queued_.load(std::memory_order_acquire) == 0) return nullptr;
  const std::lock_guard lock(mutex_);
  return queue_.empty() ? nullptr : queue_.front().get();
}

// A wire would read what is passed on out of memory again.
bool Engine::streams(std::size_t output_bytes) const {
  return tuning_.all_mapped && output_bytes >= lanes_.stream_bytes;
}

Error Engine::other_call(Rank peer) const {
  return {ErrorCode::Mismatch, fmt::format("{} is in another call than {}", member(peer), member(rank())), peer};
}

bool Engine::pump(Operation& operation, bool expecting) {
  bool moved = false;
  for (const Rank peer : links_->wired()) {
    const auto bytes = links_->link(peer)->progress(expecting);
    if (!bytes) {
      on_broken_wire(operation, peer, bytes.error());
    } else {
      moved = moved || *bytes > 0;
    }
  }
  return moved;
}

// A peer may explain itself; this rank's own trouble is told at once. Who reads it may be neither end of the wire.
void Engine::on_broken_wire(const Operation& operation, Rank peer, const Error& error) {
  if (error.code != ErrorCode::PeerLost) return fail(error.code, rank(), error.message);
  const std::string ends = fmt::format("{} to {}: {}", member(rank()), member(peer), error.message);
  watch_->suspect(operation, peer, {error.code, ends, peer});
}

bool Engine::wires_idle() const {
  return std::none_of(links_->wired().begin(), links_->wired().end(), [&](Rank peer) {
    return links_->link(peer)->send_blocked() || links_->link(peer)->in_flight() > 0;
  });
}

// Later: it is to be called again.
Result<Started> Engine::start_run(Operation& operation) {
  if (run_ == nullptr) run_ = &runs_.run_for(operation);
  const auto started = run_->start();
  run_started_ = started && *started == Started::Now;
  return started;
}

// False: something still reads or writes memory of the operation.
bool Engine::stop_run() { return run_ == nullptr || run_->stop(); }

Engine::Round Engine::drive_round() {
  if (failed_.load(std::memory_order_acquire)) {
    if (!stop_run()) return Round::Blocked;
    return finish_all() ? Round::Moved : Round::Nothing;
  }
  Operation* operation = front();
  if (operation == nullptr) return Round::Nothing;
  if (!operation->ready.load(std::memory_order_acquire)) return Round::Blocked;
  if (!run_started_) {
    const auto started = start_run(*operation);
    if (!started) {
      fail(started.error().code, rank(), started.error().message);
      return Round::Moved;
    }
    if (*started == Started::Later) {
      pump(*operation, true);
      return Round::Blocked;
    }
  }
  const Advance advanced = run_->advance();
  const bool pumped = !links_->wired().empty() && pump(*operation, run_->expects_wire());
  if (advanced == Advance::Failed) on_fault(*operation);
  if (advanced == Advance::Done && wires_idle()) {
    const Status ended = run_->end();
    finish(*operation, ended ? std::nullopt : std::optional(ended.error()));
    return Round::Moved;
  }
  if (advanced != Advance::Advanced && !pumped) return Round::Blocked;
  operation->moved = true;
  return Round::Moved;
}

void Engine::on_fault(const Operation& operation) {
  const RunFault fault = run_->fault();
  if (fault.explains) return watch_->suspect(operation, fault.error.failed_rank, fault.error);
  fail(fault.error.code, fault.error.failed_rank, fault.error.message);
}

void Engine::finish(Operation& operation, std::optional<Error> error) {
  if (run_started_) wire_.add(operation.call.collective, run_->moved());
  run_ = nullptr;
  run_started_ = false;
  if (trace_ != nullptr) trace_->end_call(now_ns());
  watch_->goes_on();
  if (error) {
    recorder_.failed(operation.record);
  } else {
    recorder_.done(operation.record);
  }
  if (&operation == inline_) {
    inline_ = nullptr;
    operation.finish(std::move(error));
    return;
  }
  take_front()->finish(std::move(error));  // the last handle may be the queue's
}

// Whether there was one.
bool Engine::finish_all() {
  if (front() == nullptr) return false;
  const Error failure = error().error();
  while (Operation* operation = front()) finish(*operation, failure);
  return true;
}

// A run that waits for nobody may be done but for what a wire has not taken.
std::optional<Rank> Engine::waiting_for() const {
  if (!run_started_) return std::nullopt;
  if (const auto peer = run_->waiting_for(); peer) return peer;
  for (const Rank peer : links_->wired()) {
    if (links_->link(peer)->send_blocked() || links_->link(peer)->in_flight() > 0) return peer;
  }
  return std::nullopt;
}

std::vector<Question> questions_of_call(const Operation& operation, Rank me, int ranks) {
  std::vector<Question> questions;
  for (Rank peer = 0; peer < ranks; ++peer) {
    if (peer != me) questions.push_back({peer, Subject::Call, operation.number});
  }
  return questions;
}

// What peers may know of the first operation, which does not move.
std::vector<Question> Engine::questions() const {
  return run_ == nullptr ? std::vector<Question>{} : run_->questions();
}

void Engine::drive(Operation& operation, const Deadline& deadline) {
  std::uint32_t rounds = 0;
  std::int64_t idle_since_ns = 0;
  while (!operation.over()) {
    if (drive_round() == Round::Moved) {
      rounds = 0;
      idle_since_ns = 0;
      continue;
    }
    idle(operation, ++rounds, idle_since_ns);
    const bool sleeps = crowded_ && rounds > pauses_;  // each round may take its whole sleep
    if ((sleeps || rounds % kRoundsALook == 0) && deadline.passed()) break;
  }
}

// Holds the token on entry, not on return.
void Engine::drive_until_over(Operation& operation, const Deadline& deadline) {
  drive(operation, deadline);
  release_token();
}

// Every wire makes a round dearer.
void Engine::set_patience() {
  const auto wires = static_cast<std::uint32_t>(links_->wired().size());
  pauses_ = kCrowdedPauses / (1 + wires);
  yields_ = std::max(kCrowdedYields / (1 + wires), kLeastYields);
  yielding_ = Yielding::since(made_);
  small_looks_ = crowded_ ? kCrowdedYields : kSmallLooks;
}

// Lets others run; `begins`: to wait. False: it is better to sleep.
bool Engine::give_turn(bool begins) {
  if (begins) placement_.look();
  return yielding_.yield();
}

// With a core for every rank: spin, then sleep. Without: let the others run at once.
void Engine::idle(Operation& operation, std::uint32_t rounds, std::int64_t& idle_since_ns) {
  const bool look = rounds % kRoundsALook == 0;
  const bool may_yield = crowded_ && rounds > pauses_ && rounds <= pauses_ + yields_;
  if (may_yield && give_turn(rounds == pauses_ + 1)) return;
  const bool crowded_out = crowded_ && rounds > pauses_;
  if (!look && !crowded_out) {
    if (crowded_ || rounds > kRoundsALook) pause();
    return;
  }
  const std::int64_t now = now_ns();
  if (idle_since_ns == 0) idle_since_ns = now;
  Operation* first = front();
  watch_->look(first != nullptr ? *first : operation, now);
  if (crowded_out || now - idle_since_ns > spin_ns_) sleep();
}

void Engine::sleep() {
  OwnSegment& segment = links_->segment();
  segment.begin_sleep();
  if (drive_round() == Round::Blocked) {
    polled_.assign(1, {segment.doorbell(), POLLIN, 0});
    for (const Rank peer : links_->wired()) {
      const Link& link = *links_->link(peer);
      polled_.push_back({link.descriptor(), static_cast<short>(link.send_blocked() ? POLLIN | POLLOUT : POLLIN), 0});
    }
    const timespec longest{0, run_ == nullptr ? kSleepNs : run_->longest_sleep_ns()};
    ::ppoll(polled_.data(), polled_.size(), &longest, nullptr);
  }
  segment.end_sleep();
}

// ---- the progress thread's side ----

Progress::Client::Driven Engine::drive() {
  const bool flushing = watch_low_latency() | control_->flush();
  if (!linked_ || waiters_.load(std::memory_order_relaxed) > 0 || !try_token())
    return flushing ? Driven::Waiting : Driven::Nothing;
  const LogRank log_rank(rank());
  Round round = Round::Nothing;
  for (std::uint32_t i = 0; i < kProgressRounds && waiters_.load(std::memory_order_relaxed) == 0; ++i) {
    round = drive_round();
    if (round != Round::Moved) break;
  }
  if (round == Round::Blocked) {
    if (Operation* operation = front(); operation != nullptr) watch_->look(*operation, now_ns());
  }
  release_token();
  if (round == Round::Moved) return Driven::Moved;
  return round == Round::Blocked || flushing ? Driven::Waiting : Driven::Nothing;
}

void Engine::begin_wait(std::vector<int>& descriptors) {
  if (!linked_ || queued_.load(std::memory_order_acquire) == 0 || !try_token()) return;
  waiting_ = true;
  links_->segment().begin_sleep();
  release_token();
  descriptors.push_back(links_->segment().doorbell());
  for (const Rank peer : links_->wired()) descriptors.push_back(links_->link(peer)->descriptor());
}

void Engine::end_wait() {
  if (!waiting_) return;
  waiting_ = false;
  links_->segment().end_sleep();
}

}  // namespace wreath
