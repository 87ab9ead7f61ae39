// Starts programs by fork and exec. A pipe reports why a program could not be started.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "src/base/fd.hpp"
#include "src/base/io.hpp"
#include "wreath/result.hpp"

namespace wreath::process {

// A pipe whose ends both close when a program begins. write_all (src/base/io.hpp) writes to an end.
struct Pipe {
  Fd read;
  Fd write;
};
Result<Pipe> make_pipe();

struct ChildProgram {
  // The program and its arguments. The child's PATH is searched for the program where its name has no slash.
  std::vector<std::string> command{};
  // The program's file, where it differs from its name; empty: its name.
  std::string file{};
  // All variables, as NAME=value; empty: the variables of this process.
  std::vector<std::string> environment{};
  // The working folder; empty: the folder of this process.
  std::string folder{};
  // A descriptor of the program's file, in place of `file`; -1: none.
  int program = -1;
  // A descriptor of the folder that becomes the child's root; -1: the root of this process. A process without root's
  // rights needs the right to make a user namespace for it.
  int root = -1;
  // The processors that the child may use; empty: the same as this process.
  std::vector<int> processors{};
  // The process group; 0: one of its own; none: the group of this process.
  std::optional<pid_t> group{};
  // Lets the child live on after the thread that starts it. Otherwise the child dies with that thread.
  bool outlives = false;
  // These three become the child's standard streams; -1: /dev/null for input, the stream of this process for the
  // others.
  int input = -1;
  int output = -1;
  int errors = -1;
  // A descriptor that the child gets under the same number; -1: none.
  int passed = -1;
};

// The output of a child and its exit status.
struct Output {
  std::string text;
  int status = 0;  // of waitpid(2)
};
// Runs a child, waits for its end, and returns what it wrote to standard output and standard error. Kills it and
// returns Timeout where it takes longer than `timeout_ms`, System where it writes more than 64 MiB.
Result<Output> output_of(ChildProgram child, int timeout_ms);

// Starts a child and returns its pid once it runs as the program. No signal is blocked or ignored in the child.
// StartupFailed names the folder or the program that cannot be used; System names what the system refused.
Result<pid_t> start_child(const ChildProgram& child);

// Returns the path of this program's file, even where there is no /proc.
std::string own_program();

}  // namespace wreath::process
