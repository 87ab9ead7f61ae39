// Runs process groups with a deadline.
#include "perf/compare/processes.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "src/process/child_process.hpp"

namespace wreath::perf {
namespace {

using Clock = std::chrono::steady_clock;

// Returns the environment of this process, with `variables` in place of those of the same names.
std::vector<std::string> environment_with(const std::vector<std::string>& variables) {
  std::vector<std::string> all = variables;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view text = *each;
    const std::string_view name = text.substr(0, text.find('=') + 1);
    const auto replaces = [&](const std::string& variable) { return variable.starts_with(name); };
    if (std::none_of(variables.begin(), variables.end(), replaces)) all.emplace_back(text);
  }
  return all;
}

// Returns the end of a log, without empty lines.
std::string last_lines(const std::string& log) {
  std::ifstream file(log);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) lines.push_back(line);
  }
  std::string text;
  for (std::size_t i = lines.size() > 3 ? lines.size() - 3 : 0; i < lines.size(); ++i) text += "\n  " + lines[i];
  return text;
}

// A group of processes, which the destructor ends.
class Processes {
 public:
  ~Processes() {
    if (group_ > 0 && running_ > 0) end();
  }
  Status add(const std::vector<std::string>& command, const std::vector<std::string>& variables, int log) {
    const auto child = process::start_child({.command = command,
                                             .environment = environment_with(variables),
                                             .group = group_,
                                             .output = log,
                                             .errors = log});
    if (!child) return child.error();
    if (group_ == 0) group_ = *child;
    ++running_;
    return {};
  }
  // Returns whether all have ended. first_failure() returns the end of the first that failed.
  bool ended() {
    int status = 0;
    while (running_ > 0 && ::waitpid(-group_, &status, WNOHANG) > 0) {
      --running_;
      if (status == 0 || failure_) continue;
      failure_ =
          WIFSIGNALED(status) ? End{End::How::Signalled, WTERMSIG(status)} : End{End::How::Exited, WEXITSTATUS(status)};
    }
    return running_ == 0;
  }
  const std::optional<End>& first_failure() const { return failure_; }

 private:
  void end() {
    ::kill(-group_, SIGTERM);
    for (int i = 0; i < 20 && !ended(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ::kill(-group_, SIGKILL);
    while (!ended()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }

  pid_t group_ = 0;
  int running_ = 0;
  std::optional<End> failure_;
};

std::string name_of(const Start& start) {
  return std::filesystem::path(start.commands.front().front()).filename().string();
}

}  // namespace

Result<End> run_group(const Start& start, const std::string& log, std::int64_t timeout_ms, int interrupt) {
  const int descriptor = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (descriptor < 0) return Error{ErrorCode::System, fmt::format("{}: {}", log, std::strerror(errno))};
  Processes processes;
  Status started;
  for (std::size_t i = 0; i < start.commands.size() && started; ++i) {
    started = processes.add(start.commands[i], start.variables, descriptor);
  }
  ::close(descriptor);
  if (!started) return Error{started.error().code, fmt::format("{}: {}", name_of(start), started.error().message)};
  const auto deadline = Clock::now() + std::chrono::milliseconds(timeout_ms);
  while (!processes.ended() && !processes.first_failure()) {
    if (Clock::now() > deadline) return End{End::How::TimedOut};
    pollfd stop{interrupt, POLLIN, 0};
    if (::poll(&stop, 1, 5) > 0) return End{End::How::Interrupted};
  }
  return processes.first_failure().value_or(End{});
}

Status run_to_end(const Start& start, const std::string& log, std::int64_t timeout_ms) {
  const auto end = run_group(start, log, timeout_ms, -1);
  if (!end) return end.error();
  switch (end->how) {
    case End::How::Exited:
      if (end->value == 0) return {};
      return Error{ErrorCode::System, fmt::format("{}: exit code {}{}", name_of(start), end->value, last_lines(log))};
    case End::How::TimedOut:
      return Error{ErrorCode::Timeout,
                   fmt::format("{}: not done within {} ms{}", name_of(start), timeout_ms, last_lines(log))};
    default: break;
  }
  return Error{ErrorCode::System, fmt::format("{}: ended by signal {}{}", name_of(start), end->value, last_lines(log))};
}

}  // namespace wreath::perf
