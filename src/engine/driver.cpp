// The driver runs its rounds here.
#include "src/engine/driver.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "src/engine/engine.hpp"

namespace wreath {
namespace {

constexpr std::int64_t kNsPerSecond = 1'000 * kNsPerMs;
constexpr std::int64_t kLongestSleepNs = 50 * kNsPerMs;

}  // namespace

void Driver::prepare(const MakeOuterRuns& make_outer) {
  outer_ = make_outer(engine_);
  outer_at_once_ = make_outer(engine_);
  if (outer_ != nullptr) outer_->prepare();
}

Status Driver::link() {
  if (!engine_.links_->speaking().empty()) next_turn_.store(Driven::Later, std::memory_order_relaxed);
  if (outer_ != nullptr) WREATH_TRY(outer_->link());
  small_.link();
  return {};
}

void Driver::forget_outer() {
  outer_.reset();
  outer_at_once_.reset();
}

// Returns `own`, or the run that `outer` has for an operation of `own`.
Run& Driver::within(OuterRuns* outer, Run& own, Operation& operation) {
  own.set(operation);
  return outer == nullptr ? own : outer->run_for(operation, own);
}

Run& Driver::run_for(Operation& operation) {
  if (engine_.needs_no_peer(operation)) return within(outer_.get(), alone_run_, operation);
  // A trace shows steps, which go over the same FIFOs.
  const bool steps = small_.over_wire() && engine_.trace_ != nullptr;
  if (operation.choice.small && !steps) return within(outer_.get(), small_, operation);
  if (operation.exchanges() && MessageRun::serves(engine_, operation.messages)) {
    return within(outer_.get(), message_run_, operation);
  }
  return within(outer_.get(), lanes_run_, operation);
}

// Moves a wire, whose peer may have left meanwhile.
Result<std::size_t> Driver::move(Rank peer, bool expecting) {
  Wire& wire = *engine_.links_->wire(peer);
  if (engine_.has_left(peer)) wire.on_peer_left();
  return wire.progress(expecting);
}

// `run` is null where the operation's has not started: it may wait for any peer.
bool Driver::pump(const Operation& operation, const Run* run) {
  bool moved = !engine_.links_->speaking().empty() && carry_words();
  for (const Rank peer : engine_.links_->wired()) {
    const auto bytes = move(peer, run == nullptr || run->expects(peer));
    if (!bytes) {
      on_broken_wire(operation, peer, bytes.error());
    } else {
      moved = moved || *bytes > 0;
    }
  }
  return moved;
}

// Carries words between the ends of wires. Returns false where there were none.
bool Driver::carry_words() {
  Links& links = *engine_.links_;
  bool carried = false;
  for (Links::Word& word : links.has_words() ? links.take_words() : std::vector<Links::Word>()) {
    carried = true;
    const Status taken = links.wire(word.from)->on_word(std::move(word.offer));
    if (taken) continue;
    const bool theirs = taken.error().code == ErrorCode::Mismatch || taken.error().code == ErrorCode::PeerLost;
    engine_.fail(taken.error().code, theirs ? word.from : engine_.rank(),
                 fmt::format("a word of {} over its link: {}", engine_.member(word.from), taken.error().message));
    return true;
  }
  for (const Rank peer : links.speaking()) {
    auto word = links.wire(peer)->take_word();
    if (!word) continue;
    carried = true;
    if (const Status sent = Links::send_word(*engine_.control_, peer, *std::move(word)); !sent) {
      engine_.fail(sent.error().code, engine_.rank(), sent.error().message);
    }
  }
  return carried;
}

// Gives wires a turn between calls, since a peer may be in a call and wait for what a word says, for a message that was
// lost when its call was over, or for one that an adapter still has. docs/engine.md says when the next turn comes. A
// wire that breaks fails the communicator, unless its peer turns out to have left: else that peer would learn nothing.
Driver::Round Driver::round_between_calls() {
  const Links& links = *engine_.links_;
  if (links.speaking().empty()) return Round::Nothing;
  bool moved = carry_words();
  bool needed = false;
  for (const Rank peer : links.speaking()) {
    const auto bytes = move(peer, false);
    const bool left = engine_.has_left(peer);
    const bool broken = !bytes && !left;
    if (broken) on_wire_broken_between_calls(peer, bytes.error());
    if (engine_.queue_.failed()) return Round::Moved;
    moved = moved || (bytes && *bytes > 0);
    needed = needed || broken || (bytes && !left && needs_turn(peer));
  }
  next_turn_.store(needed ? Driven::Waiting : Driven::Later, std::memory_order_relaxed);
  if (moved) return Round::Moved;
  return needed ? Round::Blocked : Round::Nothing;
}

void Driver::on_wire_broken_between_calls(Rank peer, const Error& error) {
  const std::string text = between(peer, error);
  if (error.code != ErrorCode::PeerLost) return engine_.fail(error.code, engine_.rank(), text);
  engine_.watch_->suspect_between_calls(peer, {error.code, text, peer});
}

bool Driver::needs_turn(Rank peer) const {
  const Wire& wire = *engine_.links_->wire(peer);
  return wire.send_blocked() || wire.needs_progress();
}

// Stops the wires that have not stopped yet.
bool Driver::stop_wires() {
  if (!holding_) holding_ = engine_.links_->wired();
  std::erase_if(*holding_, [&](Rank peer) { return engine_.links_->wire(peer)->stop(); });
  return holding_->empty();
}

bool Driver::stop() {
  const bool wires_stopped = stop_wires();
  const bool run_stopped = run_ == nullptr || run_->stop();
  if (run_stopped && !wires_stopped && held_since_ns_ == 0) held_since_ns_ = now_ns();
  return run_stopped && wires_stopped;
}

std::int64_t Driver::held_ns() const {
  return held_since_ns_ == 0 || holding_->empty() ? 0 : now_ns() - held_since_ns_;
}

std::string Driver::holders() const {
  std::string text;
  for (const Rank peer : holding_.value_or(std::vector<Rank>())) {
    std::string holder = engine_.links_->wire(peer)->held_by();
    if (holder.empty()) holder = engine_.links_->describe(peer);
    text += fmt::format("{}{} to {}", text.empty() ? "" : ", ", holder, engine_.member(peer));
  }
  return text;
}

std::string Driver::between(Rank peer, const Error& error) const {
  return fmt::format("{} to {}: {}", engine_.member(engine_.rank()), engine_.member(peer), error.message);
}

// Asks a peer to explain a broken wire, and reports this rank's own trouble at once. The message names both ends, since
// a third rank may read it.
void Driver::on_broken_wire(const Operation& operation, Rank peer, const Error& error) {
  if (error.code != ErrorCode::PeerLost) return engine_.fail(error.code, engine_.rank(), error.message);
  engine_.watch_->suspect(operation, peer, {error.code, between(peer, error), peer});
}

bool Driver::wires_idle() const {
  return std::none_of(engine_.links_->wired().begin(), engine_.links_->wired().end(), [&](Rank peer) {
    return engine_.links_->wire(peer)->send_blocked() || engine_.links_->wire(peer)->in_flight() > 0;
  });
}

// Starts the first operation's run. Where it returns Later, the driver calls it again.
Result<Started> Driver::start_run(Operation& operation) {
  if (run_ == nullptr) run_ = &run_for(operation);
  const auto started = run_->start();
  started_ = started && *started == Started::Now;
  return started;
}

Driver::Round Driver::round() {
  if (engine_.queue_.failed()) {
    next_turn_.store(Driven::Nothing, std::memory_order_relaxed);
    if (!stop()) return Round::Blocked;
    return finish_all() ? Round::Moved : Round::Nothing;
  }
  Operation* operation = engine_.queue_.front();
  if (operation == nullptr) return round_between_calls();
  if (!operation->ready.load(std::memory_order_acquire)) {
    return round_between_calls() == Round::Moved ? Round::Moved : Round::Blocked;
  }
  if (!started_) {
    const auto started = start_run(*operation);
    if (!started) {
      engine_.fail(started.error().code, engine_.rank(), started.error().message);
      return Round::Moved;
    }
    if (*started == Started::Later) {
      pump(*operation, nullptr);
      return Round::Blocked;
    }
  }
  const Advance advanced = run_->advance();
  const bool pumped = !engine_.links_->wired().empty() && pump(*operation, run_);
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

void Driver::on_fault(const Operation& operation) {
  const RunFault fault = run_->fault();
  if (fault.explains) return engine_.watch_->suspect(operation, fault.error.failed_rank, fault.error);
  engine_.fail(fault.error.code, fault.error.failed_rank, fault.error.message);
}

void Driver::finish(const Operation& operation, std::optional<Error> error) {
  if (started_) count(operation.call.collective, run_->moved());
  run_ = nullptr;
  started_ = false;
  if (engine_.trace_ != nullptr) engine_.trace_->end_call(now_ns());
  engine_.watch_->goes_on();
  if (error) {
    engine_.recorder_.failed(operation.record);
  } else {
    engine_.recorder_.done(operation.record);
  }
  engine_.queue_.finish_front(std::move(error), [&](Operation& next) { engine_.enter(next); });
  if (engine_.queue_.front() == nullptr) leave_wires_to_progress();
}

// Lets the progress thread go on with wires that nobody drives after the last call.
void Driver::leave_wires_to_progress() {
  if (std::ranges::none_of(engine_.links_->speaking(), [&](Rank peer) { return needs_turn(peer); })) return;
  next_turn_.store(Driven::Waiting, std::memory_order_relaxed);
  engine_.progress_->kick();
}

bool Driver::finish_all() {
  if (engine_.queue_.front() == nullptr) return false;
  const Error failure = engine_.error().error();
  while (const Operation* operation = engine_.queue_.front()) finish(*operation, failure);
  return true;
}

void Driver::begin_small(Operation& operation) {
  small_.set(operation);
  run_ = &small_;
  started_ = true;
  engine_.queue_.begin_immediate();
}

// Rounds move what goes over a wire.
Advance Driver::spin_small() {
  if (small_.over_wire()) return Advance::Blocked;
  Advance advanced = small_.advance();
  for (std::uint32_t look = 0; look < idle_policy_.small_looks() && advanced == Advance::Blocked; ++look) {
    if (idle_policy_.crowded() && !idle_policy_.give_turn(look == 0)) break;
    advanced = small_.advance();
  }
  return advanced;
}

// A run that waits for no peer may be done, but for bytes that a wire has not taken.
std::optional<Rank> Driver::waiting_for() const {
  if (!started_) return std::nullopt;
  if (const auto peer = run_->waiting_for(); peer) return peer;
  for (const Rank peer : engine_.links_->wired()) {
    if (engine_.links_->wire(peer)->send_blocked() || engine_.links_->wire(peer)->in_flight() > 0) return peer;
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

void Driver::drive(Operation& operation, const Deadline& deadline) {
  std::uint32_t rounds = 0;
  std::int64_t idle_since_ns = 0;
  while (!operation.over()) {
    if (round() == Round::Moved) {
      rounds = 0;
      idle_since_ns = 0;
      continue;
    }
    // Memory of the operation is still in use. The caller decides how long it waits.
    if (engine_.queue_.failed()) return;
    idle(operation, ++rounds, idle_since_ns);
    // Each round of a driver that does not spin may take its whole sleep.
    if ((idle_policy_.sleeps_at_once(rounds) || IdlePolicy::is_look(rounds)) && deadline.passed()) break;
  }
}

void Driver::idle(Operation& operation, std::uint32_t rounds, std::int64_t& idle_since_ns) {
  if (idle_policy_.spend(rounds)) return;
  const std::int64_t now = now_ns();
  if (idle_since_ns == 0) idle_since_ns = now;
  Operation* first = engine_.queue_.front();
  engine_.watch_->look(first != nullptr ? *first : operation, now);
  if (idle_policy_.sleeps_at_once(rounds) || sleeps(operation, idle_since_ns, now)) sleep();
}

// Says whether a driver that has spun since then should sleep.
bool Driver::sleeps(const Operation& operation, std::int64_t idle_since_ns, std::int64_t now) const {
  const std::int64_t idle_ns = now - idle_since_ns;
  if (idle_ns <= idle_policy_.spin_ns()) return false;
  const auto call = engine_.recorder_.find(operation.record);
  const std::int64_t began_ns = call ? std::max(call->entered_ns, slept_until_ns_) : idle_since_ns;
  return idle_ns > idle_policy_.spin_ns(idle_since_ns - began_ns);
}

std::int64_t Driver::longest_sleep_ns() const {
  const auto of_run = run_ == nullptr ? std::nullopt : run_->longest_sleep_ns();
  return of_run.value_or(engine_.options_.debug.longest_sleep_ms > 0
                             ? engine_.options_.debug.longest_sleep_ms * kNsPerMs
                             : kLongestSleepNs);
}

void Driver::sleep() {
  const Links& links = *engine_.links_;
  OwnSegment& segment = links.segment();
  segment.begin_sleep();
  if (arm_wires() && round() == Round::Blocked && !engine_.queue_.failed()) {
    polled_.assign(1, {segment.doorbell(), POLLIN, 0});
    for (const Rank peer : links.wired()) {
      const Wire& wire = *links.wire(peer);
      const auto events = static_cast<short>(wire.send_blocked() ? POLLIN | POLLOUT : POLLIN);
      // Wires over one adapter have one descriptor.
      const pollfd& last = polled_.back();
      if (last.fd != wire.descriptor() || last.events != events) polled_.push_back({wire.descriptor(), events, 0});
    }
    const std::int64_t longest_ns = longest_sleep_ns();
    const std::int64_t first_ns = segment.sleepers_fence() ? std::min(longest_ns, kNsPerMs) : longest_ns;
    idle_policy_.sleep();
    if (!is_rung_within(first_ns) && first_ns < longest_ns && round() == Round::Blocked && !engine_.queue_.failed()) {
      is_rung_within(longest_ns - first_ns);
    }
    idle_policy_.wake();
    slept_until_ns_ = now_ns();
  }
  segment.end_sleep();
}

// Sleeps until something in polled_ is ready. Returns false where nothing is in that time.
bool Driver::is_rung_within(std::int64_t longest_ns) {
  const timespec longest{longest_ns / kNsPerSecond, longest_ns % kNsPerSecond};
  return ::ppoll(polled_.data(), polled_.size(), &longest, nullptr) != 0;
}

// Prepares all wires for a sleep. Returns false where one of them has received something.
bool Driver::arm_wires() {
  bool quiet = true;
  for (const Rank peer : engine_.links_->wired()) quiet = engine_.links_->wire(peer)->arm() && quiet;
  return quiet;
}

bool Driver::begin_wait(std::vector<int>& descriptors) {
  const Links& links = *engine_.links_;
  waiting_ = true;
  links.segment().begin_sleep();
  descriptors.push_back(links.segment().doorbell());
  for (const Rank peer : links.wired()) descriptors.push_back(links.wire(peer)->descriptor());
  return arm_wires();
}

void Driver::end_wait() {
  if (!waiting_) return;
  waiting_ = false;
  engine_.links_->segment().end_sleep();
}

}  // namespace wreath
