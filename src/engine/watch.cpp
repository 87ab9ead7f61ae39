// The watch finds late ranks, stalls and mismatches. The control connections find ranks that are dead.
#include "src/engine/watch.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/clock.hpp"
#include "src/base/log.hpp"
#include "src/base/planted_fault.hpp"
#include "src/engine/engine.hpp"

namespace wreath {
namespace {

constexpr std::int64_t kLookNs = kNsPerMs;
constexpr std::int64_t kFirstAskNs = 100 * kNsPerMs;
constexpr std::int64_t kAskAgainNs = 500 * kNsPerMs;
// An answer is fresh for so long.
constexpr std::int64_t kFreshNs = 2'000 * kNsPerMs;
// So many ranks may all ask each other at the full rate. More ranks ask less often.
constexpr std::int64_t kAskingRanks = 64;
// A peer may take so long to explain itself.
constexpr std::int64_t kSuspicionNs = 1'000 * kNsPerMs;

// Returns a description with the operator and root where the two calls differ in them, since describe() leaves those
// out.
std::string call_beside(const CallRecord& call, const CallRecord& other) {
  std::string text = describe(call);
  if (call.op != other.op) text += fmt::format(" {}", name(call.op));
  if (call.root != other.root) text += fmt::format(" root {}", call.root);
  return text;
}

// Describes what a peer does, instead of entering a call or a message's other side.
std::string instead(const CallRecord& last, const std::string& waits_in) {
  if (!waits_in.empty()) return fmt::format("it waits in {}", waits_in);
  if (last.number == 0) return "it has made no call yet";
  return fmt::format("its last call is {} ({})", describe(last), name(last.state));
}

// Names what the peer should enter.
std::string entry_text(const Question& question, Rank me) {
  switch (question.subject) {
    case Subject::Call: return "the call";
    case Subject::Send: return fmt::format("recv #{} from rank {}", question.number, me);
    case Subject::Receive: return fmt::format("send #{} to rank {}", question.number, me);
  }
  return {};
}

std::string describe(const CallRecord& call, Subject subject) {
  return describe_message(subject == Subject::Send ? Direction::Send : Direction::Receive, call);
}

}  // namespace

Watch::Watch(Engine& engine, Members& members, const Timeouts& timeouts)
    : engine_(engine),
      members_(members),
      rank_(members.rank()),
      timeouts_(timeouts),
      crowd_(std::max<std::int64_t>(
          1, static_cast<std::int64_t>(members.ranks()) * members.ranks() / (kAskingRanks * kAskingRanks))),
      peers_(static_cast<std::size_t>(members.ranks())) {}

void Watch::handle(ControlHandlers& handlers) {
  for (const MessageKind kind : kProgressKinds) {
    handlers.add(kind, [this](Rank from, ControlMessage& message) { compare(from, message); });
  }
  handlers.add(MessageKind::Query, [this](Rank from, ControlMessage& message) { on_query(from, message); });
  handlers.add(MessageKind::State, [this](Rank from, ControlMessage& message) { on_state(from, message); });
  handlers.add(MessageKind::Goodbye, [this](Rank from, ControlMessage& message) { on_goodbye(from, message.done); });
}

void Watch::look(Operation& operation, std::int64_t now_ns) {
  // The operation's clocks start when it may begin.
  if (!operation.ready.load(std::memory_order_acquire)) return;
  if (operation.entered_ns == 0) operation.entered_ns = operation.moved_ns = now_ns;
  if (operation.moved) {
    operation.moved = false;
    operation.moved_ns = now_ns;
    asked_ns_ = 0;
    goes_on();
  }
  if (now_ns - looked_ns_ < kLookNs) return;
  looked_ns_ = now_ns;
  if (suspicion_ && ended_in_order(suspicion_->peer)) suspicion_.reset();
  if (suspicion_ && fails_by_suspicion(suspicion_since(operation), now_ns)) return;
  const std::int64_t ask_ns = std::min(crowd_ * kFirstAskNs, timeouts_.stall_ms * kNsPerMs / 4);
  if (now_ns - operation.moved_ns < ask_ns && !operation.late) return;
  if (now_ns - asked_ns_ > std::min(crowd_ * kAskAgainNs, timeouts_.stall_ms * kNsPerMs / 4)) ask(operation, now_ns);
  if (look_for_leavers() || look_for_late(operation, now_ns)) return;
  // A suspicion ends soon, and knows more than that nothing moves.
  if (!suspicion_) look_for_stall(operation, now_ns);
}

void Watch::goes_on() {
  if (!waits_.load(std::memory_order_relaxed)) return;
  waits_ = false;
  const std::lock_guard lock(mutex_);
  waits_in_.clear();
}

// Says whether a peer's wire has ended since the peer left after its part of the call. Other ranks may still work then,
// and need that wire only where this rank waits for that peer.
bool Watch::ended_in_order(Rank peer) const { return members_.has_left(peer) && engine_.driver_.waiting_for() != peer; }

// Returns when the time of the suspicion began. What a peer sent before it left may still be read.
std::int64_t Watch::suspicion_since(const Operation& operation) const {
  return members_.has_left(suspicion_->peer) ? std::max(suspicion_->since_ns, operation.moved_ns)
                                             : suspicion_->since_ns;
}

void Watch::suspect(const Operation& operation, Rank from, Error error) {
  if (suspicion_ || ended_in_order(from)) return;
  const std::int64_t now = now_ns();
  suspicion_ = Suspicion{from, now, std::move(error)};
  ask(operation, now);
}

// The end of a wire may be seen before the goodbye that the peer said over another connection.
void Watch::suspect_between_calls(Rank from, Error error) {
  const std::int64_t now = now_ns();
  if (suspicion_ && ended_in_order(suspicion_->peer)) suspicion_.reset();
  if (!suspicion_) suspicion_ = Suspicion{from, now, std::move(error)};
  static_cast<void>(fails_by_suspicion(suspicion_->since_ns, now));
}

// Ends the communicator where the suspicion has lasted for too long since then.
bool Watch::fails_by_suspicion(std::int64_t since_ns, std::int64_t now_ns) {
  if (now_ns - since_ns <= kSuspicionNs) return false;
  engine_.fail(suspicion_->error.code, suspicion_->peer, suspicion_->error.message);
  return true;
}

void Watch::ask(const Operation& operation, std::int64_t now_ns) {
  asked_ns_ = now_ns;
  const std::vector<Question> questions = engine_.driver_.questions();
  {
    const std::lock_guard lock(mutex_);
    waits_in_ = text_of(operation);
    waits_ = true;
    for (Peer& peer : peers_) {
      for (Asked& asked : peer.asked) asked.open = false;
    }
    for (const Question& question : questions) {
      Asked& asked = peers_[static_cast<std::size_t>(question.peer)].asked[static_cast<std::size_t>(question.subject)];
      asked.open = true;
      if (asked.number == question.number) continue;
      asked.number = question.number;
      asked.entered = false;
      asked.answered_ns = 0;
      asked.asked_ns = now_ns;
    }
  }
  for (const Question& question : questions) {
    ControlMessage query;
    query.kind = MessageKind::Query;
    query.index = static_cast<std::uint32_t>(question.subject);
    query.number = question.number;
    query.done = engine_.progressed(question.peer);
    members_.send(question.peer, std::move(query));
  }
}

// Returns the first open question for which condition(peer, asked) holds. The caller holds the lock.
template <typename Condition>
std::optional<Question> Watch::find_open(Condition condition) const {
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    for (std::uint8_t subject = 0; subject < kSubjects; ++subject) {
      const Asked& asked = peers_[rank].asked[subject];
      if (!asked.open || !condition(peers_[rank], static_cast<Subject>(subject))) continue;
      return Question{static_cast<Rank>(rank), static_cast<Subject>(subject), asked.number};
    }
  }
  return std::nullopt;
}

