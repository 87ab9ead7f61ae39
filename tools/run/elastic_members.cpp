// The members of an elastic job (see elastic_members.hpp).
#include "tools/run/elastic_members.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace wreath::launcher {

void Members::begin(int count) {
  states_.clear();
  for (int number = 0; number < count; ++number) states_[number] = State::In;
  finished_ = 0;
  next_ = Next::GoOn;
}

int Members::in() const {
  return static_cast<int>(
      std::count_if(states_.begin(), states_.end(), [](const auto& entry) { return entry.second == State::In; }));
}

void Members::admit() {
  for (auto& [number, state] : states_) {
    if (state == State::Waiting && has_joined_(number)) state = State::In;
  }
}

Members::Next Members::take(const std::vector<RankEnd>& ends) {
  admit();
  before_ = in();
  were_in_.clear();
  bool all_again = false;
  bool hopeless = false;
  for (const RankEnd& end : ends) {
    State& state = states_[end.rank];
    const bool was_in = std::exchange(state, State::Over) == State::In;
    were_in_[end.rank] = was_in;
    if (!was_in) continue;
    const int code = exit_code_of(end);
    if (code == 0) ++finished_;
    // The other members cannot meet without it.
    const bool never_ran = code != 0 && end.pid == 0;
    all_again |= code == kStartAgainCode || never_ran;
    // It would not run the next time either.
    hopeless |= never_ran && !end.with_host;
  }
  ending_ |= finished_ > 0;
  next_ = Next::GoOn;
  if (all_again || in() + finished_ < min_ranks_) {
    next_ = may_start() && !hopeless ? Next::StartAgain : Next::Fail;
    if (next_ == Next::StartAgain) ++restarts_;
  } else if (in() == 0) {
    next_ = Next::Over;
  }
  return next_;
}

std::string Members::obituary(const RankEnd& end) const {
  const auto was_in = were_in_.find(end.rank);
  if (was_in != were_in_.end() && !was_in->second)
    return fmt::format("{}, before it had joined; {} go on", describe(end), in());
  if (next_ == Next::GoOn || next_ == Next::Over)
    return fmt::format("{}; {} of {} go on", describe(end), in(), before_);
  if (in() + finished_ < min_ranks_)
    return fmt::format("{}; {} of {} are left, but --min is {}: they are ended", describe(end), in(), before_,
                       min_ranks_);
  return fmt::format("{}; the {} others cannot go on without it: they are ended", describe(end), in());
}

int Members::start_one() {
  ++restarts_;
  const int number = states_.rbegin()->first + 1;
  states_[number] = State::Waiting;
  return number;
}

std::string Members::restarts() const { return fmt::format("{} of {}", restarts_, max_restarts_); }

}  // namespace wreath::launcher
