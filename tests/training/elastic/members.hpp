// The members of an elastic job are processes of the test, which starts, kills and adds them as a launcher would.
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
  // The arguments of the role "trains" (members.cpp) are dp, tp, zero, steps, checkpoint (1), diverges (1) and torn:
  // the step that the world's second rank fails in, and the first one does not.
  Members(const std::string& role, const JobShape& shape, Arguments arguments);

  testing_support::RankProcess& operator[](int number) { return processes_.at(number); }
  // Starts one more process. Its number must be a new one.
  void join(int number);
  void kill(int number);
  // Waits for all processes. Returns each one's exit code by its number, 1000 + the signal that ended it, or -1 if it
  // had to be killed.
  std::map<int, int> wait();
  std::string csv() const { return folder_ / "loss.csv"; }
  std::string folder() const { return folder_ / "job"; }
  std::string log(int number) const;
  std::string logs() const;
  // Waits until the log has `steps` steps. Returns false if they do not come in time.
  bool wait_for_steps(std::int64_t steps) const;
  // Returns the number of steps that the first ranks have written.
  std::int64_t steps_written() const;
  // Returns the files that are left in the job's folder although they are for one member only.
  std::vector<std::string> leftovers() const;

 private:
  void start(int number, Arguments environment);
  wreath::test::Folder folder_;
  std::string role_;
  Arguments arguments_, environment_;
  std::map<int, testing_support::RankProcess> processes_;
};

// Returns the losses of a log, by step. Adds a failure unless every step is there once, in its order.
std::vector<double> losses_of(const std::string& csv);
// Returns the losses of the same training on one rank that nothing disturbs.
const std::vector<double>& undisturbed(std::int64_t steps);

}  // namespace wreath::gpt::test
