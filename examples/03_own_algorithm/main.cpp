// This program adds an algorithm of your own. You write the schedule (reverse_ring.cpp), fill one row, and have it
// proved.
//
// The function verify_all reads the steps that executors would run, for every count, lane, slot and residency that
// matters. It finds wrong sums, races, deadlocks and left-over messages without moving a byte. A broken variant below
// shows the text of a refusal, and simulate counts the cost. To run the algorithm for real, move reverse_ring.cpp to
// algorithms/. End it with the object below, and name that object in algorithms/registry.cpp. Every test and perf tool
// then finds it there, `all_reduce_perf --ranks 4 --algorithm reverse_ring` among them.
#include <cstdio>

#include "refuse_arguments.hpp"
#include "reverse_ring.hpp"
#include "wreath/plan.hpp"

namespace {

using namespace wreath;

bool any_problem(const Problem&) { return true; }

// This is the row. Order::Ring says that sums are formed along the ring, not in the canonical tree. So the tuner takes
// it only where reproducible is off, or where a caller names it.
constexpr Algorithm kReverseRing{"reverse_ring", Collective::AllReduce,   Order::Ring,      1, kPartialMessages,
                                 any_problem,    reverse_ring_all_reduce, reverse_ring_cost};

// The mistake is easy to make: rank 0 forgets its last message.
Schedule forgetful(const Problem& problem, Rank me) {
  const Schedule whole = reverse_ring_all_reduce(problem, me);
  if (me != 0 || problem.ranks == 1) return whole;
  Schedule cut(whole.parts());
  const auto& lines = whole.lanes().front().lines();
  for (std::size_t i = 0; i + 1 < lines.size(); ++i) {
    const Line& line = lines[i];
    const Incoming incoming{.form = line.form};
    if (line.word == Word::Send) cut.lane().send(line.peers[0], line.source);
    if (line.word == Word::Recv) cut.lane().recv(line.peers[0], line.target, incoming);
    if (line.word == Word::RecvReduce) cut.lane().recv_reduce(line.peers[0], line.source, line.target, incoming);
  }
  return cut;
}

bool prove(const Algorithm& algorithm, int most_ranks) {
  for (int ranks = 1; ranks <= most_ranks; ++ranks) {
    const auto points = verify_all(algorithm, {Collective::AllReduce, ranks});
    if (!points) {
      std::printf("%.*s, %d ranks: refused: %s\n", static_cast<int>(algorithm.name.size()), algorithm.name.data(),
                  ranks, points.error().message.c_str());
      return false;
    }
    std::printf("%.*s, %d ranks: proved at %llu points\n", static_cast<int>(algorithm.name.size()),
                algorithm.name.data(), ranks, static_cast<unsigned long long>(*points));
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  refuse_arguments(argc, argv);
  const auto plan = show_plan(kReverseRing, {Collective::AllReduce, 3}, 0, {.bytes = 12'000});
  if (plan) std::printf("%s\n", plan->c_str());
  constexpr Algorithm kForgetful{"forgetful",      Collective::AllReduce, Order::Ring, 1,
                                 kPartialMessages, any_problem,           forgetful,   reverse_ring_cost};
  const auto counted = simulate(kReverseRing, {Collective::AllReduce, 8}, {.count = 8});
  if (counted) std::printf("on 8 ranks: %d steps, cost() says %d\n", counted->steps, kReverseRing.cost({{}, 8}).steps);
  const bool proved = prove(kReverseRing, 8);
  const bool caught = !prove(kForgetful, 8);
  return proved && caught ? 0 : 1;
}
