// The members of an elastic job: their states, and the next step when some of them end.
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
    // All members of the job have ended, and enough of them with 0.
    Over,
    // Too few members are left. It counts as a restart from now on.
    StartAgain,
    // Too few members are left, and no rank may be started any more.
    Fail,
  };

  // `has_joined` returns whether a member that was started later is in the job by now. Until then that member does not
  // count as one that is left.
  Members(int min_ranks, int max_restarts, std::function<bool(int)> has_joined)
      : min_ranks_(min_ranks), max_restarts_(max_restarts), has_joined_(std::move(has_joined)) {}

  // Starts the members 0 to count - 1. This is no restart by itself.
  void begin(int count);
  // Takes members that ended together. Once a member of the job has ended with 0, no rank is started any more.
  Next take(const std::vector<RankEnd>& ends);
  // Describes one of the last ends that was no success: the rank, the reason, and the number of members that go on.
  std::string obituary(const RankEnd& end) const;

  bool may_start() const { return !ending_ && restarts_ < max_restarts_; }
  // Returns the number of a new member, which waits to join. No other member had this number. It counts as a restart.
  int start_one();
  // Returns the restarts so far and the restarts that are allowed, such as "2 of 3".
  std::string restarts() const;

 private:
  enum class State { In, Waiting, Over };

  int in() const;
  void admit();

  int min_ranks_;
  int max_restarts_;
  std::function<bool(int)> has_joined_;
  std::map<int, State> states_;
  // States for each rank of the last ends whether it was in the job.
  std::map<int, bool> were_in_;
  int restarts_ = 0;
  int finished_ = 0;  // members of the job that ended with 0
  int before_ = 0;    // members before the last ends
  bool ending_ = false;
  Next next_ = Next::GoOn;
};

}  // namespace wreath::launcher
