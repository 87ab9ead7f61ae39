// Ending processes whole: with all that they have started.
#pragma once

#include <sys/types.h>

#include <vector>

namespace wreath::launcher {

// What this process starts from the constructor on, with orphans among them, which become its children, so that none is
// out of reach. Children from before are not meant: a program may have become this one after it started others.
class Descendants {
 public:
  Descendants();

  // Kills them, and theirs in turn, until none is left but those of another user.
  void end() const;

 private:
  std::vector<pid_t> children() const;

  std::vector<pid_t> older_;
};

}  // namespace wreath::launcher
