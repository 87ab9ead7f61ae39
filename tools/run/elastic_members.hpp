// The members of an elastic job: who is in it, who waits to join, who is over, and what follows when some end.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tools/run/verdict.hpp"

namespace wreath::launcher {

class Members {
 public:
  enum class Next {
    GoOn,
    Over,        // all who were in the job have ended, and enough of them with 0
    StartAgain,  // too few are left; it counts as a restart from now on
    Fail,        // too few are left, and nothing may be started any more
  };

  // `has_joined` says whether a member that was started anew is in the job by now; until then it is not counted as one
  // that is left.
  Members(int min_ranks, int max_restarts, std::function<bool(int)> has_joined)
      : min_ranks_(min_ranks), max_restarts_(max_restarts), has_joined_(std::move(has_joined)) {}

  // All start, as members 0 to count - 1; not a restart by itself.
  void begin(int count);
  // Those that ended together. Once one of the job has ended with 0, nothing is started any more.
  Next take(const std::vector<RankEnd>& ends);
  // For one of the last ends that was no success: who, why, and how many go on.
  std::string obituary(const RankEnd& end) const;

  bool may_start() const { return !ending_ && restarts_ < max_restarts_; }
  // The number of a new member, which waits to join: one that no other had. Counts as a restart.
  int start_one();
  // "2 of 3", of those that have been and those that may be.
  std::string restarts() const;

 private:
  enum class State { In, Waiting, Over };

  int in() const;
  void admit();

  int min_ranks_;
  int max_restarts_;
  std::function<bool(int)> has_joined_;
  std::map<int, State> states_;
  std::map<int, bool> were_in_;  // of the last ends: whether the member was in the job
  int restarts_ = 0;
  int finished_ = 0;  // in the job, and ended with 0
  int before_ = 0;    // in the job before the last ends
  bool ending_ = false;
  Next next_ = Next::GoOn;
};

}  // namespace wreath::launcher
