// A rank as a process of this host.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "src/base/fd.hpp"
#include "wreath/result.hpp"

namespace wreath::launcher {

struct RankSpecification {
  std::vector<std::string> command;
  std::vector<std::string> environment;  // NAME=value: all of it
  std::string folder;                    // empty: this process's
  // The processors that the rank may use; empty: the same as this process.
  std::vector<int> processors;
};

struct RankProcess {
  pid_t pid = -1;
  Fd output;  // non-blocking
  Fd errors;
};

// Starts a rank in a process group of its own. The rank dies with this process, and its standard input is empty.
Result<RankProcess> start_rank(const RankSpecification& specification);

}  // namespace wreath::launcher
