// The ranks of one job that a subcommand starts on this host. Each has a process, which ends with the subcommand's
// process.
#pragma once

#include <functional>
#include <vector>

#include "wreath/result.hpp"
#include "wreath/types.hpp"
#include "wreath/unique_id.hpp"

namespace wreath {

class LocalRanks {
 public:
  // Runs in a process as `rank` once the id is made, and returns the exit code of that process.
  using Body = std::function<int(const UniqueId& id, Rank rank)>;

  // Forks ranks `first` .. `last` - 1. The caller must have no other threads.
  static Result<LocalRanks> start(Rank first, Rank last, const Body& body);
  LocalRanks(LocalRanks&& other) noexcept;
  LocalRanks& operator=(LocalRanks&&) = delete;
  ~LocalRanks();  // kills those that still run

  // Returns the id with which the caller, too, can become a rank of the job.
  const UniqueId& id() const { return id_; }
  // Waits until all ranks have ended. The error names the first rank that failed.
  Status wait();

 private:
  struct Child {
    int pid;
    Rank rank;
  };
  LocalRanks() = default;

  UniqueId id_;
  std::vector<Child> children_;
};

}  // namespace wreath
