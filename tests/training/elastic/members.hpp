// Members of an elastic job as processes of the test, which starts, kills and adds them as a launcher would.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/support/processes.hpp"

namespace wreath::gpt::test {

using testing_support::Arguments;

struct JobShape {
  int members = 2;
  int min_ranks = 1;
  int max_ranks = 64;
};

class Members {
 public:
  // Arguments of the role "trains" (members.cpp): dp, tp, zero, steps, checkpoint (1), diverges (1).
  Members(const std::string& role, const JobShape& shape, Arguments arguments);

  testing_support::RankProcess& operator[](int number) { return processes_.at(number); }
  // A process more, with a number never used.
  void join(int number);
  void kill(int number);
  // Exit codes by number, 1000 + the signal that ended it; -1: it had to be killed at the end.
  std::map<int, int> wait();
  std::string csv() const { return folder_ / "loss.csv"; }
  std::string folder() const { return folder_ / "job"; }
  std::string log(int number) const;
  std::string logs() const;
  // Lines that the first ranks have written; false: they did not come.
  bool wait_for_steps(std::int64_t steps) const;
  std::int64_t steps_written() const;
  // Whatever is left in the job's folder that is for one member only.
  std::vector<std::string> leftovers() const;

 private:
  void start(int number, Arguments environment);
  wreath::test::Folder folder_;
  std::string role_;
  Arguments arguments_, environment_;
  std::map<int, testing_support::RankProcess> processes_;
};

// Losses of a log, by step; every step is there once, in its order, else a failure is added.
std::vector<double> losses_of(const std::string& csv);
// ... of the same training on one rank that nothing disturbs.
const std::vector<double>& undisturbed(std::int64_t steps);

}  // namespace wreath::gpt::test
