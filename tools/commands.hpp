// The subcommands of `wreath`: each in its own file, listed in main.cpp.
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

// Adds options to `command` and returns what runs it; that returns the exit code.
using AddCommand = std::function<int()> (*)(const command_line::Command& command);

std::function<int()> add_doctor(const command_line::Command& command);
std::function<int()> add_key(const command_line::Command& command);
std::function<int()> add_plan(const command_line::Command& command);
std::function<int()> add_run(const command_line::Command& command);
std::function<int()> add_topo(const command_line::Command& command);
std::function<int()> add_trace(const command_line::Command& command);
std::function<int()> add_tune(const command_line::Command& command);
std::function<int()> add_why(const command_line::Command& command);

// For options where nothing would mean that they were not given: as `--hosts "$HOSTS"` with HOSTS unset.
inline std::string not_empty(const std::string& text) { return text.empty() ? "it is empty" : ""; }

// For commands that start ranks: says where MPI's launcher started several of this command, each of which does so.
inline void warn_of_strangers() {
  const auto job = environment_job();
  if (!job || job->strangers.empty()) return;
  fmt::print(stderr, "wreath: warning: {}: each of these processes starts ranks of its own\n", job->strangers);
}

// Of --root: a folder, or empty.
inline Status check_root(const std::string& root) {
  std::error_code ignored;
  if (root.empty() || std::filesystem::is_directory(root, ignored)) return {};
  return Error{ErrorCode::InvalidArgument, "--root " + root + ": it is not a folder"};
}

}  // namespace wreath
