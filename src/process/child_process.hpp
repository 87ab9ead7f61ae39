// Starting programs: fork and exec, with a pipe that says why it could not be.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "src/base/fd.hpp"
#include "src/base/io.hpp"
#include "wreath/result.hpp"

namespace wreath::process {

// Both ends close when a program begins. write_all (src/base/io.hpp) writes to one.
struct Pipe {
  Fd read;
  Fd write;
};
Result<Pipe> make_pipe();

struct ChildProgram {
  std::vector<std::string> command{};      // the program is looked for in PATH where its name has no slash
  std::string file{};                      // the program's, where it is not its name; empty: its name
  std::vector<std::string> environment{};  // NAME=value, all of it; empty: this process's
  std::string folder{};                    // empty: this process's
  int program = -1;                        // a descriptor of the program's file, in place of `file`; -1: none
  int root = -1;  // a descriptor of the folder that becomes its root; -1: this process's root. Needs rights over a
                  // user namespace where this process is not root's
  std::vector<int> processors{};  // that it may use; empty: as this process
  std::optional<pid_t> group{};   // 0: one of its own; none: this process's
  bool outlives = false;          // else it dies with the thread that starts it
  // These become its standard streams; -1: /dev/null for input, this process's for the others.
  int input = -1;
  int output = -1;
  int errors = -1;
  int passed = -1;  // a descriptor that it gets by its number; -1: none
};

// Collects what a child writes to its standard output and its standard errors, and waits for its end. Timeout where it
// takes longer than `timeout_ms`; it is killed then.
struct Output {
  std::string text;
  int status = 0;  // as of waitpid(2)
};
Result<Output> output_of(ChildProgram child, int timeout_ms);

// Its pid, once it runs as the program. No signal is blocked or ignored there. StartupFailed names the folder or the
// program that could not be had, System what the system refused.
Result<pid_t> start_child(const ChildProgram& child);

// This program's file, also where there is no /proc.
std::string own_program();

}  // namespace wreath::process
