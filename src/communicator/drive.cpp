// The driver: what the holder of the token does, round after round.
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <system_error>

#include "src/base/invalid_argument.hpp"
#include "src/base/log.hpp"
#include "src/base/peer_memory.hpp"
#include "src/communicator/call_shape.hpp"
#include "src/communicator/engine.hpp"
#include "src/executor/handwritten/handwritten.hpp"

namespace wreath {
namespace {

constexpr int kStepsARound = 16;
constexpr std::size_t kReferenceBytes = std::size_t{2} << 20;  // smaller buffers: pulling a line just written is dear
constexpr std::int64_t kSleepNs = 50'000'000;
constexpr std::int64_t kSleepBesideBlocksNs = 1'000'000;  // they wake no peer,
constexpr std::int64_t kSleepToCarryNs = 50'000;          // and move no wire
constexpr std::uint32_t kRoundsALook = 64;                // idle rounds between looks at the clock
constexpr std::uint32_t kCrowdedPauses = 2;               // one takes 20 to 70 ns, a yield to another rank 400
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

Launch Engine::bind(const Operation& operation, Plan& plan) {
  const Call& call = operation.call;
  const Algorithm& row = *operation.choice.algorithm;
  const bool sums = reduces(call.collective);
  Cut cut;
  cut.parts = plan.lowered.parts;
  cut.data_lanes = plan.lowered.data_lanes;
  cut.tile_bytes = operation.choice.tile_bytes;
  cut.partial_messages = (row.traits & kPartialMessages) != 0 || call.reduction.op == ReduceOp::PremultipliedSum;
  cut.several_parts = (row.traits & kSeveralParts) != 0;
  Launch launch;
  launch.plan = &plan;
  launch.bytes = bytes_of(call, elements_of(call), ranks());
  if (sums) launch.arithmetic = arithmetic(call.dtype, call.reduction, ranks());
  OperationState& state = launch.state;
  state.geometry = make_geometry(shape_of(call, ranks(), rank()), cut);
  state.buffers[static_cast<int>(Buffer::Input)] = const_cast<std::byte*>(call.input);
  state.buffers[static_cast<int>(Buffer::Output)] = call.output;
  state.signature = operation.signature;
  state.epoch = shape_.epoch;
  measure_buffers(launch, operation, cut.parts);
  return launch;
}

// How far they reach; large ones in memory that peers can map are read where they are.
void Engine::measure_buffers(Launch& launch, const Operation& operation, std::uint32_t parts) {
  const Call& call = operation.call;
  OperationState& state = launch.state;
  for (const Buffer buffer : {Buffer::Input, Buffer::Output}) {
    const PartTable& table = buffer == Buffer::Input ? state.geometry.input : state.geometry.output;
    const std::uint64_t elements =
        span_of(table, holds_one_block(call.collective, buffer) ? PartRange{static_cast<std::uint32_t>(rank()), 1}
                                                                : PartRange{0, parts});
    launch.spans[static_cast<std::size_t>(buffer)] = elements * size_of(call.dtype);
    launch.table_parts[static_cast<std::size_t>(buffer)] = parts;
    const std::byte* const data = state.buffers[static_cast<std::size_t>(buffer)];
    const std::size_t bytes = data == nullptr ? 0 : elements * size_of(call.dtype);
    name_memory(state, buffer, {data, bytes}, operation.memory.by_blocks);
    if (buffer == Buffer::Output) state.streams_output = streams(elements * size_of(call.dtype));
  }
}

// A wire would read what is passed on out of memory again.
bool Engine::streams(std::size_t output_bytes) const { return tuning_.all_mapped && output_bytes >= stream_bytes_; }

void Engine::name_memory(OperationState& state, Buffer buffer, std::span<const std::byte> memory, bool by_blocks) {
  if (by_blocks) return name_device_memory(state, buffer, memory);
  if (memory.size() < kReferenceBytes || links_->mapped().empty()) return;
  if (const auto region = links_->segment().name_memory(memory.data(), memory.size())) {
    state.region[static_cast<std::size_t>(buffer)] = region->index;
    state.region_offset[static_cast<std::size_t>(buffer)] = region->offset;
  }
}

Result<Launch> Engine::launch_of(Operation& operation) {
  if (operation.own) return operation.own->launch(operation.memory, staged_);
  auto plan = plans_->find(operation.choice, operation.call.root);
  if (!plan) return plan.error();
  const Launch launch = bind(operation, **plan);
  if (launch.state.geometry.tiles < kTooManyTiles) return launch;
  return Error{ErrorCode::InvalidArgument,
               fmt::format("tiles of {} bytes: {} needs more than {} of them for this call",
                           operation.choice.tile_bytes, operation.choice.algorithm->name, kTooManyTiles - 1)};
}

HandwrittenLoop Engine::loop_of(const Operation& operation) const {
  if (options_.overrides.executor != kHandwrittenExecutor) return HandwrittenLoop::None;
  if (operation.own != nullptr) return handwritten_loop(Collective::Exchange, "");
  return handwritten_loop(operation.call.collective, operation.choice.algorithm->name);
}

Status Engine::start_small(const Operation& operation) {
  Call call = operation.call;
  if (operation.memory.on_device) WREATH_TRY(stage(call, staged_));
  SmallCall small{
      call.collective,    call.root, call.input, call.output, call.count, call.count * size_of(call.dtype), {},
      operation.signature};
  if (reduces(call.collective)) small.arithmetic = arithmetic(call.dtype, call.reduction, ranks());
  small_.start(small);
  return {};
}

// False: must wait for readers of an earlier operation.
Result<bool> Engine::start_operation(Operation& operation) {
  operation.memory = memory_of(operation);
  if (operation.choice.small) {
    operation.started = true;
    WREATH_TRY(start_small(operation));
    return true;
  }
  choose_executor(operation);
  auto launch = launch_of(operation);
  if (!launch) return launch.error();
  const Collective collective = operation.own ? Collective::Exchange : operation.call.collective;
  launch->state.loop = loop_of(operation);
  launch->state.ranks = static_cast<std::uint32_t>(ranks());
  launch->state.rank = static_cast<std::uint32_t>(rank());
  launch->state.single_copy_bytes =
      single_copy_.message_bytes({collective, launch->bytes, launch->sends_only, operation.memory.by_blocks});
  if (!operation.own && !plans_->enter(*launch->plan)) return false;
  operation.started = true;
  if (trace_ != nullptr) trace_->begin_call(recorder_.find(operation.record).value_or(CallRecord{}), now_ns());
  WREATH_TRY(start_lanes(operation, *launch));
  WREATH_TRY(links_->announce(*control_));
  recorder_.running(operation.record);
  return true;
}

Advance Engine::advance_small() {
  const Advance advanced = small_.run();
  if (small_.take_told()) wake_peers();
  if (advanced == Advance::Done) wire_.add_loaded(small_.collective(), small_.loaded_bytes());
  return advanced;
}

Advance Engine::advance(Operation& operation) {
  if (operation.choice.small) return advance_small();
  if (flying_ == nullptr) return lanes_.run(kStepsARound);
  const auto advanced = flying_->run();
  if (advanced) return *advanced;
  fail(advanced.error().code, advanced.error().failed_rank < 0 ? rank() : advanced.error().failed_rank,
       advanced.error().message);
  return Advance::Blocked;
}

bool Engine::pump(Operation& operation, bool expecting) {
  bool moved = false;
  for (const Rank peer : links_->wired()) {
    const auto bytes = links_->wire(peer)->progress(expecting);
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
    return links_->wire(peer)->send_blocked() || links_->wire(peer)->in_flight() > 0;
  });
}

// After stores that mapped peers may wait for.
void Engine::wake_peers() {
  bool fenced = false;
  for (const Rank peer : links_->mapped()) {
    if (is_asleep(*sleeping_[static_cast<std::size_t>(peer)], fenced)) links_->mapped(peer)->wake();
  }
}

Engine::Round Engine::drive_round() {
  if (failed_.load(std::memory_order_acquire)) {
    if (!end_blocks()) return Round::Blocked;
    return finish_all() ? Round::Moved : Round::Nothing;
  }
  Operation* operation = front();
  if (operation == nullptr) return Round::Nothing;
  if (!operation->ready.load(std::memory_order_acquire)) return Round::Blocked;
  if (operation->call.stream != nullptr && !operation->own && is_trivial(*operation)) {
    finish(*operation, finish_alone(*operation));
    return Round::Moved;
  }
  if (!operation->started) {
    const auto started = start_operation(*operation);
    if (!started) {
      fail(started.error().code, rank(), started.error().message);
      return Round::Moved;
    }
    if (!*started) {
      pump(*operation, true);
      return Round::Blocked;
    }
  }
  const Advance advanced = advance(*operation);
  const bool pumped = !links_->wired().empty() && pump(*operation, operation->choice.small || lanes_.waits());
  if (advanced == Advance::Failed) on_fault(*operation);
  if (advanced != Advance::Blocked && !operation->choice.small) wake_peers();
  if (advanced == Advance::Done && wires_idle()) {
    if (const Status given = staged_.give_back(); !given) {
      fail(given.error().code, rank(), given.error().message);
      return Round::Moved;
    }
    flying_ = nullptr;
    finish(*operation, std::nullopt);
    return Round::Moved;
  }
  if (advanced != Advance::Advanced && !pumped) return Round::Blocked;
  operation->moved = true;
  return Round::Moved;
}

// No memory is the mistake of who gave it to its call; a peer that is gone explains itself.
void Engine::on_unreadable(const Operation& operation, Rank peer, int error) {
  if (error == kOwnTarget) return fail(ErrorCode::InvalidArgument, rank(), std::string(kNoMemory));
  if (error == EFAULT) {
    return watch_->suspect(operation, peer,
                           {ErrorCode::InvalidArgument, fmt::format("{}: {}", member(peer), kNoMemory), peer});
  }
  watch_->suspect(operation, peer,
                  {ErrorCode::System,
                   fmt::format("the memory of {} cannot be read: {} (WREATH_SINGLE_COPY_BYTES=0 does without)",
                               member(peer), std::system_category().message(error)),
                   peer});
}

void Engine::on_fault(Operation& operation) {
  const auto mismatch = [&](Rank peer, std::string_view what) {
    watch_->suspect(operation, peer,
                    {ErrorCode::Mismatch, fmt::format("{} {} {}", member(peer), what, member(rank())), peer});
  };
  if (operation.choice.small) return mismatch(small_.waiting_for(), "is in another call than");
  const LaneState& lane = *lanes_.failed_lane();
  const Rank peer = lanes_.plan().lowered.sources[lane.fault_source].peer;
  switch (lane.fault) {
    case Fault::OwnerAborted:
      watch_->suspect(operation, peer, {ErrorCode::Aborted, fmt::format("by {}", member(peer)), peer});
      return;
    case Fault::Region:
      fail(ErrorCode::System, peer, fmt::format("{} names memory outside its regions", member(peer)));
      return;
    case Fault::Unreadable: return on_unreadable(operation, peer, lane.fault_errno);
    case Fault::Bytes: return mismatch(peer, "sends another count of elements than is expected by");
    default: return mismatch(peer, "is in another call than");
  }
}

void Engine::finish(Operation& operation, std::optional<Error> error) {
  if (operation.started && !operation.choice.small) {
    wire_.add_sent(operation.own ? Collective::Exchange : operation.call.collective, lanes_.sent_bytes());
  }
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

std::optional<Rank> Engine::waiting_for(const Operation& operation) const {
  if (!operation.started) return std::nullopt;
  if (operation.choice.small) return small_.waiting_for();
  if (flying_ != nullptr) return flying_->waiting_for();
  if (const FifoEnd* end = lanes_.waiting_for(); end != nullptr) return end->peer;
  for (const Rank peer : links_->wired()) {  // all is done but for what a wire has not taken
    if (links_->wire(peer)->send_blocked() || links_->wire(peer)->in_flight() > 0) return peer;
  }
  return std::nullopt;
}

// What peers may know of an operation that does not move.
std::vector<Question> Engine::questions(const Operation& operation) const {
  if (operation.own) return operation.started ? operation.own->questions(lanes_) : std::vector<Question>{};
  std::vector<Question> questions;
  for (Rank peer = 0; peer < ranks(); ++peer) {
    if (peer != rank()) questions.push_back({peer, Subject::Call, operation.number});
  }
  return questions;
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
      const Wire& wire = *links_->wire(peer);
      polled_.push_back({wire.descriptor(), static_cast<short>(wire.send_blocked() ? POLLIN | POLLOUT : POLLIN), 0});
    }
    const bool carries = flying_ != nullptr && !links_->wired().empty();
    const std::int64_t ns = flying_ == nullptr ? kSleepNs : carries ? kSleepToCarryNs : kSleepBesideBlocksNs;
    const timespec longest{0, ns};
    ::ppoll(polled_.data(), polled_.size(), &longest, nullptr);
  }
  segment.end_sleep();
}

// ---- the progress thread's side ----

Progress::Client::Driven Engine::drive() {
  const bool watching = watch_low_latency();
  if (!linked_ || waiters_.load(std::memory_order_relaxed) > 0 || !try_token())
    return watching ? Driven::Waiting : Driven::Nothing;
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
  return round == Round::Blocked || watching ? Driven::Waiting : Driven::Nothing;
}

void Engine::begin_wait(std::vector<int>& descriptors) {
  if (!linked_ || queued_.load(std::memory_order_acquire) == 0 || !try_token()) return;
  waiting_ = true;
  links_->segment().begin_sleep();
  release_token();
  descriptors.push_back(links_->segment().doorbell());
  for (const Rank peer : links_->wired()) descriptors.push_back(links_->wire(peer)->descriptor());
}

void Engine::end_wait() {
  if (!waiting_) return;
  waiting_ = false;
  links_->segment().end_sleep();
}

}  // namespace wreath
