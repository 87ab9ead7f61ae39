// Starts children with fork and exec. The code between the two is safe there: it allocates no memory and takes no lock.
#include "src/process/child_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "src/base/clock.hpp"

namespace wreath::process {
namespace {

constexpr std::size_t kMostOutput = 64 << 20;

// Describes what went wrong in the child. The child sends it through a pipe, which exec closes.
struct Refusal {
  enum class Step : int { Root, Folder, Program } step = Step::Program;
  int error = 0;
};

struct Words {
  explicit Words(const std::vector<std::string>& texts) {
    for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
    pointers.push_back(nullptr);
  }
  std::vector<char*> pointers;
};

[[noreturn]] void refuse(int descriptor, Refusal::Step step) {
  const Refusal refusal{step, errno};
  (void)!::write(descriptor, &refusal, sizeof refusal);
  ::_exit(exit_code(ErrorCode::StartupFailed));
}

void bind(const std::vector<int>& processors) {
  if (processors.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int processor : processors) CPU_SET(static_cast<std::size_t>(processor), &set);
  (void)::sched_setaffinity(0, sizeof set, &set);
}

// Resets all signals, so that none is blocked or ignored, as a shell would start the program.
void reset_signals() {
  for (int signal = 1; signal < NSIG; ++signal) (void)::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  (void)::sigprocmask(SIG_SETMASK, &none, nullptr);
}

void set_streams(const ChildProgram& child) {
  const int input = child.input >= 0 ? child.input : ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  (void)::dup2(input, STDIN_FILENO);
  if (child.output >= 0) (void)::dup2(child.output, STDOUT_FILENO);
  if (child.errors >= 0) (void)::dup2(child.errors, STDERR_FILENO);
  if (child.passed >= 0) (void)::fcntl(child.passed, F_SETFD, 0);
}

// Makes `folder` the root. A process without root's rights may do so in a user namespace of its own.
bool enter_root(int folder) {
  if (::fchdir(folder) != 0) return false;
  const bool entered = ::chroot(".") == 0 || (::unshare(CLONE_NEWUSER) == 0 && ::chroot(".") == 0);
  return entered && ::chdir("/") == 0;
}

[[noreturn]] void become(const ChildProgram& child, pid_t parent, int refusal, const Words& words,
                         const Words& environment) {
  if (child.group) (void)::setpgid(0, *child.group);
  if (!child.outlives) {
    (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(exit_code(ErrorCode::StartupFailed));
  }
  set_streams(child);
  bind(child.processors);
  if (child.root >= 0 && !enter_root(child.root)) refuse(refusal, Refusal::Step::Root);
  if (!child.folder.empty() && ::chdir(child.folder.c_str()) != 0) refuse(refusal, Refusal::Step::Folder);
  reset_signals();
  // A program without a slash in its name is looked for in the PATH of this environment.
  if (!child.environment.empty()) environ = const_cast<char**>(environment.pointers.data());
  if (child.program >= 0) {
    (void)::syscall(SYS_execveat, child.program, "", words.pointers.data(), environ, AT_EMPTY_PATH);
  } else {
    ::execvp(child.file.empty() ? words.pointers[0] : child.file.c_str(), words.pointers.data());
  }
  refuse(refusal, Refusal::Step::Program);
}

Error refused(const ChildProgram& child, const Refusal& refusal) {
  if (refusal.step == Refusal::Step::Root)
    return {ErrorCode::StartupFailed, fmt::format("cannot enter another root: {}", std::strerror(refusal.error))};
  const bool folder = refusal.step == Refusal::Step::Folder;
  return {ErrorCode::StartupFailed, fmt::format("cannot {} '{}': {}", folder ? "go to folder" : "run",
                                                folder               ? child.folder
                                                : child.file.empty() ? child.command.front()
                                                                     : child.file,
                                                std::strerror(refusal.error))};
}

}  // namespace

Result<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return Error{ErrorCode::System, fmt::format("cannot make a pipe: {}{}", std::strerror(errno),
                                                errno == EMFILE ? "; raise the limit with ulimit -n" : "")};
  }
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

Result<pid_t> start_child(const ChildProgram& child) {
  auto pipe = make_pipe();
  if (!pipe) return pipe.error();
  const Words words(child.command);
  const Words environment(child.environment);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) {
    return Error{ErrorCode::System, fmt::format("cannot start a process: {}{}", std::strerror(errno),
                                                errno == EAGAIN ? "; raise the limit with ulimit -u" : "")};
  }
  if (pid == 0) become(child, parent, pipe->write.get(), words, environment);
  // The parent sets the group, too, since either process may come first.
  if (child.group) (void)::setpgid(pid, *child.group == 0 ? pid : *child.group);
  pipe->write = Fd();
  Refusal refusal;
  ssize_t got = 0;
  while ((got = ::read(pipe->read.get(), &refusal, sizeof refusal)) < 0 && errno == EINTR) {
  }
  if (got != static_cast<ssize_t>(sizeof refusal)) return pid;
  (void)::waitpid(pid, nullptr, 0);
  return refused(child, refusal);
}

Result<Output> output_of(ChildProgram child, int timeout_ms) {
  auto pipe = make_pipe();
  if (!pipe) return pipe.error();
  child.output = child.errors = pipe->write.get();
  const auto pid = start_child(child);
  if (!pid) return pid.error();
  pipe->write = Fd();
  const Deadline end = Deadline::after_ms(timeout_ms);
  Output output;
  bool late = false;
  bool endless = false;
  std::array<char, 16384> piece{};
  while (!late && !endless) {
    pollfd ready{pipe->read.get(), POLLIN, 0};
    const int polled = ::poll(&ready, 1, end.left_ms());
    if (polled < 0 && errno == EINTR) continue;
    late = polled <= 0;
    endless = output.text.size() > kMostOutput;
    const ssize_t got = late || endless ? 0 : ::read(pipe->read.get(), piece.data(), piece.size());
    if (got <= 0) break;
    output.text.append(piece.data(), static_cast<std::size_t>(got));
  }
  if (late || endless) (void)::kill(*pid, SIGKILL);
  while (::waitpid(*pid, &output.status, 0) < 0 && errno == EINTR) {
  }
  if (endless) return Error{ErrorCode::System, fmt::format("writes more than {} MiB", kMostOutput >> 20)};
  if (late) return Error{ErrorCode::Timeout, "does not answer"};
  return output;
}

std::string own_program() {
  constexpr const char* kSelf = "/proc/self/exe";
  if (::access(kSelf, X_OK) == 0) return kSelf;
  const auto* const started_as =
      reinterpret_cast<const char*>(::getauxval(AT_EXECFN));  // NOLINT(performance-no-int-to-ptr)
  return started_as == nullptr ? kSelf : started_as;
}

}  // namespace wreath::process
