// Split runs by messages between members.
#include "src/membership/split.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "src/base/clock.hpp"
#include "src/base/log.hpp"
#include "src/bootstrap/codec.hpp"
#include "src/membership/join.hpp"

namespace wreath {
namespace {

// An outcome comes at most so long after the start's own clock has ended.
constexpr std::int64_t kBesideStartMs = 10'000;
constexpr std::chrono::milliseconds kSplitLook(50);

}  // namespace

std::string encode_split(const SplitMessage& message) {
  Writer writer;
  writer.number(static_cast<std::uint8_t>(message.kind));
  writer.number(message.color);
  writer.number(message.key);
  writer.raw(message.meeting.bytes);
  writer.number(static_cast<std::uint8_t>(message.error.has_value()));
  const Error error = message.error.value_or(Error{ErrorCode::System, {}, -1});
  writer.number(static_cast<std::uint8_t>(error.code));
  writer.number(static_cast<std::int32_t>(error.failed_rank));
  writer.text(error.message, kMaxTextBytes);
  return writer.take_string();
}

Result<SplitMessage> decode_split(const std::string& body) {
  Reader reader(std::as_bytes(std::span(body)));
  SplitMessage message;
  const auto kind = reader.number<std::uint8_t>();
  message.kind = static_cast<SplitMessage::Kind>(kind);
  message.color = reader.number<std::int32_t>();
  message.key = reader.number<std::int32_t>();
  reader.raw(message.meeting.bytes);
  const bool failed = reader.flag();
  const auto code = reader.number<std::uint8_t>();
  const auto failed_rank = reader.number<std::int32_t>();
  std::string text = reader.text(kMaxTextBytes);
  if (failed) message.error = Error{static_cast<ErrorCode>(code), std::move(text), failed_rank};
  if (!reader.complete() || kind > static_cast<std::uint8_t>(SplitMessage::Kind::Outcome) ||
      code > static_cast<std::uint8_t>(ErrorCode::System)) {
    return Error{ErrorCode::System, "a malformed message of split"};
  }
  return message;
}

Result<std::shared_ptr<ChildCommunicator>> Split::run(int color, int key) {
  const LogRank log_rank(members_.rank());
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = ++number_;
    rounds_.erase(rounds_.begin(), rounds_.lower_bound(number));
    interrupt_.clear();
  }
  // A later failure interrupts the call.
  WREATH_TRY(parent_.error());
  const auto group = group_of(number, color, key);
  if (!group) return group.error();
  std::shared_ptr<ChildCommunicator> child;
  std::optional<Error> failure;
  if (color >= 0) {
    auto joined = join(number, *group);
    if (joined) {
      child = std::move(*joined);
    } else {
      failure = joined.error();
    }
  }
  const Status all = outcome_of_all(number, std::move(failure));
  if (all) return child;
  if (child) child->leave();
  return Error{all.error().code, fmt::format("{}: split: {}", parent_.identity(), all.error().message),
               all.error().failed_rank};
}

// Tells this rank's choice and waits for the choices of all ranks.
Result<std::vector<Rank>> Split::group_of(std::uint64_t number, int color, int key) {
  SplitMessage own;
  own.color = color;
  own.key = key;
  tell_all(number, own);
  WREATH_TRY(wait([&](Rank rank) { return round(number)[static_cast<std::size_t>(rank)].choice.has_value(); },
                  timeouts_.arrival_ms, "has not called split"));
  std::vector<std::pair<std::int32_t, Rank>> group;
  const std::lock_guard lock(mutex_);
  for (Rank rank = 0; rank < members_.ranks(); ++rank) {
    const SplitMessage& choice = *round(number)[static_cast<std::size_t>(rank)].choice;
    if (choice.color == color) group.emplace_back(choice.key, rank);
  }
  std::sort(group.begin(), group.end());
  std::vector<Rank> ranks;
  for (const auto& [its_key, rank] : group) ranks.push_back(rank);
  return ranks;
}

Result<std::shared_ptr<ChildCommunicator>> Split::join(std::uint64_t number, const std::vector<Rank>& group) {
  const auto id = meeting_of(number, group);
  if (!id) return id.error();
  return parent_.join(group, *id, interrupt_);
}

// Returns the meeting point. The first rank of the group makes it, and its failure ends the wait of the others.
Result<UniqueId> Split::meeting_of(std::uint64_t number, const std::vector<Rank>& group) {
  const Rank first = group.front();
  if (first == members_.rank()) {
    auto id = make_meeting(members_, group);
    if (!id) return id.error();
    SplitMessage message;
    message.kind = SplitMessage::Kind::Meeting;
    message.meeting = *id;
    for (const Rank member : group) {
      if (member != first) tell(member, number, message);
    }
    return id;
  }
  const auto told = [&](Rank rank) {
    const Told& of_rank = round(number)[static_cast<std::size_t>(rank)];
    return rank != first || of_rank.meeting || of_rank.outcome;
  };
  WREATH_TRY(wait(told, timeouts_.bootstrap_ms, "does not say where to meet"));
  const std::lock_guard lock(mutex_);
  const Told& of_first = round(number)[static_cast<std::size_t>(first)];
  if (of_first.meeting) return *of_first.meeting;
  return Error{ErrorCode::StartupFailed, fmt::format("{} made no meeting point", members_.name(first)), first};
}

