// Runs the `wreath` command and other programs as a user would.
#pragma once

#include <string>

#include "tests/support/shell.hpp"

namespace wreath::testing_support {

// A program ends with this exit code after a wrong command line.
inline constexpr int kUsage = 2;
// Goes before a command line, so that the program loads the fake of CUDA's driver.
inline constexpr const char* kFakeCuda = "LD_LIBRARY_PATH=" WREATH_FAKE_CUDA " ";

// Runs a program that was built, with arguments. A shell reads `before` and then the line.
inline Outcome run_program(const std::string& line, const std::string& before = "") {
  return run_line(before + WREATH_BINARY_DIR "/" + line);
}

inline Outcome run_command(const std::string& arguments, const std::string& before = "") {
  return run_program("wreath " + arguments, before);
}

}  // namespace wreath::testing_support
