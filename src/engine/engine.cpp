// An engine is made, drives its calls, and ends here.
#include "src/engine/engine.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>

#include "src/base/config.hpp"
#include "src/base/log.hpp"
#include "src/engine/slot_size.hpp"
#include "src/membership/link_messages.hpp"
#include "src/tuner/read_in_place.hpp"
#include "src/tuner/ring.hpp"
#include "src/tuner/streaming.hpp"

namespace wreath {
namespace {

constexpr std::uint32_t kProgressRounds = 64;
constexpr std::int64_t kLeaveMs = 5'000;
// A packet that is lost five times in a row arrives after 6.2 s. A host that is silent for 8 s counts as vanished.
constexpr std::int64_t kReadersMs = 8'000;
constexpr std::int64_t kAbortMs = 1'000;
// A goodbye that a network loses is sent again after 0.2, 0.6 and 1.4 s.
constexpr std::int64_t kFarewellMs = 2'000;
// A thread that waits for another thread's driving yields so often before it sleeps.
constexpr int kYields = 100;

// Returns the number of ranks in the process with the most ranks, which is equal on all ranks. Lanes get their slots at
// their first use. So the budget covers the lanes that calls use, and those of users' plans.
std::uint64_t most_in_a_process(const Membership& membership) {
  std::map<std::uint64_t, std::uint64_t> ranks_in_process;
  std::uint64_t most = 1;
  for (const Member& member : membership.members) most = std::max(most, ++ranks_in_process[member.endpoint.process]);
  return most;
}

SingleCopy single_copy_of(std::size_t message_bytes, const RanksOfHost& ranks) {
  return message_bytes == kAutomaticBytes ? SingleCopy::of_machine(cpu_vendor(), ranks) : SingleCopy(message_bytes);
}

// Lets another thread run, since that thread drives.
void give_way(int tries) {
  if (tries < kYields) {
    sched_yield();
  } else {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

}  // namespace

Engine::Engine(std::unique_ptr<Members> members, Membership membership, const AgreedOptions& options)
    : membership_(std::move(membership)),
      options_(options),
      exchange_log_(membership_.ranks),
      entered_{CallHistory(membership_.communicator), {}, {}},
      control_(std::move(members)),
      watch_(std::make_unique<Watch>(*this, *control_, options_.timeouts)) {
  watch_->handle(control_->handlers());
}

std::string Engine::identity() const { return log_identity(rank()); }

// Sets what calls are chosen by.
void Engine::choose_by(const LinkFacts& facts) {
  std::optional<PairSizes> ping_pong;
  if (facts.ping_pong) {
    const bool threads = most_in_a_process(membership_) > 1;
    ping_pong = PairSizes::of(cpu_vendor(), facts.caches);
    driver_.lanes().single_copy = single_copy_of(options_.overrides.single_copy_bytes, {false, threads, ping_pong});
  }
  choices_.set({ranks(), facts.wire, options_.reproducible, options_.overrides.algorithm, options_.overrides.lanes,
                options_.overrides.tile_bytes, shape_.slot_bytes, options_.measured, facts.crowded, facts.gpus,
                small_limits(ranks(), facts.ring_bytes, facts.ping_pong), ping_pong, facts.single_copy});
}

Status Engine::link(std::uint16_t epoch, const MakeOuterRuns& make_outer_runs, DeviceSegments segments) {
  const std::uint64_t most = most_in_a_process(membership_);
  const SlotSizes sizes = slot_sizes(ranks(), most, options_);
  const std::uint32_t slots = options_.overrides.slot_count;
  const HostRanks host = own_host();
  shape_ = {kLanes,
            slots,
            sizes.bytes,
            options_.debug.first_sequence,
            epoch,
            options_.check_wires,
            ring_bytes(host, std::size_t{slots} * sizes.bytes),
            fills_ping_pong(cpu_vendor(), host),
            sizes.exchange_bytes,
            mapped_headers(ranks())};
  IdlePolicy& idle_policy = driver_.idle_policy();
  idle_policy.count(host);
  driver_.lanes().single_copy = single_copy_of(options_.overrides.single_copy_bytes, {idle_policy.crowded(), most > 1});
  if (const Status own = prepare_own(std::move(segments)); !own) {
    ControlMessage message;
    message.kind = MessageKind::Failed;
    message.error = {own.error().code, fmt::format("{}: {}", member(rank()), own.error().message), rank()};
    // Peers would learn no reason from the end of the connection.
    control_->broadcast(message);
    return own;
  }
  if (!options_.debug.trace.empty()) {
    trace_ = std::make_unique<Trace>(options_.debug.trace, membership_.communicator, rank(), identity());
    driver_.lanes().lanes.set_trace(&trace_->steps());
  }
  handle_messages();
  progress_->add(*this);
  WREATH_TRY(control_->start(*progress_));
  driver_.prepare(make_outer_runs);
  const auto facts = links_->connect(membership_, *control_, Deadline::after_ms(options_.timeouts.bootstrap_ms),
                                     idle_policy.crowded());
  membership_.open_stream = nullptr;  // this closes the listener, too
  if (!facts) {
    fail(facts.error().code, facts.error().failed_rank, facts.error().message);
    return facts.error();
  }
  driver_.lanes().plans = std::make_unique<Plans>(*links_, rank(), ranks(), kExchangeLane);
  idle_policy.link(*links_, rank(), ranks());
  if (!idle_policy.crowded() && !links_->mapped().empty()) {
    links_->segment().let_sleepers_fence();
    progress_->want_fences();
  }
  choose_by(*facts);
  WREATH_TRY(check_tuning(tuning()));
  WREATH_TRY(driver_.link());
  linked_ = true;
  // Wires may have something to say before the first call.
  if (!links_->speaking().empty()) progress_->kick();
  tell_start();
  return {};
}

// Makes what a rank needs before it links with others.
Status Engine::prepare_own(DeviceSegments segments) {
  const auto streamed = streamed_bytes(own_host().ranks);
  if (!streamed) return streamed.error();
  LaneResources& lanes = driver_.lanes();
  lanes.streamed_bytes = *streamed;
  lanes.read_in_place_bytes = read_in_place_bytes(cpu_vendor(), cache_sizes().near_bytes);
  const bool pulls = lanes.lanes.prepare_to_pull();
  auto links = Links::create(membership_, shape_, options_, lanes.single_copy.possible() && pulls, std::move(segments),
                             static_cast<std::size_t>(options_.tcp_sockets));
  if (!links) return links.error();
  links_ = std::move(*links);
  auto recorder = FlightRecorder::create(rank(), ranks(), membership_.communicator);
  if (!recorder) return recorder.error();
  recorder_ = std::move(*recorder);
  auto progress = Progress::instance();
  if (!progress) return progress.error();
  progress_ = std::move(*progress);
  return {};
}

HostRanks Engine::own_host() const {
  const Member& own = membership_.members[static_cast<std::size_t>(rank())];
  const auto here = std::ranges::count_if(
      membership_.members, [&](const Member& member) { return member.endpoint.host == own.endpoint.host; });
  return host_ranks(static_cast<int>(here), own.host_cores);
}

void Engine::set_undriven(std::unique_ptr<Undriven> undriven) {
  queue_.hold([&](bool failed) {
    undriven_ = std::move(undriven);
    if (failed) undriven_->stop();
  });
}

Engine::~Engine() {
  control_->stop();
  if (progress_) progress_->remove(*this);
  // These runs may wake this engine until they are gone.
  driver_.forget_outer();
}

// Drives until at most `left` calls are queued, the communicator has failed or the deadline has passed.
void Engine::drive_queue(std::size_t left, const Deadline& deadline) {
  if (queue_.size() <= left) return;
  const CallGate::Wish wish(gate_);
  for (int tries = 0; queue_.size() > left && !queue_.failed() && !deadline.passed(); ++tries) {
    if (!try_token()) {
      give_way(tries);
    } else if (const auto first = queue_.first(); first != nullptr) {
      drive_until_over(*first, deadline);
    } else {
      release_token();
    }
  }
}

// Drives an operation. The caller holds the token on entry but no longer on return.
void Engine::drive_until_over(Operation& operation, const Deadline& deadline) {
  driver_.drive(operation, deadline);
  release_token();
}

Status Engine::wait(Operation& operation, std::int64_t timeout_ms) {
  if (operation.completion != nullptr) return operation.completion->wait(timeout_ms);
  if (operation.over()) return operation.status();
  const Deadline deadline = Deadline::after_ms(timeout_ms);
  std::optional<Error> held;
  {
    const CallGate::Wish wish(gate_);
    for (int tries = 0; !operation.over() && !held && !deadline.passed(); ++tries) {
      if (try_token()) {
        driver_.drive(operation, deadline);
        if (!operation.over() && driver_.held_ns() > kAbortMs * kNsPerMs) held = still_held(operation);
        release_token();
      }
      if (!operation.over()) give_way(tries);
    }
  }
  if (operation.over()) return operation.status();
  progress_->kick();
  return held ? *held : still_runs(text_of(operation), timeout_ms);
}

// Returns the error of an operation whose memory wires hold after a failure. Its memory stays in use. The caller holds
// the token.
Error Engine::still_held(Operation& operation) {
  operation.keep_memory();
  Error error = queue_.error().error();
  error.message += fmt::format("; the memory of {} is still in use by {}", text_of(operation), driver_.holders());
  return error;
}

Error Engine::still_runs(std::string_view text, std::int64_t timeout_ms) const {
  return {ErrorCode::NotReady, fmt::format("{}: {} is still running after {} ms", identity(), text, timeout_ms)};
}

Progress::Client::Driven Engine::drive() {
  const bool watching = linked_ && undriven_ != nullptr && undriven_->watch();
  if (!linked_ || gate_.is_wanted() || !try_token()) {
    // Whoever has the token may be at the end of a call, and neither look for words any more nor wait for wires to
    // stop.
    const bool looks_again = watching || (linked_ && (links_->has_words() || queue_.failed()));
    return looks_again ? Driven::Waiting : driver_.next_turn();
  }
  const LogRank log_rank(rank());
  Driver::Round round = Driver::Round::Nothing;
  for (std::uint32_t i = 0; i < kProgressRounds && !gate_.is_wanted(); ++i) {
    round = driver_.round();
    if (round != Driver::Round::Moved) break;
  }
  if (round == Driver::Round::Blocked && !queue_.failed()) {
    if (Operation* operation = queue_.front(); operation != nullptr) watch_->look(*operation, now_ns());
  }
  release_token();
  if (round == Driver::Round::Moved) return Driven::Moved;
  return round == Driver::Round::Blocked || watching ? Driven::Waiting : driver_.next_turn();
}

int Engine::begin_wait(std::vector<int>& descriptors) {
  if (!linked_) return Progress::kForever;
  if (queue_.empty() && driver_.next_turn() != Driven::Waiting) {
    const bool looks_again = undriven_ != nullptr || links_->has_words() || queue_.failed();
    return looks_again ? Progress::kWaitMs : Progress::kForever;
  }
  if (!try_token()) return Progress::kWaitMs;
  const bool quiet = driver_.begin_wait(descriptors);
  release_token();
  if (!quiet) return 0;
  const auto longest_ms = static_cast<int>(options_.debug.longest_sleep_ms);
  return longest_ms > 0 && !queue_.failed() ? longest_ms : Progress::kWaitMs;
}

void Engine::end_wait() { driver_.end_wait(); }

// The driver writes the counts.
std::vector<WireCounts> Engine::wire_counts() {
  const CallGate::Wish wish(gate_);
  while (!try_token()) std::this_thread::yield();
  std::vector<WireCounts> counts = links_->counts();
  release_token();
  return counts;
}

Progressed Engine::progressed(Rank peer) const {
  const std::uint64_t calls = entered_.history.calls();
  return {calls, exchange_log_.count(Direction::Send, peer), exchange_log_.count(Direction::Receive, peer),
          entered_.history.after(calls).value_or(0)};
}

std::string Engine::call_text() const {
  const CallRecord last = recorder_.last_of_any();
  if (last.number == 0) return "before the first call";
  const bool over = last.state == CallState::Done;
  return fmt::format("{}{}", over ? "after " : "", describe(last));
}

void Engine::fail(ErrorCode code, Rank failed_rank, const std::string& reason) {
  Error error{code, fmt::format("{}: {}: {}: {}", identity(), call_text(), name(code), reason), failed_rank};
  const bool first = queue_.fail(error, [&] {
    // This comes before any call returns, since buffers may change from then on.
    links_->segment().set_aborted();
    if (undriven_ != nullptr) undriven_->stop();
  });
  if (!first) return;
  if (!linked_) links_->fail(error);
  ControlMessage message;
  message.kind = MessageKind::Failed;
  const bool own = failed_rank == rank() && reason.find(member(rank())) == std::string::npos;
  message.error = {code, own ? fmt::format("{}: {}", member(rank()), reason) : reason, failed_rank};
  control_->broadcast(message);
  when_failed_();
  log_info("{}", error.message);
  // This program itself asked for it, so nobody needs a dump.
  const bool wanted = code == ErrorCode::Aborted && failed_rank == rank();
  if (linked_ && !wanted) static_cast<void>(recorder_.dump(error));
  ring();
  progress_->kick();
}

void Engine::wake_driver() {
  ring();
  progress_->kick();
}

// Wakes a driver that sleeps.
void Engine::ring() {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(links_->segment().doorbell(), &one, sizeof one));
}

Status Engine::abort() {
  fail(ErrorCode::Aborted, rank(), fmt::format("by {}", member(rank())));
  return end_work("abort");
}

Status Engine::revoke() {
  fail(ErrorCode::Aborted, rank(), fmt::format("revoked by {}", member(rank())));
  return end_work("revoke");
}

Status Engine::end_work(std::string_view call) {
  const Deadline deadline = Deadline::after_ms(kAbortMs);
  const auto stopped = [&](auto held) {
    while (!held()) {
      if (deadline.passed()) return false;
      ring();
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    return true;
  };
  bool ended = stopped([&] { return try_token(); });
  std::string holders;
  if (ended) {
    ended = stopped([&] { return driver_.stop(); });
    if (ended) {
      static_cast<void>(driver_.finish_all());
    } else {
      holders = driver_.holders();
    }
    release_token();
    std::unique_lock alone(driver_.at_once_mutex(), std::defer_lock);
    ended = ended && stopped([&] { return alone.try_lock(); });
  }
  const bool passed = stopped([&] { return undriven_ == nullptr || !undriven_->in_flight(); });
  work_ended_ = ended;
  if (ended && passed) return {};
  if (!holders.empty()) {
    return Error{ErrorCode::Timeout, fmt::format("{}: {}: {} still uses memory of calls after {} ms: it stays in use",
                                                 identity(), call, holders, kAbortMs)};
  }
  return Error{ErrorCode::Timeout,
               fmt::format("{}: {}: {} within {} ms", identity(), call,
                           ended ? undriven_->unfinished() : "the driving thread did not stop", kAbortMs)};
}

// Says whether this rank may go without a loss for `peer`. A root may be done long before a peer enters the call and
// reads. Meanwhile the peer's wire may have to be moved, so that the question needs the token.
bool Engine::may_close(Rank peer) {
  if (peer == rank() || control_->has_left(peer) || !control_->reaches(peer)) return true;
  if (!try_token()) return false;
  static_cast<void>(driver_.round());
  const bool loses_data = links_->link(peer)->closing_loses_data();
  release_token();
  return !loses_data;
}

void Engine::await_readers(const Deadline& deadline) {
  for (Rank peer = 0; linked_ && peer < ranks(); ++peer) {
    while (!may_close(peer) && !queue_.failed() && !deadline.passed())
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

// Waits for the calls without a driver. Returns false where some are not over in time, or the communicator failed.
bool Engine::await_undriven(const Deadline& deadline) const {
  while (undriven_ != nullptr && undriven_->in_flight()) {
    if (queue_.failed() || deadline.passed()) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return true;
}

// Keeps this engine until the process ends, since something may still write to its memory or its operations'.
void Engine::stay(const Error& reason) {
  static auto* const mutex = new std::mutex;                              // NOLINT(cppcoreguidelines-*): never deleted
  static auto* const engines = new std::vector<std::shared_ptr<Engine>>;  // NOLINT(cppcoreguidelines-*): never deleted
  const std::lock_guard lock(*mutex);
  engines->push_back(shared_from_this());
  log_warning("the communicator was destroyed, but its memory and that of its calls is kept until the process ends: {}",
              reason.message);
}

void Engine::leave() {
  leaving_ = true;
  const Deadline leaving = Deadline::after_ms(kLeaveMs);
  drive_queue(0, leaving);
  if (!queue_.empty() || !await_undriven(leaving) || queue_.failed()) {
    if (!queue_.failed())
      log_warning("the communicator was destroyed with work in flight for {} ms: aborted", kLeaveMs);
    // After a failure, abort() ends the operations that no driver has ended yet.
    if (const Status ended = abort(); !ended && !work_ended_) stay(ended.error());
  }
  await_readers(Deadline::after_ms(kReadersMs));
  for (Rank peer = 0; peer < ranks(); ++peer) {
    if (peer == rank()) continue;
    ControlMessage message;
    message.kind = MessageKind::Goodbye;
    message.done = progressed(peer);
    message.last = recorder_.last();
    control_->send(peer, std::move(message));
  }
  const Deadline flushing = Deadline::after_ms(kFarewellMs);
  while (control_->under_way() && !flushing.passed()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  control_->stop();
  progress_->remove(*this);
  if (trace_ == nullptr) return;
  const auto written = trace_->write(now_ns());
  if (!written) log_warning("{}", written.error().message);
}

}  // namespace wreath
