// The thread's open group keeps the calls, and begins them together.
#include "src/communicator/group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <utility>

#include "src/base/clock.hpp"
#include "src/communicator/begin_operation.hpp"
#include "src/communicator/check_messages.hpp"
#include "src/communicator/impl.hpp"

namespace wreath {
namespace {

Error misused(std::string text) { return {ErrorCode::InvalidUsage, std::move(text), -1}; }

}  // namespace

// ---- the Works of a group ----

void GroupWork::begun(std::vector<std::shared_ptr<Operation>> operations) {
  operations_ = std::move(operations);
  state_.store(State::Begun, std::memory_order_release);
}

void GroupWork::refused(Error error) {
  error_ = std::move(error);
  state_.store(State::Refused, std::memory_order_release);
}

bool GroupWork::over() const {
  switch (state_.load(std::memory_order_acquire)) {
    case State::Kept: return false;
    case State::Refused: return true;
    case State::Begun: break;
  }
  return std::all_of(operations_.begin(), operations_.end(), [](const auto& operation) { return operation->over(); });
}

Status GroupWork::wait(std::int64_t timeout_ms) {
  switch (state_.load(std::memory_order_acquire)) {
    case State::Kept: return misused("wait: the Group that this call was made in was not launched yet");
    case State::Refused: return *error_;
    case State::Begun: break;
  }
  const Deadline deadline = Deadline::after_ms(timeout_ms);
  std::optional<Error> first;
  for (const auto& operation : operations_) {
    const Status status = operation->engine->wait(*operation, timeout_ms < 0 ? -1 : deadline.left_ms());
    if (!status && status.error().code == ErrorCode::NotReady) return status;
    if (!status && !first) first = status.error();
  }
  return first ? Status(*first) : Status();
}

// ---- the calls of a group ----

GroupCalls::OfEngine& GroupCalls::of(Engine& engine) {
  for (OfEngine& kept : kept()) {
    if (kept.engine == &engine) return kept;
  }
  if (count_ == kept_.size()) kept_.emplace_back();
  OfEngine& next = kept_[count_++];
  next.engine = &engine;
  return next;
}

void GroupCalls::keep(Engine& engine, const Call& call) { of(engine).operations.push_back(engine.prepare(call)); }

void GroupCalls::refuse_stream(const Engine& engine) {
  refuse(complaint(engine, "launch", ErrorCode::InvalidUsage,
                   "sends and receives of one Group and communicator are in different streams"));
}

Work GroupCalls::work() {
  if (handle_ == nullptr) {
    work_ = std::make_shared<GroupWork>();
    handle_ = std::make_shared<Operation>();
    handle_->completion = work_;
  }
  return Work(handle_);
}

void GroupCalls::clear() {
  for (OfEngine& each : kept()) {
    each.messages.sends.clear();
    each.messages.receives.clear();
    each.stream = nullptr;
    each.operations.clear();
  }
  count_ = 0;
  held_.clear();
  refused_.reset();
  work_.reset();
  handle_.reset();
}

void GroupCalls::refuse(const Error& error) {
  if (!refused_) refused_ = error;
}

// Checks all that can go wrong before anything begins.
Status GroupCalls::check() const {
  if (refused_) return *refused_;
  if (generation_ != fork_generation()) return inherited();
  if (inside_ > 0) return misused("launch: a Group inside this one is still open");
  for (const OfEngine& kept : kept()) {
    WREATH_TRY(kept.engine->error());
    if (kept.engine->leaving()) return misused("launch: a communicator of the Group was destroyed");
    const Status checked = check_messages(kept.messages, kept.engine->rank());
    if (!checked) return wreath::refuse(*kept.engine, "launch", checked.error());
    WREATH_TRY(check_stream(*kept.engine, kept.stream, "launch"));
    for (const auto& each : kept.operations) WREATH_TRY(check_stream(*kept.engine, each->call.stream, "launch"));
  }
  return {};
}

// Begins the calls of all communicators in turn. Where one thread drives several ranks, none goes ahead of the others.
// So waiting for room in a full queue ends.
Status GroupCalls::begin() {
  std::deque<std::unique_lock<CallGate>> guards;
  std::size_t most = 0;
  for (OfEngine& kept : kept()) {
    if (!guards.emplace_back(kept.engine->gate(), std::try_to_lock)) {
      return complaint(*kept.engine, "launch", ErrorCode::InvalidUsage, kTwoAtOnce);
    }
    if (!kept.messages.empty()) {
      auto& operations = kept.operations;
      operations.insert(operations.begin(), kept.engine->prepare(exchange_in(kept.stream), std::move(kept.messages)));
    }
    most = std::max(most, kept.operations.size());
  }
  std::vector<std::shared_ptr<Operation>> begun;
  for (std::size_t i = 0; i < most; ++i) {
    for (const OfEngine& kept : kept()) {
      if (i >= kept.operations.size()) continue;
      begun.push_back(kept.operations[i]);
      const auto started = begin_operation(kept.operations[i]);
      // The stream refused the operation, so its communicator has failed.
      if (!started) kept.operations[i]->finish(started.error());
    }
  }
  work_->begun(std::move(begun));
  return {};
}

Status GroupCalls::launch() {
  static_cast<void>(work());
  Status status = check();
  if (status) status = begin();
  if (!status) work_->refused(status.error());
  return status;
}

// Runs the group. This thread at once runs a group of one communicator's sends and receives.
Status GroupCalls::run() {
  const bool one_exchange = count_ == 1 && kept_.front().operations.empty() && !kept_.front().messages.empty() &&
                            kept_.front().stream == nullptr;
  if (!one_exchange || handle_ != nullptr) {
    WREATH_TRY(launch());
    return work_->wait(-1);
  }
  WREATH_TRY(check());
  OfEngine& only = kept_.front();
  const bool of_host = are_of_host(only.messages);
  if (auto done = only.engine->run_now(only.messages, of_host)) return *std::move(done);
  const std::unique_lock guard(only.engine->gate(), std::try_to_lock);
  if (!guard) return complaint(*only.engine, "launch", ErrorCode::InvalidUsage, kTwoAtOnce);
  return only.engine->run(only.messages, of_host);
}

// ---- the public face ----

namespace {

thread_local GroupCalls thread_calls;

struct Clear {
  void operator()(GroupCalls* calls) const { calls->clear(); }
};
// Empties the calls when their launch ends.
using Launched = std::unique_ptr<GroupCalls, Clear>;

// Ends the keeping of a group with these calls, which are not null.
GroupCalls* close(GroupCalls*& calls, bool outermost) {
  outermost ? GroupCalls::end_keeping() : calls->close_inside();
  return std::exchange(calls, nullptr);
}

Error launched_before() { return misused("launch: this Group was launched before"); }

}  // namespace

Group::Group() : calls_(GroupCalls::open()), outermost_(calls_ == nullptr) {
  if (outermost_) {
    calls_ = &thread_calls;
    calls_->begin_keeping();
  } else {
    calls_->open_inside();
  }
}

Group::~Group() {
  if (calls_ == nullptr) return;
  // The outermost group may be over before this one.
  if (GroupCalls* const open = GroupCalls::open()) {
    open->refuse(misused("a Group was dropped without launch(): its calls were not begun"));
  }
  // The launch refuses the calls' Works.
  static_cast<void>(launch());
}

Result<Work> Group::launch() {
  if (calls_ == nullptr) return launched_before();
  GroupCalls* const closed = close(calls_, outermost_);
  if (!outermost_) return Work(std::make_shared<Operation>());
  const Launched calls(closed);
  WREATH_TRY(calls->launch());
  return calls->work();
}

Status Group::run() {
  if (calls_ == nullptr) return launched_before();
  GroupCalls* const closed = close(calls_, outermost_);
  if (!outermost_) return {};
  const Launched calls(closed);
  return calls->run();
}

}  // namespace wreath
