// Runs the `wreath` command as a user would.
#pragma once

#include <string>

#include "tests/support/shell.hpp"

namespace wreath::testing_support {

inline constexpr int kUsage = 2;  // the exit code of a wrong command line
// Before a line: with a driver that is none.
inline constexpr const char* kFakeCuda = "LD_LIBRARY_PATH=" WREATH_FAKE_CUDA " ";

// Runs a program that was built, with arguments; a shell reads them, and `before` them.
inline Outcome run_program(const std::string& line, const std::string& before = "") {
  return run_line(before + WREATH_BINARY_DIR "/" + line);
}

inline Outcome run_command(const std::string& arguments, const std::string& before = "") {
  return run_program("wreath " + arguments, before);
}

}  // namespace wreath::testing_support
