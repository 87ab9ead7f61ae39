// Starts and joins the threads of a team.
#include "perf/limits/team.hpp"

#include "perf/limits/machine.hpp"
#include "src/command_line/threads.hpp"

namespace wreath::perf {

bool run_team(int ranks, const std::function<void(TeamMember&)>& body) {
  const std::vector<int> cores = pick_cores(ranks);
  if (cores.empty()) return false;
  TeamState state(ranks);
  const Status ran = command_line::run_threads(ranks, [&](int rank) -> Status {
    const Pin pin(cores[static_cast<std::size_t>(rank)]);
    TeamMember member(rank, state);
    body(member);
    return {};
  });
  if (!ran) throw Exception(ran.error());
  return true;
}

}  // namespace wreath::perf
