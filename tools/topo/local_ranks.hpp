// Ranks of one job that a subcommand starts on this host: a process for each, ended with it.
#pragma once

#include <functional>
#include <vector>

#include "wreath/result.hpp"
#include "wreath/types.hpp"
#include "wreath/unique_id.hpp"

namespace wreath {

class LocalRanks {
 public:
  // What a process does as `rank`, once the id is made; returns its exit code.
  using Body = std::function<int(const UniqueId& id, Rank rank)>;

  // Forks ranks `first` .. `last` - 1. The caller has no threads.
  static Result<LocalRanks> start(Rank first, Rank last, const Body& body);
  LocalRanks(LocalRanks&& other) noexcept;
  LocalRanks& operator=(LocalRanks&&) = delete;
  ~LocalRanks();  // kills those that still run

  // How the caller, too, becomes a rank of the job.
  const UniqueId& id() const { return id_; }
  // Until all have ended; names the first rank that failed.
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
