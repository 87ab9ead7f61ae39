// The progress thread drives what nobody waits for.
#include "src/base/log.hpp"
#include "src/communicator/engine.hpp"

namespace wreath {
namespace {

constexpr std::uint32_t kProgressRounds = 64;

}  // namespace

Progress::Client::Driven Engine::drive() {
  const bool watching = linked_ && undriven_ != nullptr && undriven_->watch();
  const bool flushing = control_->flush() || watching;
  if (!linked_ || waiters_.load(std::memory_order_relaxed) > 0 || !try_token())
    return flushing ? Driven::Waiting : Driven::Nothing;
  const LogRank log_rank(rank());
  Driver::Round round = Driver::Round::Nothing;
  for (std::uint32_t i = 0; i < kProgressRounds && waiters_.load(std::memory_order_relaxed) == 0; ++i) {
    round = driver_.round();
    if (round != Driver::Round::Moved) break;
  }
  if (round == Driver::Round::Blocked) {
    if (Operation* operation = queue_.front(); operation != nullptr) watch_->look(*operation, now_ns());
  }
  release_token();
  if (round == Driver::Round::Moved) return Driven::Moved;
  return round == Driver::Round::Blocked || flushing ? Driven::Waiting : Driven::Nothing;
}

void Engine::begin_wait(std::vector<int>& descriptors) {
  if (!linked_ || queue_.empty() || !try_token()) return;
  waiting_ = true;
  links_->segment().begin_sleep();
  release_token();
  descriptors.push_back(links_->segment().doorbell());
  for (const Rank peer : links_->wired()) descriptors.push_back(links_->link(peer)->descriptor());
}

void Engine::end_wait() {
  if (!waiting_) return;
  waiting_ = false;
  links_->segment().end_sleep();
}

}  // namespace wreath