bool Watch::look_for_leavers() {
  std::optional<Question> question;
  std::uint64_t after = 0;
  {
    const std::lock_guard lock(mutex_);
    question = find_open([&](const Peer& peer, Subject subject) {
      const std::uint64_t number = peer.asked[static_cast<std::size_t>(subject)].number;
      return peer.left_after && peer.left_after->done(subject) < number;
    });
    if (question) after = peers_[static_cast<std::size_t>(question->peer)].left_after->calls;
  }
  if (!question) return false;
  engine_.fail(ErrorCode::PeerLost, question->peer,
               fmt::format("{} destroyed its communicator after call #{}", members_.name(question->peer), after));
  return true;
}

// Says whether a peer is known not to have entered. Then this is no stall.
bool Watch::look_for_late(Operation& operation, std::int64_t now_ns) {
  std::optional<Question> late;
  std::string meanwhile;
  {
    const std::lock_guard lock(mutex_);
    late = find_open([&](const Peer& peer, Subject subject) {
      const Asked& asked = peer.asked[static_cast<std::size_t>(subject)];
      return !asked.entered && now_ns - asked.answered_ns <= crowd_ * kFreshNs;
    });
    if (late) meanwhile = meanwhile_of(*late, now_ns);
  }
  operation.late = late.has_value();
  if (!late) return false;
  operation.moved_ns = now_ns;
  const std::int64_t waited_ms = (now_ns - operation.entered_ns) / kNsPerMs;
  if (waited_ms >= timeouts_.arrival_ms && !planted_fault(13)) {
    engine_.fail(ErrorCode::Timeout, late->peer,
                 fmt::format("{} has not entered {} within {} ms; {}", members_.name(late->peer),
                             entry_text(*late, rank_), timeouts_.arrival_ms, meanwhile));
  } else if (waited_ms >= timeouts_.late_warning_ms && !operation.warned) {
    operation.warned = true;
    // This thread may be the caller's.
    const LogRank log_rank(rank_);
    log_warning("{}: waiting for {} to enter {} for {} ms; {}", engine_.call_text(), members_.name(late->peer),
                entry_text(*late, rank_), waited_ms, meanwhile);
  }
  return true;
}

