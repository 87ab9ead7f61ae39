// Ends processes with all that they have started.
#pragma once

#include <sys/types.h>

#include <vector>

namespace wreath::launcher {

// The processes that this process starts after the constructor, and their descendants. Orphans among them become
// children of this process, so that it can reach all of them. Older children are excluded: a program may have become
// this one by exec after it started them.
class Descendants {
 public:
  Descendants();

  // Kills the children and their descendants, until only processes of other users are left.
  void end() const;

 private:
  std::vector<pid_t> children() const;

  std::vector<pid_t> older_;
};

}  // namespace wreath::launcher
