// Runs the `wreath` command as a user would.
#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

namespace wreath::testing_support {

inline constexpr int kUsage = 2;  // the exit code of a wrong command line
// Before a line: with a driver that is none.
inline constexpr const char* kFakeCuda = "LD_LIBRARY_PATH=" WREATH_FAKE_CUDA " ";

struct Outcome {
  int exit_code = -1;
  std::string text;
};

// Runs a line of the shell. The text is all that it prints.
inline Outcome run_line(const std::string& line) {
  std::FILE* const output = ::popen(("exec 2>&1; " + line).c_str(), "r");
  if (output == nullptr) return {};
  Outcome outcome;
  std::array<char, 4096> piece{};
  while (std::fgets(piece.data(), static_cast<int>(piece.size()), output) != nullptr) outcome.text += piece.data();
  const int status = ::pclose(output);
  if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
  return outcome;
}

// Runs a program that was built, with arguments; a shell reads them, and `before` them.
inline Outcome run_program(const std::string& line, const std::string& before = "") {
  return run_line(before + WREATH_BINARY_DIR "/" + line);
}

inline Outcome run_command(const std::string& arguments, const std::string& before = "") {
  return run_program("wreath " + arguments, before);
}

}  // namespace wreath::testing_support