// Describes what the late peer does meanwhile. The caller holds the lock.
std::string Watch::meanwhile_of(const Question& late, std::int64_t now_ns) const {
  const Peer& peer = peers_[static_cast<std::size_t>(late.peer)];
  std::string text = instead(peer.last, peer.waits_in);
  if (late.subject == Subject::Call ||
      now_ns - peer.waits_for_this_ns[static_cast<std::size_t>(late.subject)] > kFreshNs)
    return text;
  const std::string_view verb = late.subject == Subject::Send ? "send" : "recv";
  return text + fmt::format(": both ranks wait in a {} for the other's {}, and a group of the two calls would not",
                            verb, late.subject == Subject::Send ? "recv" : "send");
}

std::string Watch::waits_in() const {
  const std::lock_guard lock(mutex_);
  return waits_in_;
}

void Watch::on_query(Rank from, const ControlMessage& message) {
  if (message.index >= kSubjects) return;
  if (!message.entered) {
    const std::lock_guard lock(mutex_);
    peers_[static_cast<std::size_t>(from)].waits_for_this_ns[message.index] = now_ns();
  }
  engine_.answer({from, static_cast<Subject>(message.index), message.number}, message.entered);
}

void Watch::look_for_stall(const Operation& operation, std::int64_t now_ns) {
  const std::int64_t blocked_ms = (now_ns - operation.moved_ns) / kNsPerMs;
  if (blocked_ms < timeouts_.stall_ms) return;
  std::optional<Question> silent;
  {
    const std::lock_guard lock(mutex_);
    const std::int64_t fresh_ns = std::min(crowd_ * kFreshNs, timeouts_.stall_ms * kNsPerMs);
    silent = find_open([&](const Peer& peer, Subject subject) {
      const Asked& asked = peer.asked[static_cast<std::size_t>(subject)];
      return !peer.left_after && now_ns - std::max(asked.answered_ns, asked.asked_ns) > fresh_ns / 2;
    });
  }
  if (silent) {
    engine_.fail(ErrorCode::Timeout, silent->peer,
                 fmt::format("nothing moved for {} ms and {} does not answer: its process may be stopped{}", blocked_ms,
                             members_.name(silent->peer),
                             members_.of_one_host(silent->peer, rank_) ? "" : ", or the way to its host is cut"));
    return;
  }
  const auto waiting = engine_.driver_.waiting_for();
  const std::string who =
      waiting ? fmt::format("waiting for {}", members_.name(*waiting)) : "and no peer is waited for";
  engine_.fail(
      ErrorCode::Timeout, waiting.value_or(-1),
      fmt::format("nothing moved for {} ms although all ranks entered; {} {}", blocked_ms, members_.name(rank_), who));
}

