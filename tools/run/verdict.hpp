// The end of a job: the rank that is at fault, and the exit code.
#pragma once

#include <optional>
#include <string>

namespace wreath::launcher {

// The end of a rank's process. `status` is the status of waitpid.
struct RankEnd {
  int rank = 0;
  std::string host;
  int pid = 0;
  int status = 0;
  // The reason why the rank could not be started, or was lost with its host; empty: it ended by itself.
  std::string refused;
  bool with_host = false;
};

// The exit code by which a rank of an elastic job reports that too few are left to go on. All ranks must then start
// again.
inline constexpr int kStartAgainCode = 9;

// Returns the exit code; 128 and the signal that ended the process; or 6 where it could not be started or its host was
// lost.
int exit_code_of(const RankEnd& end);

// Returns a text such as "rank 3 (host h1, pid 4711): ended by signal 11 (Segmentation fault)".
std::string describe(const RankEnd& end);

// Finds the rank at fault, which is the first one that failed. A rank that ended with code 3 says that another one is
// at fault: that one is named as soon as it has failed, too. In an elastic job code 9 says the same.
class Verdict {
 public:
  explicit Verdict(bool elastic = false) : elastic_(elastic) {}
  // Adds an end, and returns whether its rank is the one to name now.
  bool add(const RankEnd& end);
  // Returns the exit code of the rank at fault; 0: no rank has failed.
  int code() const { return culprit_ ? exit_code_of(*culprit_) : 0; }
  const std::optional<RankEnd>& culprit() const { return culprit_; }

 private:
  bool blames_another(int code) const;

  bool elastic_;
  std::optional<RankEnd> culprit_;
};

}  // namespace wreath::launcher
