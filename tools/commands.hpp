// The subcommands of `wreath`. Each is in its own file and in the table of main.cpp.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <functional>
#include <string>
#include <system_error>

#include "src/command_line/command.hpp"
#include "wreath/environment.hpp"
#include "wreath/result.hpp"

namespace wreath {

// Adds options to `command`, and returns the function that runs it. That function returns the exit code.
using AddCommand = std::function<int()> (*)(const command_line::Command& command);

std::function<int()> add_doctor(const command_line::Command& command);
std::function<int()> add_key(const command_line::Command& command);
std::function<int()> add_plan(const command_line::Command& command);
std::function<int()> add_run(const command_line::Command& command);
std::function<int()> add_topo(const command_line::Command& command);
std::function<int()> add_trace(const command_line::Command& command);
std::function<int()> add_tune(const command_line::Command& command);
std::function<int()> add_why(const command_line::Command& command);

// Refuses an empty value. It serves options whose empty value would count as no option, such as `--hosts "$HOSTS"` with
// HOSTS unset.
inline std::string not_empty(const std::string& text) { return text.empty() ? "it is empty" : ""; }

// Warns where MPI's launcher started several processes of this command, each of which starts ranks.
inline void warn_of_strangers() {
  const auto job = environment_job();
  if (!job || job->strangers.empty()) return;
  fmt::print(stderr, "wreath: warning: {}: each of these processes starts ranks of its own\n", job->strangers);
}

// Checks the value of --root, which is a folder or empty.
inline Status check_root(const std::string& root) {
  std::error_code ignored;
  if (root.empty() || std::filesystem::is_directory(root, ignored)) return {};
  return Error{ErrorCode::InvalidArgument, "--root " + root + ": it is not a folder"};
}

}  // namespace wreath
