// Starting and joining the threads of a team.
#include "perf/limits/team.hpp"

#include <thread>

#include "perf/limits/machine.hpp"

namespace wreath::perf {

bool run_team(int ranks, const std::function<void(TeamMember&)>& body) {
  const std::vector<int> cores = pick_cores(ranks);
  if (cores.empty()) return false;
  TeamState state(ranks);
  const auto run_one = [&](int rank) {
    const Pin pin(cores[static_cast<std::size_t>(rank)]);
    TeamMember member(rank, state);
    body(member);
  };
  std::vector<std::thread> threads;
  for (int rank = 1; rank < ranks; ++rank) threads.emplace_back(run_one, rank);
  run_one(0);
  for (std::thread& thread : threads) thread.join();
  return true;
}

}  // namespace wreath::perf
