// Starting agents: see host_link.hpp.
#include "tools/run/host_link.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tools/run/agent.hpp"

namespace wreath::launcher {
namespace {

struct Streams {
  Pipe commands;
  Pipe reports;
  Pipe errors;
};

Result<Streams> make_streams() {
  auto commands = make_pipe();
  if (!commands) return commands.error();
  auto reports = make_pipe();
  if (!reports) return reports.error();
  auto errors = make_pipe();
  if (!errors) return errors.error();
  return Streams{std::move(*commands), std::move(*reports), std::move(*errors)};
}

// A session of its own: what ends the launcher's terminal or group reaches the ranks in order, through the agent.
[[noreturn]] void become_agent(const HostJob& job, Streams streams) {
  (void)::setsid();
  streams.commands.write = Fd();
  streams.reports.read = Fd();
  streams.errors = Pipe();
  const int code = run_agent(job, std::move(streams.commands.read), std::move(streams.reports.write));
  ::_exit(code);
}

[[noreturn]] void become_ssh(std::vector<std::string>& words, const Streams& streams) {
  (void)::setpgid(0, 0);
  (void)::dup2(streams.commands.read.get(), STDIN_FILENO);
  (void)::dup2(streams.reports.write.get(), STDOUT_FILENO);
  (void)::dup2(streams.errors.write.get(), STDERR_FILENO);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  sigset_t none;
  sigemptyset(&none);
  (void)::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execvp(argv[0], argv.data());
  const std::string text = fmt::format("cannot run '{}': {}\n", words.front(), std::strerror(errno));
  (void)write_all(STDERR_FILENO, text);
  ::_exit(exit_code(ErrorCode::StartupFailed));
}

}  // namespace

Result<std::unique_ptr<HostLink>> start_host(const Plan& plan, const Placement& placement,
                                             const JobEnvironment& environment) {
  auto streams = make_streams();
  if (!streams) return streams.error();
  auto link = std::make_unique<HostLink>();
  link->host = placement.host;
  link->here = is_here(placement.host);
  for (const int rank : placement.ranks) link->ranks[rank] = {};
  const HostJob job = host_job(plan, placement, environment, link->here);
  std::vector<std::string> words = plan.ssh;
  words.push_back(placement.host);
  words.push_back(fmt::format("exec {} run --agent", quote(plan.program)));
  link->pid = ::fork();
  if (link->pid < 0) return Error{ErrorCode::System, fmt::format("cannot fork: {}", std::strerror(errno))};
  if (link->pid == 0 && link->here) become_agent(job, std::move(*streams));
  if (link->pid == 0) become_ssh(words, *streams);
  link->greeted = link->here;
  link->noise = link->complaints = Lines(plan.prefix ? fmt::format("[{}] ", placement.host) : "");
  link->commands = std::move(streams->commands.write);
  link->reports = std::move(streams->reports.read);
  link->errors = std::move(streams->errors.read);
  for (const int end : {link->reports.get(), link->errors.get()}) (void)::fcntl(end, F_SETFL, O_NONBLOCK);
  // A host that is gone already is seen at the end of its reports.
  if (!link->here) (void)write_all(link->commands.get(), encode({Kind::Job, -1, 0, encode(job)}));
  return link;
}

}  // namespace wreath::launcher
