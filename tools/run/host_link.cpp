// Starts agents (see host_link.hpp).
#include "tools/run/host_link.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "src/base/io.hpp"
#include "src/process/child_process.hpp"
#include "tools/run/agent.hpp"

namespace wreath::launcher {
namespace {

struct Streams {
  process::Pipe commands;
  process::Pipe reports;
  process::Pipe errors;
};

Result<Streams> make_streams() {
  auto commands = process::make_pipe();
  if (!commands) return commands.error();
  auto reports = process::make_pipe();
  if (!reports) return reports.error();
  auto errors = process::make_pipe();
  if (!errors) return errors.error();
  return Streams{std::move(*commands), std::move(*reports), std::move(*errors)};
}

// Becomes the agent in its own session. A signal to the launcher's terminal or group reaches the ranks only through the
// agent, in order.
[[noreturn]] void become_agent(const HostJob& job, Streams streams) {
  (void)::setsid();
  streams.commands.write = Fd();
  streams.reports.read = Fd();
  streams.errors = process::Pipe();
  const int code = run_agent(job, std::move(streams.commands.read), std::move(streams.reports.write));
  ::_exit(code);
}

// Starts ssh, whose own messages go through the link's stream `errors`.
Result<pid_t> start_ssh(const std::vector<std::string>& words, const Streams& streams) {
  return process::start_child({.command = words,
                               .group = 0,
                               .outlives = true,
                               .input = streams.commands.read.get(),
                               .output = streams.reports.write.get(),
                               .errors = streams.errors.write.get()});
}

Result<pid_t> start_agent(const HostJob& job, Streams& streams) {
  const pid_t pid = ::fork();
  if (pid < 0) return Error{ErrorCode::System, fmt::format("cannot start a process: {}", std::strerror(errno))};
  if (pid == 0) become_agent(job, std::move(streams));
  return pid;
}

}  // namespace

Result<std::unique_ptr<HostLink>> start_host(const Plan& plan, const Placement& placement,
                                             const JobEnvironment& environment) {
  auto streams = make_streams();
  if (!streams) return streams.error();
  auto link = std::make_unique<HostLink>();
  link->host = placement.host;
  link->here = placement.here;
  for (const int rank : placement.ranks) link->ranks[rank] = {};
  link->job = host_job(plan, placement, environment, link->here);
  std::vector<std::string> words = plan.ssh;
  words.push_back(placement.host);
  words.push_back(fmt::format("exec {} run --agent", quote(plan.program)));
  const auto pid = link->here ? start_agent(link->job, *streams) : start_ssh(words, *streams);
  if (!pid) return pid.error();
  link->pid = *pid;
  link->greeted = link->here;
  link->noise = link->complaints = Lines(plan.prefix ? fmt::format("[{}] ", placement.host) : "");
  link->commands = std::move(streams->commands.write);
  link->reports = std::move(streams->reports.read);
  link->errors = std::move(streams->errors.read);
  for (const int end : {link->reports.get(), link->errors.get()}) (void)::fcntl(end, F_SETFL, O_NONBLOCK);
  return link;
}

void give_job(HostLink& link) {
  const std::string text = link.here ? std::string() : encode(link.job);
  (void)write_all(link.commands.get(), encode({Kind::Job, -1, 0, text}));
}

}  // namespace wreath::launcher
