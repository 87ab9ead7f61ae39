// Runs lines of the shell, and keeps their output.
#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

namespace wreath::testing_support {

struct Outcome {
  int exit_code = -1;
  std::string text;
};

// Runs a line of the shell. The returned text is all that it prints.
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

}  // namespace wreath::testing_support
