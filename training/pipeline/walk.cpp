// This file advances every rank as far as possible, until none advances further. This one run decides for all.
#include "training/pipeline/walk.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace wreath::training {

namespace {

const char* content(const Messages& messages) { return messages.gradient ? "gradient" : "activation"; }

}  // namespace

Messages messages_of(const PipelineSchedule& schedule, int rank, const Action& action) noexcept {
  Messages messages;
  if (action.kind == ActionKind::BackwardWeights) return messages;
  const int stage = schedule.stage_of(rank, action.chunk);
  messages.gradient = action.kind != ActionKind::Forward;
  const bool first = stage == 0;
  const bool last = stage == schedule.stages() - 1;
  messages.takes = messages.gradient ? !last : !first;
  messages.gives = messages.gradient ? !first : !last;
  const int before = stage - 1;
  const int after = stage + 1;
  messages.from = (messages.gradient ? after : before + schedule.ranks) % schedule.ranks;
  messages.to = (messages.gradient ? before + schedule.ranks : after) % schedule.ranks;
  messages.taken_chunk = (messages.gradient ? after : before) / schedule.ranks;
  return messages;
}

std::string action_text(const PipelineSchedule& schedule, int rank, std::size_t position) {
  const Action& action = schedule.actions[index(rank)][position];
  return fmt::format("pipeline schedule {}: rank {}, action {} ({}): ", schedule.name, rank, position, to_text(action));
}

ScheduleWalk::ScheduleWalk(const PipelineSchedule& schedule, const ScheduleCosts& costs)
    : schedule_(schedule),
      costs_(costs),
      activations_(index(schedule.ranks)),
      gradients_(index(schedule.ranks)),
      timelines_(index(schedule.ranks)) {}

std::int64_t ScheduleWalk::cost_of(ActionKind kind) const noexcept {
  switch (kind) {
    case ActionKind::Forward: return costs_.forward;
    case ActionKind::Backward: return costs_.backward_input + costs_.backward_weights;
    case ActionKind::BackwardInput: return costs_.backward_input;
    case ActionKind::BackwardWeights: return costs_.backward_weights;
  }
  return 0;
}

// Returns the queue of a message. Activations are kept by the sending rank, gradients by the receiving rank.
ScheduleWalk::Queue& ScheduleWalk::queue(const Messages& messages, int rank, bool incoming) {
  const int sender = incoming ? messages.from : rank;
  const int receiver = incoming ? rank : messages.to;
  return messages.gradient ? gradients_[index(receiver)] : activations_[index(sender)];
}

// Returns whether the message of the action is there, and sets its position in the queue.
Result<bool> ScheduleWalk::find(const Messages& messages, const Action& action, int rank, std::size_t& position) {
  const std::deque<Message>& queued = queue(messages, rank, true).messages;
  const auto wanted = [&](const Message& message) {
    return message.chunk == messages.taken_chunk && message.micro_batch == action.micro_batch;
  };
  const auto found = std::find_if(queued.begin(), queued.end(), wanted);
  position = static_cast<std::size_t>(found - queued.begin());
  if (schedule_.ranks == 1) return found != queued.end();
  if (queued.empty()) return false;
  if (position == 0) return true;
  return Error{
      ErrorCode::InvalidArgument,
      fmt::format("{}takes the {} of micro-batch {} from chunk {} of rank {}, which sends that of micro-batch "
                  "{} from chunk {} first",
                  action_text(schedule_, rank, timelines_[index(rank)].size()), content(messages), action.micro_batch,
                  messages.taken_chunk, messages.from, queued.front().micro_batch, queued.front().chunk)};
}

Result<ScheduleWalk::Step> ScheduleWalk::step(int rank) {
  Timeline& done = timelines_[index(rank)];
  const Action& action = schedule_.actions[index(rank)][done.size()];
  const Messages messages = messages_of(schedule_, rank, action);
  std::int64_t start = done.empty() ? 0 : done.back().end_ns;
  std::size_t position = 0;
  if (messages.takes) {
    const Result<bool> found = find(messages, action, rank, position);
    if (!found) return found.error();
    if (!*found) return Step::Waits;
  }
  if (messages.gives && schedule_.ranks > 1) {
    const Queue& outgoing = queue(messages, rank, false);
    if (outgoing.messages.size() >= kQueuedMessages) return Step::Waits;
    // The message that came this many before made room when it was taken.
    const std::size_t room = kQueuedMessages - outgoing.messages.size();
    if (outgoing.taken.size() >= room) start = std::max(start, outgoing.taken[outgoing.taken.size() - room]);
  }
  if (messages.takes) {
    Queue& incoming = queue(messages, rank, true);
    start = std::max(start, incoming.messages[position].arrival);
    incoming.messages.erase(incoming.messages.begin() + static_cast<std::ptrdiff_t>(position));
    incoming.taken.push_back(start);
    if (incoming.taken.size() > kQueuedMessages) incoming.taken.pop_front();
  }
  const std::int64_t end = start + cost_of(action.kind);
  if (messages.gives) {
    const std::int64_t arrival = end + (schedule_.ranks > 1 ? costs_.send : 0);
    queue(messages, rank, false).messages.push_back({action.chunk, action.micro_batch, arrival});
  }
  done.push_back({action, start, end});
  return Step::Advanced;
}

std::string ScheduleWalk::at(int rank) const {
  const std::size_t position = timelines_[index(rank)].size();
  const Action& action = schedule_.actions[index(rank)][position];
  const Messages messages = messages_of(schedule_, rank, action);
  const std::vector<Queue>& queues = messages.gradient ? gradients_ : activations_;
  const bool empty = messages.takes && queues[index(messages.gradient ? rank : messages.from)].messages.empty();
  const std::string what =
      empty || schedule_.ranks == 1
          ? fmt::format("{} of rank {}", messages.gradient ? "a gradient" : "an activation", messages.from)
          : fmt::format("rank {} to take one of {} messages", messages.to, kQueuedMessages);
  return fmt::format("rank {}, action {} ({}), waits for {}", rank, position, to_text(action), what);
}

Error ScheduleWalk::stuck() const {
  constexpr int kNamed = 8;
  std::string waiting;
  int named = 0;
  for (int rank = 0; rank < schedule_.ranks; ++rank) {
    if (timelines_[index(rank)].size() == schedule_.actions[index(rank)].size()) continue;
    if (++named <= kNamed) waiting += (waiting.empty() ? "" : "; ") + at(rank);
  }
  if (named > kNamed) waiting += fmt::format("; and {} more", named - kNamed);
  return {ErrorCode::InvalidArgument, fmt::format("pipeline schedule {} deadlocks: {}", schedule_.name, waiting)};
}

Status ScheduleWalk::run() {
  bool advanced = true;
  bool left = true;
  while (advanced) {
    advanced = false;
    left = false;
    for (int rank = 0; rank < schedule_.ranks; ++rank) {
      while (timelines_[index(rank)].size() < schedule_.actions[index(rank)].size()) {
        const Result<Step> stepped = step(rank);
        if (!stepped) return stepped.error();
        if (*stepped == Step::Waits) break;
        advanced = true;
      }
      left = left || timelines_[index(rank)].size() < schedule_.actions[index(rank)].size();
    }
  }
  if (left) return stuck();
  return {};
}

}  // namespace wreath::training
