// The survivors' agreement, live.
#include "src/communicator/shrink.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "src/base/clock.hpp"
#include "src/base/log.hpp"
#include "src/bootstrap/codec.hpp"

namespace wreath {
namespace {

constexpr std::int64_t kMs = 1'000'000;
constexpr std::int64_t kLeastAnswerMs = 1'000;  // for what a live rank's progress thread answers by itself
constexpr std::int64_t kMostAnswerMs = 10'000;
constexpr std::int64_t kCauseMs = 10'000;  // a death that ended a start is known within
constexpr std::int64_t kMostMs = 1'000'000'000;
constexpr std::size_t kEarlyOfARank = 64;
constexpr std::chrono::milliseconds kLook(50);

void write_view(Writer& writer, const View& view) {
  const auto* text = reinterpret_cast<const char*>(view.data());
  writer.text({text, view.size()}, kMaxRanks);
}

View read_view(Reader& reader) {
  const std::string text = reader.opaque(kMaxRanks);
  View view;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) > static_cast<unsigned char>(Fate::Gone)) reader.fail();
    view.push_back(static_cast<Fate>(c));
  }
  return view;
}

std::vector<Rank> living(const View& view) {
  std::vector<Rank> ranks;
  for (std::size_t rank = 0; rank < view.size(); ++rank) {
    if (view[rank] == Fate::Alive) ranks.push_back(static_cast<Rank>(rank));
  }
  return ranks;
}

}  // namespace

