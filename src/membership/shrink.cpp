// Shrink runs the survivors' agreement between live ranks.
#include "src/membership/shrink.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "src/base/clock.hpp"
#include "src/base/log.hpp"
#include "src/membership/join.hpp"

namespace wreath {
namespace {

// A live rank's progress thread has so long to answer.
constexpr std::int64_t kLeastAnswerMs = 1'000;
constexpr std::int64_t kMostAnswerMs = 10'000;
// A death that ended a start is known within this time.
constexpr std::int64_t kCauseMs = 10'000;
constexpr std::int64_t kMostMs = 1'000'000'000;
constexpr std::chrono::milliseconds kLook(50);

}  // namespace

Shrink::Shrink(ParentCommunicator& parent, Members& members, const Timeouts& timeouts)
    : parent_(parent), members_(members), timeouts_(timeouts), agreement_(members.rank(), members.ranks()) {}

// ---- the caller ----

Result<std::shared_ptr<ChildCommunicator>> Shrink::run(std::int64_t timeout_ms, std::span<const Rank> without) {
  const LogRank log_rank(members_.rank());
  WREATH_TRY(begin(timeout_ms, without));
  while (const auto view = next_attempt()) attempt(*view);
  return end();
}

Status Shrink::begin(std::int64_t timeout_ms, std::span<const Rank> without) {
  const auto refused = [&](std::string_view name, std::int64_t value) {
    return Error{ErrorCode::InvalidArgument, fmt::format("shrink: {} = {}", name, value), members_.rank()};
  };
  if (timeout_ms < 0) return refused("timeout_ms", timeout_ms);
  for (const Rank rank : without) {
    if (rank < 0 || rank >= members_.ranks() || rank == members_.rank()) return refused("without", rank);
  }
  const std::lock_guard lock(mutex_);
  if (stopped_)
    return Error{ErrorCode::Aborted, fmt::format("{}: shrink: this rank aborted the communicator", parent_.identity()),
                 members_.rank()};
  const Agreement::Limits limits = {
      .entering_ns = std::min(timeout_ms, kMostMs) * kNsPerMs,
      .answer_ns = std::clamp(timeout_ms, kLeastAnswerMs, kMostAnswerMs) * kNsPerMs,
      .joining_ns = (timeouts_.bootstrap_ms + kCauseMs) * kNsPerMs,
  };
  agreement_.begin(now_ns(), limits);
  for (const Rank rank : without) agreement_.exclude(rank);
  settle();
  return {};
}

// Returns the view to attempt, once there is one with a meeting point. Returns nullopt once there is an outcome.
std::optional<View> Shrink::next_attempt() {
  std::unique_lock lock(mutex_);
  for (;;) {
    agreement_.look(now_ns());
    settle();
    if (over()) return std::nullopt;
    interrupt_.clear();
    if (auto view = agreement_.take_attempt()) return view;
    changed_.wait_for(lock, kLook);
  }
}

void Shrink::attempt(const View& view) {
  // An earlier attempt cannot succeed any more.
  drop_candidate();
  const std::vector<Rank> members = living(view);
  log_info("shrink: without {}: {} ranks meet", failed_ranks(view), members.size());
  const auto id = meeting_of(view);
  if (!id) return fail_attempt(view, id.error());
  auto child = parent_.join(members, *id, interrupt_);
  if (!child) return fail_attempt(view, child.error());
  candidate_ = Candidate{view, *std::move(child)};
  const std::lock_guard lock(mutex_);
  agreement_.joined(view);
  settle();
}

// Returns the meeting point of an attempt. The lowest rank of the view makes it and tells the others.
Result<UniqueId> Shrink::meeting_of(const View& view) {
  {
    const std::lock_guard lock(mutex_);
    if (const UniqueId* id = agreement_.meeting_at(view)) return *id;
  }
  auto id = make_meeting(members_, living(view));
  if (!id) return id.error();
  const std::lock_guard lock(mutex_);
  agreement_.meet(view, *id);
  settle();
  return id;
}

// Ends a failed attempt. Most likely a rank died; then the view grows, and the next attempt follows. Otherwise this
// rank refuses the communicator.
void Shrink::fail_attempt(const View& view, const Error& error) {
  log_info("shrink: without {}: {}", failed_ranks(view), error.message);
  std::unique_lock lock(mutex_);
  const Deadline deadline = Deadline::after_ms(error.code == ErrorCode::System ? 0 : kCauseMs);
  while (!stopped_ && !agreement_.attempt_is_void() && !deadline.passed()) changed_.wait_for(lock, kLook);
  agreement_.refuse(view, {error.code, fmt::format("{}: {}", members_.name(members_.rank()), error.message),
                           error.failed_rank < 0 ? members_.rank() : error.failed_rank});
  settle();
}

Result<std::shared_ptr<ChildCommunicator>> Shrink::end() {
  std::optional<Error> error;
  {
    const std::lock_guard lock(mutex_);
    const bool decided = agreement_.consensus().outcome() == Consensus::Outcome::Decided;
    if (decided && candidate_ && candidate_->view == agreement_.consensus().decided()) {
      return std::exchange(candidate_, std::nullopt)->communicator;
    }
    if (decided) {
      error = {ErrorCode::System, "the survivors agreed on a communicator that this rank did not join",
               members_.rank()};
    } else if (agreement_.consensus().outcome() == Consensus::Outcome::Refused) {
      error = agreement_.consensus().error();
    } else {
      error = {ErrorCode::Aborted, "this rank aborted the communicator", members_.rank()};
    }
  }
  drop_candidate();
  return Error{error->code, fmt::format("{}: shrink: {}", parent_.identity(), error->message), error->failed_rank};
}

// Leaves the candidate. The caller does not hold the mutex, since this waits for the progress thread.
void Shrink::drop_candidate() {
  if (candidate_) candidate_->communicator->leave();
  candidate_.reset();
}

void Shrink::stop() {
  const std::lock_guard lock(mutex_);
  if (stopped_) return;
  stopped_ = true;
  ControlMessage message;
  message.kind = MessageKind::Departed;
  members_.broadcast(message);
  interrupt_.set();
  changed_.notify_all();
}

// ---- what happens ----

void Shrink::handle(ControlHandlers& handlers) {
  handlers.add(MessageKind::Shrink, [this](Rank from, ControlMessage& message) { on_message(from, message); });
  for (const MessageKind kind : {MessageKind::Goodbye, MessageKind::Departed}) {
    handlers.add(kind, [this](Rank from, ControlMessage&) { on_lost(from, Fate::Gone); });
  }
  handlers.add_lost(
      [this](const Loss& loss) { on_lost(loss.rank, loss.how == Loss::How::Broken ? Fate::Unreachable : Fate::Gone); });
}

void Shrink::on_message(Rank from, const ControlMessage& message) {
  auto content = decode_shrink(message.body, members_.ranks());
  if (!content) return log_warning("rank {}: {}", from, content.error().message);
  const std::lock_guard lock(mutex_);
  agreement_.hear(from, message.number, std::move(*content));
  settle();
}

void Shrink::on_lost(Rank from, Fate fate) {
  const std::lock_guard lock(mutex_);
  agreement_.lose(from, fate);
  settle();
}

// Sends all outgoing messages, ends an attempt that cannot succeed any more, and wakes the caller.
void Shrink::settle() {
  for (const Agreement::Outgoing& outgoing : agreement_.take_outgoing()) {
    if (stopped_) continue;
    ControlMessage message;
    message.kind = MessageKind::Shrink;
    message.number = outgoing.number;
    message.done = parent_.progressed(outgoing.to);
    message.body = encode_shrink(outgoing.message);
    members_.send(outgoing.to, std::move(message));
  }
  if (agreement_.attempt_is_void()) interrupt_.set();
  changed_.notify_all();
}

}  // namespace wreath
