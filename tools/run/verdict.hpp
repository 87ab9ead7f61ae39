// How a job ended: the rank that is at fault, and the exit code.
#pragma once

#include <optional>
#include <string>

namespace wreath::launcher {

// How a rank's process ended. `status` is waitpid's.
struct RankEnd {
  int rank = 0;
  std::string host;
  int pid = 0;
  int status = 0;
  std::string refused;  // why it could not be started, or was lost with its host; empty: it ended by itself
  bool with_host = false;
};

// With this exit code a rank of an elastic job says that too few are left to go on, and that all shall start again.
inline constexpr int kStartAgainCode = 9;

// Its exit code; 128 and the signal that ended it; 6 when it could not be started or its host was lost.
int exit_code_of(const RankEnd& end);

// "rank 3 (host h1, pid 4711): ended by signal 11 (Segmentation fault)".
std::string describe(const RankEnd& end);

// The first rank that failed is at fault; but one that ended with code 3 says that another is: as soon as that one has
// failed, too, it is named. Of an elastic job so does code 9.
class Verdict {
 public:
  explicit Verdict(bool elastic = false) : elastic_(elastic) {}
  // Whether this is the rank to name now.
  bool add(const RankEnd& end);
  // 0: no rank has failed.
  int code() const { return culprit_ ? exit_code_of(*culprit_) : 0; }
  const std::optional<RankEnd>& culprit() const { return culprit_; }

 private:
  bool blames_another(int code) const;

  bool elastic_;
  std::optional<RankEnd> culprit_;
};

}  // namespace wreath::launcher