// Returns the first error in order of rank, alike on all ranks. An error of the operating system comes before errors
// that follow from it.
Status Split::outcome_of_all(std::uint64_t number, std::optional<Error> own) {
  SplitMessage message;
  message.kind = SplitMessage::Kind::Outcome;
  message.error = own;
  if (message.error && message.error->failed_rank < 0) message.error->failed_rank = members_.rank();
  tell_all(number, message);
  WREATH_TRY(wait([&](Rank rank) { return round(number)[static_cast<std::size_t>(rank)].outcome.has_value(); },
                  timeouts_.bootstrap_ms + kBesideStartMs, "does not say how split ended"));
  const std::lock_guard lock(mutex_);
  std::optional<Error> first;
  for (Rank rank = 0; rank < members_.ranks(); ++rank) {
    const std::optional<Error>& error = round(number)[static_cast<std::size_t>(rank)].outcome->error;
    if (!error || (first && (first->code == ErrorCode::System || error->code != ErrorCode::System))) continue;
    first = Error{error->code, fmt::format("rank {}: {}", rank, error->message), error->failed_rank};
  }
  return first ? Status(*first) : Status();
}

// Waits until told(rank) is true for all ranks. The parent's failure ends the wait. A rank that is late, or has left,
// fails the parent.
template <typename Condition>
Status Split::wait(Condition told, std::int64_t timeout_ms, std::string_view what) {
  const Deadline deadline = Deadline::after_ms(timeout_ms);
  Rank late = 0;
  std::optional<Rank> left;
  {
    // The mutex ensures that this rank hears a message before its sender's departure.
    std::unique_lock lock(mutex_);
    for (;;) {
      for (late = 0; late < members_.ranks() && told(late);) ++late;
      // Otherwise the parent fails in a moment.
      if (late == members_.ranks() && !parent_.differs()) return {};
      if (const Status failed = parent_.error(); !failed) return failed;
      for (Rank rank = late; rank < members_.ranks() && !left; ++rank) {
        if (!told(rank) && members_.has_left(rank)) left = rank;
      }
      if (left || deadline.passed()) break;
      changed_.wait_for(lock, kSplitLook);
    }
  }
  if (left) {
    parent_.fail(ErrorCode::PeerLost, *left,
                 fmt::format("{} {}: it destroyed its communicator", members_.name(*left), what));
    return parent_.error();
  }
  late = std::min(late, members_.ranks() - 1);
  parent_.fail(ErrorCode::Timeout, late, fmt::format("{} {} within {} ms", members_.name(late), what, timeout_ms));
  return parent_.error();
}

Split::Round& Split::round(std::uint64_t number) {
  Round& found = rounds_[number];
  found.resize(static_cast<std::size_t>(members_.ranks()));
  return found;
}

void Split::tell(Rank to, std::uint64_t number, const SplitMessage& content) {
  ControlMessage message;
  message.kind = MessageKind::Split;
  message.number = number;
  message.done = parent_.progressed(to);
  message.body = encode_split(content);
  members_.send(to, std::move(message));
}

void Split::tell_all(std::uint64_t number, const SplitMessage& content) {
  ControlMessage message;
  message.kind = MessageKind::Split;
  message.number = number;
  message.done = parent_.progressed(members_.rank());
  message.body = encode_split(content);
  on_message(members_.rank(), message);
  members_.broadcast(message);
}

void Split::handle(ControlHandlers& handlers) {
  handlers.add(MessageKind::Split, [this](Rank from, ControlMessage& message) { on_message(from, message); });
}

void Split::on_message(Rank from, const ControlMessage& message) {
  auto content = decode_split(message.body);
  if (!content) return log_warning("rank {}: {}", from, content.error().message);
  const std::lock_guard lock(mutex_);
  // No rank is further ahead.
  if (message.number < number_ || message.number > number_ + 1) return;
  Told& told = round(message.number)[static_cast<std::size_t>(from)];
  switch (content->kind) {
    case SplitMessage::Kind::Choice: told.choice = std::move(*content); break;
    case SplitMessage::Kind::Meeting: told.meeting = content->meeting; break;
    case SplitMessage::Kind::Outcome: told.outcome = std::move(*content); break;
  }
  changed_.notify_all();
}

void Split::on_failure() {
  const std::lock_guard lock(mutex_);
  interrupt_.set();
  changed_.notify_all();
}

}  // namespace wreath
