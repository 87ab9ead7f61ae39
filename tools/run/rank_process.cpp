// Starting a rank: fork and exec, with a pipe that says why it could not be.
#include "tools/run/rank_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "tools/run/messages.hpp"

namespace wreath::launcher {
namespace {

// What went wrong in the child, through the pipe that exec closes.
struct Refusal {
  enum class Step : int { Folder, Program } step = Step::Program;
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

// As a shell would start it: no signal is blocked or ignored.
void reset_signals() {
  for (int signal = 1; signal < NSIG; ++signal) (void)::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  (void)::sigprocmask(SIG_SETMASK, &none, nullptr);
}

struct Pipes {
  Pipe output;
  Pipe errors;
  Pipe refusal;
};

[[noreturn]] void become(const RankSpecification& specification, pid_t parent, const Pipes& pipes, char* const* argv,
                         char* const* environment) {
  (void)::setpgid(0, 0);
  (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(exit_code(ErrorCode::StartupFailed));
  const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  (void)::dup2(nothing, STDIN_FILENO);
  (void)::dup2(pipes.output.write.get(), STDOUT_FILENO);
  (void)::dup2(pipes.errors.write.get(), STDERR_FILENO);
  bind(specification.processors);
  if (!specification.folder.empty() && ::chdir(specification.folder.c_str()) != 0)
    refuse(pipes.refusal.write.get(), Refusal::Step::Folder);
  reset_signals();
  ::execvpe(argv[0], argv, environment);
  refuse(pipes.refusal.write.get(), Refusal::Step::Program);
}

Error refused(const RankSpecification& specification, const Refusal& refusal) {
  const bool folder = refusal.step == Refusal::Step::Folder;
  return {ErrorCode::StartupFailed,
          fmt::format("cannot {} '{}': {}", folder ? "go to folder" : "run",
                      folder ? specification.folder : specification.command.front(), std::strerror(refusal.error))};
}

Result<Pipes> make_pipes() {
  auto output = make_pipe();
  if (!output) return output.error();
  auto errors = make_pipe();
  if (!errors) return errors.error();
  auto refusal = make_pipe();
  if (!refusal) return refusal.error();
  return Pipes{std::move(*output), std::move(*errors), std::move(*refusal)};
}

}  // namespace

Result<RankProcess> start_rank(const RankSpecification& specification) {
  auto pipes = make_pipes();
  if (!pipes) return pipes.error();
  const Words argv(specification.command);
  const Words environment(specification.environment);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return Error{ErrorCode::System, fmt::format("cannot fork: {}", std::strerror(errno))};
  if (pid == 0) become(specification, parent, *pipes, argv.pointers.data(), environment.pointers.data());
  (void)::setpgid(pid, pid);  // here, too: whoever is first
  pipes->refusal.write = Fd();
  Refusal refusal;
  ssize_t got = 0;
  while ((got = ::read(pipes->refusal.read.get(), &refusal, sizeof refusal)) < 0 && errno == EINTR) {
  }
  if (got == static_cast<ssize_t>(sizeof refusal)) {
    (void)::waitpid(pid, nullptr, 0);
    return refused(specification, refusal);
  }
  for (const int end : {pipes->output.read.get(), pipes->errors.read.get()}) (void)::fcntl(end, F_SETFL, O_NONBLOCK);
  return RankProcess{pid, std::move(pipes->output.read), std::move(pipes->errors.read)};
}

}  // namespace wreath::launcher