void Watch::on_state(Rank from, const ControlMessage& message) {
  if (message.index >= kSubjects) return;
  const Question question{from, static_cast<Subject>(message.index), message.number};
  {
    const std::lock_guard lock(mutex_);
    Peer& peer = peers_[static_cast<std::size_t>(from)];
    Asked& asked = peer.asked[message.index];
    if (asked.number != message.number) return;
    asked.answered_ns = now_ns();
    asked.entered = message.entered;
    peer.last = message.last;
    peer.waits_in = message.text;
  }
  // The peer has not entered it, or has forgotten it.
  if (message.record.number != message.number) return;
  if (question.subject != Subject::Call) look_for_message_difference(from, question, message.record);
}

// Compares the peer's calls with this rank's, and asks a peer that made other calls for them.
void Watch::compare(Rank from, const ControlMessage& message) {
  if (!message.earlier.empty()) return name_difference(from, message);
  const auto own = engine_.history().after(message.done.calls);
  if (!own || *own == message.done.hash) return;
  // This rank asks already.
  if (differs_.exchange(true) && message.kind == MessageKind::Query) return;
  if (message.kind == MessageKind::Goodbye) return name_difference(from, message);
  ask_calls(from, message.done.calls);
}

void Watch::ask_calls(Rank peer, std::uint64_t number) {
  ControlMessage query;
  query.kind = MessageKind::Query;
  query.index = static_cast<std::uint32_t>(Subject::Call);
  query.number = number;
  query.entered = true;
  query.done = engine_.progressed(peer);
  members_.send(peer, std::move(query));
}

Error Watch::differ(Rank from, const std::string& own, const std::string& theirs) const {
  return {ErrorCode::Mismatch,
          fmt::format("{} called {}, {} called {}", members_.name(rank_), own, members_.name(from), theirs), from};
}

// Fails with the first call in which the two ranks differ, in the words of both.
void Watch::name_difference(Rank from, const ControlMessage& message) {
  // A call that was just entered has no record yet, so this rank asks again.
  constexpr int kTimes = 100;
  std::vector<CallRecord> theirs = message.earlier;  // the last one first
  if (theirs.empty() && message.last.number > 0) theirs.push_back(message.last);
  bool unknown = false;
  for (auto call = theirs.rbegin(); call != theirs.rend(); ++call) {
    const auto own = engine_.recorded({from, Subject::Call, call->number});
    unknown = unknown || !own;
    if (!own || same_call(*own, *call)) continue;
    const Error error = differ(from, call_beside(*own, *call), call_beside(*call, *own));
    return engine_.fail(error.code, from, error.message);
  }
  if (unknown && message.kind == MessageKind::State && ++peers_[static_cast<std::size_t>(from)].asked_calls < kTimes)
    return ask_calls(from, message.number);
  engine_.fail(ErrorCode::Mismatch, from,
               fmt::format("{} and {} differ in their calls up to #{}, in which their records do not say",
                           members_.name(rank_), members_.name(from), message.done.calls));
}

// Fails with both messages, where this rank's and the peer's differ.
void Watch::look_for_message_difference(Rank from, const Question& question, const CallRecord& theirs) {
  const auto own = engine_.recorded(question);
  if (!own || (own->dtype == theirs.dtype && own->count == theirs.count)) return;
  const Error error = differ(from, describe(*own, question.subject), describe(theirs, counterpart(question.subject)));
  engine_.fail(error.code, from, error.message);
}

void Watch::on_goodbye(Rank from, const Progressed& last) {
  const std::lock_guard lock(mutex_);
  peers_[static_cast<std::size_t>(from)].left_after = last;
}

}  // namespace wreath
