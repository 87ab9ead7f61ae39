// A port that is down refuses each attempt at once, so attempts become rarer.
#include "src/put/recovery.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "src/base/clock.hpp"
#include "src/base/log.hpp"

namespace wreath {
namespace {

constexpr std::int64_t kFirstPauseNs = kNsPerMs;
constexpr std::int64_t kLongestPauseNs = 100 * kNsPerMs;

}  // namespace

void PutRecovery::on_lost(const Error& reason) {
  if (state_ == State::Stopping || state_ == State::Waiting) return;
  port_.listen();
  reason_ = reason.message;
  log_info("{}: {}: connecting again", port_.adapter().describe(), reason_);
  begin(attempt_ + 1);
}

void PutRecovery::begin(std::uint32_t attempt) {
  const std::int64_t now = now_ns();
  if (std::exchange(works_, false)) {
    since_ns_ = now;
    pause_ns_ = 0;
  } else {
    pause_ns_ = std::clamp(2 * pause_ns_, kFirstPauseNs, kLongestPauseNs);
  }
  not_before_ns_ = now + pause_ns_;
  attempt_ = attempt;
  state_ = State::Stopping;
  peer_ready_ = false;
  theirs_.reset();
}

Status PutRecovery::on_new_channels(NewChannels word) {
  const auto ahead = static_cast<std::int32_t>(word.attempt - attempt_);
  const bool expected = !connected() && !theirs_;
  if (ahead != 1 && !(ahead == 0 && expected)) {
    return Error{ErrorCode::Mismatch,
                 fmt::format("word: new channels of attempt {}, at attempt {} here", word.attempt, attempt_)};
  }
  if (ahead == 1) {
    if (reason_.empty()) reason_ = "the peer lost its channels";
    begin(word.attempt);
  }
  theirs_ = std::move(word);
  return {};
}

Status PutRecovery::on_ready(const ChannelsReady& word) {
  const auto ahead = static_cast<std::int32_t>(word.attempt - attempt_);
  // The peer had not yet heard that this end begins again.
  if (ahead < 0) return {};
  if (ahead > 0 || !theirs_ || peer_ready_) {
    return Error{ErrorCode::Mismatch,
                 fmt::format("word: ready for attempt {}, at attempt {} here", word.attempt, attempt_)};
  }
  peer_ready_ = true;
  return {};
}

Error PutRecovery::lost(const std::string& why) const {
  const std::string& trouble = port_.trouble();
  return {ErrorCode::PeerLost, fmt::format("{}{}{}", why, trouble.empty() ? "" : "; ", trouble)};
}

Status PutRecovery::step(std::vector<PutWord>& words) {
  if (connected()) return {};
  if (now_ns() - since_ns_ > limit_ms_ * kNsPerMs) {
    port_.listen();
    return lost(fmt::format("{}, and no new connection within {} ms", reason_, limit_ms_));
  }
  if (state_ == State::Stopping) WREATH_TRY(stop_and_reset(words));
  if (state_ == State::Waiting && theirs_) WREATH_TRY(join(words));
  if (state_ == State::Joining && peer_ready_) {
    state_ = State::Connected;
    theirs_.reset();
    sender_.probe();
    log_info("{}: connected again, attempt {}", port_.adapter().describe(), attempt_);
  }
  return {};
}

// Messages that came over the old channels count, so all are taken before this end says where it is.
Status PutRecovery::stop_and_reset(std::vector<PutWord>& words) {
  bool stopped = true;
  for (PutQueue& queue : queues_) stopped = queue.channel().stop() && stopped;
  WREATH_TRY(port_.poll());
  if (!stopped || now_ns() < not_before_ns_) return {};
  NewChannels word{attempt_, {}, {}};
  for (PutQueue& queue : queues_) {
    WREATH_TRY(queue.channel().reset());
    queue.clear();
    word.channels.push_back(queue.channel().address());
  }
  word.lanes = receiver_.begin_again();
  words.emplace_back(std::move(word));
  state_ = State::Waiting;
  return {};
}

Status PutRecovery::join(std::vector<PutWord>& words) {
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    const Status connected = queues_[i].channel().connect(theirs_->channels[i]);
    if (connected) continue;
    if (connected.error().code == ErrorCode::Mismatch) return connected;
    reason_ = connected.error().message;
    begin(attempt_ + 1);
    return {};
  }
  WREATH_TRY(sender_.resume(theirs_->lanes));
  words.emplace_back(ChannelsReady{attempt_});
  state_ = State::Joining;
  return {};
}

}  // namespace wreath
