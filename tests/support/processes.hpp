// Runs ranks as processes: the test program starts itself again with a role, talks to it over two pipes, and collects
// how it ended. Children die with the parent.
//
// Roles are declared beside the tests, and tests/support/test_main.cpp runs them:
//   WREATH_ROLE(loop) { return child.create().error() ... ; }
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/base/clock.hpp"
#include "src/base/config.hpp"
#include "src/base/fd.hpp"
#include "tests/support/surroundings.hpp"
#include "wreath/communicator.hpp"

namespace wreath::testing_support {

using Arguments = std::map<std::string, std::string>;

// Deadlines of tests are multiplied by this, because sanitizers slow everything.
#if defined(WREATH_SANITIZED)
inline constexpr int kSlower = 5;
inline constexpr bool kSanitized = true;
#else
inline constexpr int kSlower = 1;
inline constexpr bool kSanitized = false;
#endif

// The clocks of communicators, for tests that wait until they run out.
inline constexpr int kClockMs = kSanitized ? 2'000 : 1'500;

// Returns `normal`, or `many` with WREATH_TEST_LONG=1. A sanitizer divides larger numbers by kSlower, but not to less
// than `normal`.
inline int rounds(int normal, int many) {
  const auto long_run = setting_boolean(Setting::TestLong);
  if (!long_run || !*long_run) return normal;
  return many > normal ? std::max(normal, many / kSlower) : many;
}

// Says whether matrices take every case instead of a choice: with WREATH_TEST_LONG=1, but not under a sanitizer, for
// which most cases are the same code.
inline bool takes_every_case() { return !kSanitized && rounds(0, 1) == 1; }

// Returns the step of a loop over many alike cases: one in four is taken under a sanitizer, and all of them
// with WREATH_TEST_LONG=1.
inline std::uint32_t case_step() { return static_cast<std::uint32_t>(rounds(kSanitized ? 4 : 1, 1)); }

// Returns each case_step()-th of these, the first among them.
template <typename Case>
std::vector<Case> thinned(const std::vector<Case>& all) {
  std::vector<Case> taken;
  for (std::size_t i = 0; i < all.size(); i += case_step()) taken.push_back(all[i]);
  return taken;
}

inline void sleep_ms(std::int64_t ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

// Polls `condition` until it holds or `ms` are over.
template <typename Condition>
bool eventually(std::int64_t ms, Condition condition) {
  const Deadline deadline = Deadline::after_ms(ms);
  while (!condition()) {
    if (deadline.passed()) return condition();
    sleep_ms(2);
  }
  return true;
}

using test::Folder;

// Reads lines from a pipe with a deadline.
class LineReader {
 public:
  explicit LineReader(Fd pipe) : pipe_(std::move(pipe)) {}
  // Returns the next line, or nullopt where the other end closed or `ms` are over.
  std::optional<std::string> line(std::int64_t ms) {
    const Deadline deadline = Deadline::after_ms(ms);
    for (;;) {
      const std::size_t end = text_.find('\n');
      if (end != std::string::npos) {
        std::string found = text_.substr(0, end);
        text_.erase(0, end + 1);
        return found;
      }
      pollfd polled{pipe_.get(), POLLIN, 0};
      if (::poll(&polled, 1, deadline.left_ms()) <= 0) return std::nullopt;
      char buffer[4096];
      const ssize_t bytes = ::read(pipe_.get(), buffer, sizeof buffer);
      if (bytes <= 0) return std::nullopt;
      text_.append(buffer, static_cast<std::size_t>(bytes));
    }
  }

 private:
  Fd pipe_;
  std::string text_;
};

inline void write_line(int descriptor, const std::string& text) {
  const std::string line = text + "\n";
  static_cast<void>(!::write(descriptor, line.data(), line.size()));
}

inline constexpr int kCommandsDescriptor = 3;
inline constexpr int kReportsDescriptor = 4;

// Gives a role, in the child, its arguments and its way to the parent.
class Child {
 public:
  explicit Child(Arguments arguments) : arguments_(std::move(arguments)), commands_(Fd(kCommandsDescriptor)) {}
  int rank() const { return static_cast<int>(number("rank")); }
  int ranks() const { return static_cast<int>(number("ranks")); }
  std::string text(const std::string& name, const std::string& fallback = "") const {
    const auto found = arguments_.find(name);
    return found == arguments_.end() ? fallback : found->second;
  }
  std::int64_t number(const std::string& name, std::int64_t fallback = 0) const {
    const auto found = arguments_.find(name);
    return found == arguments_.end() ? fallback : std::stoll(found->second);
  }
  // Writes a line to the parent.
  void report(const std::string& line) const { write_line(kReportsDescriptor, line); }
  // Returns the parent's next line; empty when the parent is gone or silent.
  std::string command(std::int64_t ms = 60'000) { return commands_.line(ms).value_or(""); }
  // Returns the id of the job: rank 0 makes it, and the parent hands it to the others.
  UniqueId id() {
    if (rank() == 0) {
      const UniqueId made = UniqueId::create().value();
      report("id " + made.to_string());
      return made;
    }
    return UniqueId::parse(command().substr(3)).value();
  }
  // Returns options from the arguments transport, devices, device_RANK, algorithm, handwritten, stall_ms, arrival_ms,
  // late_ms and bootstrap_ms.
  CommunicatorOptions options() const {
    CommunicatorOptions options;
    std::istringstream names(text("transport"));
    for (std::string name; std::getline(names, name, ',');) options.transports.push_back(name);
    options.device = text("device_" + std::to_string(rank()), text("devices"));
    options.overrides.algorithm = text("algorithm");
    options.overrides.executor = number("handwritten", 0) != 0 ? "handwritten" : "steps";
    options.timeouts.stall_ms = number("stall_ms", 2'000);
    options.timeouts.arrival_ms = number("arrival_ms", 2'000);
    options.timeouts.late_warning_ms = number("late_ms", 500);
    options.timeouts.bootstrap_ms = number("bootstrap_ms", 20'000 * kSlower);
    return options;
  }
  Result<Communicator> create() { return Communicator::create(id(), rank(), ranks(), options()); }
  // Reports the failure of the role as "error CODE RANK MESSAGE", and returns the exit code for it.
  int failed(const Error& error) const {
    report("error " + std::to_string(static_cast<int>(error.code)) + " " + std::to_string(error.failed_rank) + " " +
           error.message);
    return exit_code(error.code);
  }

 private:
  Arguments arguments_;
  LineReader commands_;
};

// Returns arguments for Child::options(): a rank is late after a third of kClockMs, and missed after all of it.
inline Arguments short_clocks() {
  const std::string clock = std::to_string(kClockMs);
  return {{"stall_ms", clock}, {"arrival_ms", clock}, {"late_ms", std::to_string(kClockMs / 3)}};
}

// ---- roles ----

using RoleFunction = int (*)(Child&);

inline std::map<std::string, RoleFunction>& roles() {
  static std::map<std::string, RoleFunction> table;
  return table;
}

// Adds a role to the table. A second role of the same name ends the program.
inline bool add_role(const char* name, RoleFunction function) {
  if (roles().emplace(name, function).second) return true;
  std::cerr << "two roles are called " << name << "\n";
  std::abort();
}

#define WREATH_ROLE(name)                                                                 \
  int role_##name(::wreath::testing_support::Child& child);                               \
  const bool role_added_##name = ::wreath::testing_support::add_role(#name, role_##name); \
  int role_##name([[maybe_unused]] ::wreath::testing_support::Child& child)

// ---- the parent's side ----

// Holds the failure that a role reported with Child::failed().
struct Failure {
  ErrorCode code;
  int failed_rank;
  std::string message;
};

inline std::optional<Failure> failure_of(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    if (!line.starts_with("error ")) continue;
    std::istringstream text(line.substr(6));
    int code = 0;
    int rank = -1;
    text >> code >> rank;
    std::string message;
    std::getline(text >> std::ws, message);
    return Failure{static_cast<ErrorCode>(code), rank, message};
  }
  return std::nullopt;
}

class RankProcess {
 public:
  RankProcess(RankProcess&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)),
        commands_(std::move(other.commands_)),
        reports_(std::move(other.reports_)),
        log_(std::move(other.log_)),
        lines_(std::move(other.lines_)) {}
  RankProcess& operator=(RankProcess&&) = delete;
  ~RankProcess() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  // Starts this program with `role`; its standard output and error go to the file `log`.
  static RankProcess start(const std::string& role, const Arguments& arguments, const Arguments& environment,
                           const std::string& log) {
    int commands[2];
    int reports[2];
    // Commands go through sockets, because a write to a process that has ended must not end this one by SIGPIPE.
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, commands) != 0 || ::pipe2(reports, O_CLOEXEC) != 0)
      throw std::runtime_error("no pipes for a rank's process");
    std::vector<std::string> words{"/proc/self/exe", "--role=" + role};
    for (const auto& [name, value] : arguments) words.push_back(name + "=" + value);
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    std::fflush(nullptr);
    const pid_t parent = ::getpid();
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(98);
      const int output = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
      ::dup2(output, 1);
      ::dup2(output, 2);
      // The descriptors go through high numbers, because the pipes themselves may be 3 and 4.
      const int from = ::fcntl(commands[0], F_DUPFD_CLOEXEC, 100);
      const int to = ::fcntl(reports[1], F_DUPFD_CLOEXEC, 100);
      ::dup2(from, kCommandsDescriptor);
      ::dup2(to, kReportsDescriptor);
      for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
      ::execv("/proc/self/exe", argv.data());
      ::_exit(97);
    }
    ::close(commands[0]);
    ::close(reports[1]);
    return RankProcess(pid, Fd(commands[1]), Fd(reports[0]), log);
  }

  pid_t pid() const { return pid_; }
  void signal(int number) const { ::kill(pid_, number); }
  void command(const std::string& line) const {
    const std::string text = line + "\n";
    static_cast<void>(::send(commands_.get(), text.data(), text.size(), MSG_NOSIGNAL));
  }
  // Returns the next line that the process reports, and keeps it in lines().
  std::optional<std::string> line(std::int64_t ms) {
    auto found = reports_.line(ms);
    if (found) lines_.push_back(*found);
    return found;
  }
  // Reads lines until one starts with `start`.
  bool wait_for(const std::string& start, std::int64_t ms) {
    const Deadline deadline = Deadline::after_ms(ms);
    for (;;) {
      const auto found = line(deadline.left_ms());
      if (!found) return false;
      if (found->starts_with(start)) return true;
    }
  }
  // Returns the exit code, or 1000 + the signal that ended the process. Returns nullopt, and kills the process, after
  // `ms`.
  std::optional<int> join(std::int64_t ms) {
    const Deadline deadline = Deadline::after_ms(ms);
    int status = 0;
    pid_t ended = 0;
    while ((ended = ::waitpid(pid_, &status, WNOHANG)) == 0 && !deadline.passed()) {
      line(2);
    }
    const bool in_time = ended == pid_;
    if (!in_time) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, &status, 0);
    }
    pid_ = -1;
    while (line(0)) {
    }
    if (!in_time) return std::nullopt;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }
  const std::vector<std::string>& lines() const { return lines_; }
  std::optional<Failure> failure() const { return failure_of(lines_); }
  // Returns the output of the process.
  std::string log() const {
    std::ifstream file(log_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  RankProcess(pid_t pid, Fd commands, Fd reports, std::string log)
      : pid_(pid), commands_(std::move(commands)), reports_(std::move(reports)), log_(std::move(log)) {}
  pid_t pid_;
  Fd commands_;
  LineReader reports_;
  std::string log_;
  std::vector<std::string> lines_;
};

// Holds the ranks of one job, each a process with the same role. The arguments `rank` and `ranks` are added.
class Job {
 public:
  Job(const std::string& role, int ranks, Arguments arguments = {}, Arguments environment = {}) {
    environment.emplace("WREATH_RECORDER_DIR", folder_.path());
    arguments["ranks"] = std::to_string(ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      arguments["rank"] = std::to_string(rank);
      processes_.push_back(RankProcess::start(role, arguments, environment, folder_ / ("log-" + std::to_string(rank))));
    }
  }

  int ranks() const { return static_cast<int>(processes_.size()); }
  RankProcess& operator[](int rank) { return processes_[static_cast<std::size_t>(rank)]; }
  const Folder& folder() const { return folder_; }

  // Hands the id of rank 0 to the others, `times` times: once for each communicator that is made.
  bool share_id(int times = 1) {
    for (int i = 0; i < times; ++i) {
      if (!processes_[0].wait_for("id ", 20'000 * kSlower)) return false;
      const std::string id = processes_[0].lines().back();
      for (int rank = 1; rank < ranks(); ++rank) (*this)[rank].command(id);
    }
    return true;
  }
  bool all_report(const std::string& start, std::int64_t ms) {
    const Deadline deadline = Deadline::after_ms(ms);
    return std::all_of(processes_.begin(), processes_.end(),
                       [&](RankProcess& process) { return process.wait_for(start, deadline.left_ms()); });
  }
  void command_all(const std::string& line) const {
    for (const RankProcess& process : processes_) process.command(line);
  }
  // Returns the output of all ranks, for messages of failed expectations.
  std::string logs() const {
    std::string text;
    for (const RankProcess& process : processes_) {
      text += "--- " + process.log();
      for (const std::string& line : process.lines()) {
        if (!line.starts_with("id ")) text += "> " + line + "\n";
      }
    }
    return text;
  }

 private:
  Folder folder_;
  std::vector<RankProcess> processes_;
};

}  // namespace wreath::testing_support
