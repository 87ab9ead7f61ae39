// Starts ranks by fork and exec. Each has a pipe for its place, a pipe for its stderr, and a pidfd to wait on.
#include "perf/common/launch.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>

#include "src/command_line/program.hpp"
#include "src/process/child_process.hpp"
#include "wreath/environment.hpp"

namespace wreath::perf {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kGrace = std::chrono::seconds(2);
constexpr int kStartFailed = 6;

sigset_t ending_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, signal);
  return set;
}

struct Child {
  pid_t pid = -1;
  Fd exited;  // pidfd
  Fd place;   // this process's end
  // The child's stderr; empty for the first process, which has the stderr of this process.
  Fd errors;
  std::string prefix;
  std::string line;  // of stderr, not yet complete
  bool running() const { return static_cast<bool>(exited); }
};

Result<Child> start(int process, int threads, const std::vector<std::string>& command) {
  auto place = process::make_pipe();
  if (!place) return place.error();
  auto errors = process::make_pipe();
  if (!errors) return errors.error();
  process::ChildProgram program{.command = command, .file = process::own_program(), .passed = place->read.get()};
  program.command.insert(program.command.end(), {"--start-descriptor", std::to_string(place->read.get())});
  const Fd nothing(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  if (process > 0) {
    program.output = nothing.get();
    program.errors = errors->write.get();
  }
  const auto pid = process::start_child(program);
  if (!pid) return pid.error();
  Child child;
  child.pid = *pid;
  child.exited = Fd(static_cast<int>(syscall(SYS_pidfd_open, *pid, 0)));
  child.place = std::move(place->write);
  if (process > 0) child.errors = std::move(errors->read);
  child.prefix = fmt::format("[{}] ", process * threads);
  return child;
}

// The started processes and the loop that watches them.
class Job {
 public:
  Job(int processes, int threads) : processes_(processes), threads_(threads) {}
  ~Job() { end(SIGKILL); }

  int run(const std::vector<std::string>& command) {
    const sigset_t signals = ending_signals();
    sigset_t before;
    sigprocmask(SIG_BLOCK, &signals, &before);
    // A write to a rank that has ended becomes an error, and no signal.
    const auto on_broken_pipe = ::signal(SIGPIPE, SIG_IGN);
    signals_ = Fd(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
    const int code = start_all(command) ? watch() : kStartFailed;
    end(SIGKILL);
    (void)::signal(SIGPIPE, on_broken_pipe);
    sigprocmask(SIG_SETMASK, &before, nullptr);
    return code;
  }

 private:
  bool start_all(const std::vector<std::string>& command) {
    for (int process = 0; process < processes_; ++process) {
      auto child = start(process, threads_, command);
      if (!child) {
        fmt::print(stderr, "wreath: error: process {} of {}: {}\n", process, processes_, child.error().message);
        return false;
      }
      children_.push_back(*std::move(child));
    }
    // The id is made after the forks, since making it starts a thread.
    const auto id = UniqueId::create();
    if (!id) {
      command_line::complain(id.error().message);
      return false;
    }
    for (int process = 0; process < processes_; ++process) {
      const Place place{process, processes_, *id};
      Child& child = children_[static_cast<std::size_t>(process)];
      // A child that has ended already reports the reason itself, and ends the others.
      static_cast<void>(write_all(child.place.get(), {reinterpret_cast<const char*>(&place), sizeof place}));
      child.place = Fd();
    }
    return true;
  }

  int watch() {
    while (std::any_of(children_.begin(), children_.end(), [](const Child& c) { return c.running() || c.errors; })) {
      wait_for_news();
      read_signals();
      for (Child& child : children_) {
        forward(child);
        reap(child);
      }
      if (deadline_ && Clock::now() > *deadline_) end(SIGKILL);
    }
    return code_;
  }

  void wait_for_news() {
    std::vector<pollfd> watched{{signals_.get(), POLLIN, 0}};
    for (const Child& child : children_) {
      if (child.running()) watched.push_back({child.exited.get(), POLLIN, 0});
      if (child.errors) watched.push_back({child.errors.get(), POLLIN, 0});
    }
    poll(watched.data(), watched.size(), deadline_ ? 100 : -1);
  }

  void read_signals() {
    signalfd_siginfo info;
    if (read(signals_.get(), &info, sizeof(info)) != static_cast<ssize_t>(sizeof(info))) return;
    fail(128 + static_cast<int>(info.ssi_signo));
    end(SIGTERM);
  }

  // Returns whether the exit code says that another rank is at fault.
  bool blames_another() const { return code_ == exit_code(ErrorCode::PeerLost); }

  void fail(int code) {
    if (code_ == 0 || blames_another()) code_ = code;
    if (!deadline_) deadline_ = Clock::now() + kGrace;
  }

  // Passes on, line by line, what a child wrote to stderr.
  void forward(Child& child) {
    if (!child.errors) return;
    std::array<char, 4096> bytes;
    pollfd ready{child.errors.get(), POLLIN, 0};
    while (poll(&ready, 1, 0) > 0) {
      const ssize_t got = read(child.errors.get(), bytes.data(), bytes.size());
      if (got < 0 && errno == EINTR) continue;
      if (got > 0) child.line.append(bytes.data(), static_cast<std::size_t>(got));
      if (got <= 0 && !child.line.empty()) child.line += '\n';
      await_first_without_reader();
      if (!child.errors) return;
      for (auto end = child.line.find('\n'); end != std::string::npos; end = child.line.find('\n')) {
        const std::string text = child.prefix + child.line.substr(0, end + 1);
        if (!quiet_) static_cast<void>(write_all(STDERR_FILENO, text));
        child.line.erase(0, end + 1);
      }
      if (got > 0) continue;
      child.errors = Fd();
      return;
    }
  }

  // Waits for the end of the first process where the reader of the results may have gone. That process is then about to
  // end for that reason, and the messages of the others about its end are useless. Its connections close before it can
  // be reaped.
  void await_first_without_reader() {
    pollfd results{STDOUT_FILENO, 0, 0};
    Child& first = children_.front();
    if (awaited_first_ || !first.running() || poll(&results, 1, 0) <= 0 || (results.revents & POLLERR) == 0) return;
    awaited_first_ = true;
    pollfd exited{first.exited.get(), POLLIN, 0};
    if (poll(&exited, 1, std::chrono::milliseconds(kGrace).count()) > 0) reap(first);
  }

  void reap(Child& child) {
    if (!child.running()) return;
    int status = 0;
    if (waitpid(child.pid, &status, WNOHANG) != child.pid) return;
    child.exited = Fd();
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE && &child == &children_.front()) {
      // The reader of the results has gone, as `head` does, so nothing is wrong.
      quiet_ = true;
      fail(128 + SIGPIPE);
      end(SIGKILL);
    } else if (WIFSIGNALED(status)) {
      if (code_ == 0 || blames_another()) {
        fmt::print(stderr, "{}wreath: error: pid {} was ended by signal {} ({})\n", child.prefix, child.pid,
                   WTERMSIG(status), strsignal(WTERMSIG(status)));
      }
      fail(128 + WTERMSIG(status));
    } else if (WEXITSTATUS(status) != 0) {
      fail(WEXITSTATUS(status));
    }
  }

  // Signals every child that still runs. SIGKILL also waits for them.
  void end(int signal) {
    for (Child& child : children_) {
      if (child.running()) kill(child.pid, signal);
    }
    if (signal != SIGKILL) return;
    for (Child& child : children_) {
      if (child.running()) waitpid(child.pid, nullptr, 0);
      child.exited = Fd();
      forward(child);
      child.errors = Fd();
    }
  }

  int processes_;
  int threads_;
  std::vector<Child> children_;
  Fd signals_;
  std::optional<Clock::time_point> deadline_;
  int code_ = 0;
  bool quiet_ = false;
  bool awaited_first_ = false;
};

}  // namespace

int launch(int processes, int threads, const std::vector<std::string>& command) {
  return Job(processes, threads).run(command);
}

Status check_started_once() {
  const auto job = environment_job();
  if (!job || (job->ranks == 1 && job->strangers.empty())) return {};
  const std::string why = job->launched ? fmt::format("{} say {} ranks", job->source, job->ranks) : job->strangers;
  return Error{ErrorCode::InvalidArgument,
               fmt::format("{}: this program starts ranks of its own; start it once, without a launcher", why)};
}

Result<Place> read_place(int descriptor) {
  Place place;
  char* at = reinterpret_cast<char*>(&place);
  std::size_t missing = sizeof(place);
  while (missing > 0) {
    const ssize_t got = read(descriptor, at, missing);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      return Error{ErrorCode::StartupFailed, fmt::format("the process that started this rank ended before telling it "
                                                         "its place (descriptor {})",
                                                         descriptor)};
    }
    at += got;
    missing -= static_cast<std::size_t>(got);
  }
  close(descriptor);
  return place;
}

}  // namespace wreath::perf