std::string encode_shrink(const ShrinkMessage& message) {
  Writer writer;
  writer.number(static_cast<std::uint8_t>(message.meeting.has_value()));
  if (message.meeting) writer.raw(message.meeting->bytes);
  const Statement& statement = message.statement;
  writer.number(static_cast<std::uint8_t>(statement.kind));
  write_view(writer, statement.view);
  write_view(writer, statement.joined);
  writer.number(static_cast<std::uint8_t>(statement.code));
  writer.number(statement.failed_rank);
  writer.text(statement.reason, kMaxTextBytes);
  const std::vector<std::byte> bytes = writer.take();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Result<ShrinkMessage> decode_shrink(const std::string& body, int ranks) {
  Reader reader(std::as_bytes(std::span(body)));
  ShrinkMessage message;
  if (reader.flag()) {
    message.meeting.emplace();
    reader.raw(message.meeting->bytes);
  }
  Statement& statement = message.statement;
  const auto kind = reader.number<std::uint8_t>();
  statement.kind = static_cast<Statement::Kind>(kind);
  statement.view = read_view(reader);
  statement.joined = read_view(reader);
  const auto code = reader.number<std::uint8_t>();
  statement.code = static_cast<ErrorCode>(code);
  statement.failed_rank = reader.number<Rank>();
  statement.reason = reader.text(kMaxTextBytes);
  const bool refused = statement.kind == Statement::Kind::Refused;
  const bool sized = statement.view.size() == static_cast<std::size_t>(ranks) &&
                     (statement.joined.empty() || statement.joined.size() == static_cast<std::size_t>(ranks));
  if (!reader.complete() || kind > static_cast<std::uint8_t>(Statement::Kind::Refused) ||
      code > static_cast<std::uint8_t>(ErrorCode::System) || !(refused || sized)) {
    return Error{ErrorCode::System, "a malformed message of shrink"};
  }
  return message;
}

Shrink::Shrink(Engine& parent) : parent_(parent), fates_(static_cast<std::size_t>(parent.ranks()), Fate::Alive) {}

// ---- the caller ----

Result<std::shared_ptr<Engine>> Shrink::run(std::int64_t timeout_ms) {
  const LogRank log_rank(parent_.rank());
  WREATH_TRY(begin(timeout_ms));
  while (const auto view = next_attempt()) attempt(*view);
  return end();
}

Status Shrink::begin(std::int64_t timeout_ms) {
  if (timeout_ms < 0) {
    return Error{ErrorCode::InvalidArgument, fmt::format("shrink: timeout_ms = {}", timeout_ms), parent_.rank()};
  }
  const std::lock_guard lock(mutex_);
  if (stopped_) return Error{ErrorCode::Aborted, "shrink: this rank aborted the communicator", parent_.rank()};
  ++number_;  // or the call in which others are already
  for (const Early& early : early_) number_ = std::max(number_, early.number);
  patience_ns_ = now_ns() + std::min(timeout_ms, kMostMs) * kMs;
  answer_ns_ = std::clamp(timeout_ms, kLeastAnswerMs, kMostAnswerMs) * kMs;
  meetings_.clear();
  attempted_.reset();
  seen_.clear();
  consensus_.emplace(parent_.rank(), parent_.ranks());
  consensus_->start();
  for (std::size_t rank = 0; rank < fates_.size(); ++rank) consensus_->lose(static_cast<Rank>(rank), fates_[rank]);
  settle();
  for (const Early& early : std::exchange(early_, {})) {
    if (early.number == number_) hear(early.from, early.message);
  }
  return {};
}

// The view to attempt, once there is one with a meeting point; nullopt: there is an outcome.
std::optional<View> Shrink::next_attempt() {
  std::unique_lock lock(mutex_);
  for (;;) {
    look_at_clocks();
    if (over()) return std::nullopt;
    if (attempt_is_ready()) {
      interrupt_.clear();
      attempted_ = consensus_->view();
      return attempted_;
    }
    changed_.wait_for(lock, kLook);
  }
}

bool Shrink::attempt_is_ready() const {
  const View& view = consensus_->view();
  if (!consensus_->attempting() || attempted_ == view) return false;
  return living(view).front() == parent_.rank() || meeting_at(view) != nullptr;
}

const Shrink::Meeting* Shrink::meeting_at(const View& view) const {
  const auto found =
      std::find_if(meetings_.begin(), meetings_.end(), [&](const Meeting& meeting) { return meeting.view == view; });
  return found == meetings_.end() ? nullptr : &*found;
}

void Shrink::attempt(const View& view) {
  drop_candidate();  // an earlier attempt can come to nothing now
  const std::vector<Rank> members = living(view);
  log_info("shrink: without {}: {} ranks meet", failed_ranks(view), members.size());
  const auto id = meeting_of(view, members);
  if (!id) return fail_attempt(view, id.error());
  auto engine = join_child(parent_, members, *id, interrupt_);
  if (!engine) return fail_attempt(view, engine.error());
  candidate_ = Candidate{view, std::move(*engine)};
  const std::lock_guard lock(mutex_);
  if (stopped_) return;
  consensus_->joined(view);
  settle();
}

// Made by the lowest of them, who tells the others.
Result<UniqueId> Shrink::meeting_of(const View& view, const std::vector<Rank>& members) {
  if (members.front() != parent_.rank()) {
    const std::lock_guard lock(mutex_);
    return meeting_at(view)->id;
  }
  auto id = make_meeting(parent_, members);
  if (!id) return id.error();
  ShrinkMessage message;
  message.meeting = *id;
  message.statement.view = view;
  const std::lock_guard lock(mutex_);
  for (const Rank member : members) {
    if (member != parent_.rank()) tell(member, message);
  }
  return id;
}

// Most likely somebody died: then the view grows, and the next attempt follows. Else it is the end.
void Shrink::fail_attempt(const View& view, const Error& error) {
  log_info("shrink: without {}: {}", failed_ranks(view), error.message);
  std::unique_lock lock(mutex_);
  const Deadline deadline = Deadline::after_ms(error.code == ErrorCode::System ? 0 : kCauseMs);
  while (!over() && consensus_->view() == view && !deadline.passed()) changed_.wait_for(lock, kLook);
  if (stopped_) return;
  consensus_->refuse(view, {error.code, fmt::format("{}: {}", parent_.member(parent_.rank()), error.message),
                            error.failed_rank < 0 ? parent_.rank() : error.failed_rank});
  settle();
}

Result<std::shared_ptr<Engine>> Shrink::end() {
  std::optional<Error> error;
  {
    const std::lock_guard lock(mutex_);
    const bool decided = consensus_->outcome() == Consensus::Outcome::Decided;
    if (decided && candidate_ && candidate_->view == consensus_->decided()) {
      return std::exchange(candidate_, std::nullopt)->engine;
    }
    if (decided) {
      error = {ErrorCode::System, "the survivors agreed on a communicator that this rank did not join", parent_.rank()};
    } else if (consensus_->outcome() == Consensus::Outcome::Refused) {
      error = consensus_->error();
    } else {
      error = {ErrorCode::Aborted, "this rank aborted the communicator", parent_.rank()};
    }
  }
  drop_candidate();
  return Error{error->code, fmt::format("{}: shrink: {}", parent_.identity(), error->message), error->failed_rank};
}

// Not under the mutex: it waits for the progress thread.
void Shrink::drop_candidate() {
  if (candidate_) candidate_->engine->leave();
  candidate_.reset();
}

void Shrink::stop() {
  const std::lock_guard lock(mutex_);
  if (stopped_) return;
  stopped_ = true;
  ControlMessage message;
  message.kind = MessageKind::Departed;
  parent_.control().broadcast(message);
  interrupt_.set();
  changed_.notify_all();
}

// ---- what happens ----

void Shrink::on_message(Rank from, ControlMessage message) {
  auto shrink = decode_shrink(message.body, parent_.ranks());
  if (!shrink) return log_warning("rank {}: {}", from, shrink.error().message);
  const std::lock_guard lock(mutex_);
  if (message.number == number_ && consensus_) return hear(from, *shrink);
  if (message.number <= number_) return;
  std::erase_if(early_, [&](const Early& early) { return early.from == from && early.number < message.number; });
  const auto kept = std::count_if(early_.begin(), early_.end(), [&](const Early& early) { return early.from == from; });
  if (static_cast<std::size_t>(kept) < kEarlyOfARank + 2 * fates_.size()) {
    early_.push_back({from, message.number, std::move(*shrink)});
  }
}

void Shrink::on_lost(Rank from, Fate fate) {
  const std::lock_guard lock(mutex_);
  Fate& known = fates_[static_cast<std::size_t>(from)];
  known = std::max(known, fate);
  if (!consensus_) return;
  consensus_->lose(from, fate);
  settle();
}

void Shrink::hear(Rank from, const ShrinkMessage& message) {
  if (!message.meeting) {
    consensus_->hear(from, message.statement);
  } else if (const std::vector<Rank> members = living(message.statement.view);
             !members.empty() && members.front() == from && meeting_at(message.statement.view) == nullptr) {
    meetings_.push_back({message.statement.view, *message.meeting});
  }
  settle();
}

void Shrink::tell(Rank to, const ShrinkMessage& content) {
  if (stopped_) return;
  ControlMessage message;
  message.kind = MessageKind::Shrink;
  message.number = number_;
  message.body = encode_shrink(content);
  parent_.control().send(to, std::move(message));
}

// Says what is to be said and wakes the caller.
void Shrink::settle() {
  for (auto& [to, statement] : consensus_->take_outgoing()) {
    tell(to, {std::nullopt, std::move(statement)});
  }
  if (attempted_ && (over() || *attempted_ != consensus_->view())) interrupt_.set();
  changed_.notify_all();
}

// Who does not say what is waited for in time counts as unreachable.
void Shrink::look_at_clocks() {
  if (over()) return;
  const std::int64_t now = now_ns();
  const bool waits_for_joins = consensus_->waits_for_joins();
  if (seen_ != consensus_->view() || waited_for_joins_ != waits_for_joins) {
    seen_ = consensus_->view();
    waited_for_joins_ = waits_for_joins;
    changed_ns_ = now;
  }
  const std::int64_t joining_ns = (parent_.options().timeouts.bootstrap_ms + kCauseMs) * kMs;
  const std::int64_t answer_ns = answer_ns_ + (waits_for_joins ? joining_ns : 0);
  const std::int64_t limit_ns = std::max(patience_ns_, changed_ns_ + answer_ns);
  if (consensus_->attempting()) {
    if (attempted_ == seen_ || now <= limit_ns + joining_ns) return;
    const Rank lowest = living(seen_).front();
    consensus_->refuse(
        seen_, {ErrorCode::Timeout, fmt::format("{} does not say where to meet", parent_.member(lowest)), lowest});
  } else if (now > limit_ns) {
    const View view = seen_;
    for (std::size_t rank = 0; rank < view.size(); ++rank) {
      if (consensus_->awaits(static_cast<Rank>(rank))) consensus_->lose(static_cast<Rank>(rank), Fate::Unreachable);
    }
  }
  settle();
}

}  // namespace wreath
