// The launcher's part on a host (see agent.hpp): one thread with one poll loop.
#include "tools/run/agent.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <map>

#include "src/base/clock.hpp"
#include "src/base/io.hpp"
#include "tools/run/descendants.hpp"
#include "tools/run/rank_process.hpp"
#include "wreath/topology.hpp"

namespace wreath::launcher {
namespace {

// The time from SIGTERM to SIGKILL when the launcher is gone.
constexpr std::int64_t kOrphanedGraceMs = 2000;
constexpr std::int64_t kKillAgainMs = 200;

// The variables by which a process would take itself for a rank of a job that begins.
constexpr std::array kNumbers{"WREATH_RANK", "WREATH_RANKS",     "WREATH_LOCAL_RANK", "RANK",         "WORLD_SIZE",
                              "LOCAL_RANK",  "LOCAL_WORLD_SIZE", "SLURM_PROCID",      "SLURM_LOCALID"};

std::string list_text(const std::vector<int>& processors) {
  return processors.empty() ? std::string("all") : fmt::format("{}", fmt::join(processors, ","));
}

std::vector<std::string> inherited(const HostJob& job) {
  std::vector<std::string> variables;
  const auto replaced = [&](std::string_view name) {
    return std::find(job.unset.begin(), job.unset.end(), name) != job.unset.end() ||
           std::any_of(job.environment.begin(), job.environment.end(), [&](const std::string& entry) {
             return std::string_view(entry).substr(0, entry.find('=')) == name;
           });
  };
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (!replaced(text.substr(0, text.find('=')))) variables.emplace_back(text);
  }
  variables.insert(variables.end(), job.environment.begin(), job.environment.end());
  return variables;
}

// Removes all values of a variable, since a program may see any one of several.
void unset_variable(std::vector<std::string>& variables, std::string_view name) {
  const std::string begin = fmt::format("{}=", name);
  std::erase_if(variables, [&](const std::string& entry) { return entry.starts_with(begin); });
}

void set_variable(std::vector<std::string>& variables, std::string_view name, int value) {
  unset_variable(variables, name);
  variables.push_back(fmt::format("{}={}", name, value));
}

class Agent {
 public:
  Agent(const HostJob& job, Fd commands, Fd reports)
      : job_(job), commands_(std::move(commands)), reports_(std::move(reports)) {}

  int run() {
    sigset_t blocked;
    sigfillset(&blocked);
    (void)::sigprocmask(SIG_SETMASK, &blocked, nullptr);
    sigset_t wanted;
    sigemptyset(&wanted);
    for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) sigaddset(&wanted, signal);
    signals_ = Fd(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
    (void)::fcntl(commands_.get(), F_SETFL, O_NONBLOCK);
    Descendants descendants;
    start_all();
    while (!running_.empty() || (elastic() && commands_ && !kill_at_)) {
      wait();
      for (auto& [pid, rank] : ranks_) pass_on(rank);
      read_signals();
      read_commands();
      if (kill_at_ && kill_at_->passed()) {
        signal_all(SIGKILL);
        kill_at_ = Deadline::after_ms(kKillAgainMs);  // a process in the kernel may take its time
      }
    }
    descendants.end();
    for (auto& [pid, rank] : ranks_) pass_on(rank);
    report({Kind::Done, -1, 0, {}});
    return 0;
  }

 private:
  struct Rank {
    int number = 0;
    RankProcess process;
  };

  bool elastic() const { return !job_.elastic_folder.empty(); }

  void start_all() {
    const std::vector<std::string> base = inherited(job_);
    std::error_code ignored;
    if (elastic() && !std::filesystem::is_directory(job_.elastic_folder, ignored)) {
      report({Kind::Refused, job_.ranks.front(), 0,
              fmt::format("{} is not to be seen on this host; --elastic-folder DIR: one that all hosts share",
                          job_.elastic_folder)});
      return;
    }
    const auto count = static_cast<int>(job_.ranks.size());
    const Topology topology = read_topology();
    const bool bound = job_.bind == Bind::Cores && count <= static_cast<int>(topology.allowed.size());
    const auto shares = bound ? share_cores(topology, count) : std::vector<std::vector<int>>();
    for (int local = 0; local < count; ++local) {
      const int rank = job_.ranks[static_cast<std::size_t>(local)];
      RankSpecification one{job_.command, base, job_.folder,
                            bound ? shares[static_cast<std::size_t>(local)] : std::vector<int>()};
      cores_[rank] = one.processors;
      for (const auto& [name, value] :
           std::initializer_list<std::pair<const char*, int>>{{"WREATH_RANK", rank},
                                                              {"WREATH_RANKS", job_.all_ranks},
                                                              {"WREATH_LOCAL_RANK", local},
                                                              {"RANK", rank},
                                                              {"WORLD_SIZE", job_.all_ranks},
                                                              {"LOCAL_RANK", local},
                                                              {"LOCAL_WORLD_SIZE", count}})
        set_variable(one.environment, name, value);
      // The launcher will end the other ranks.
      if (!start(rank, one)) break;
    }
  }

  bool start(int rank, const RankSpecification& specification) {
    auto started = start_rank(specification);
    if (!started) {
      report({Kind::Refused, rank, 0, started.error().message});
      return false;
    }
    report({Kind::Started, rank, started->pid, list_text(specification.processors)});
    running_[started->pid] = rank;
    ranks_[started->pid] = {rank, std::move(*started)};
    return true;
  }

  // Starts a rank that joins the running job. It must not take itself for a rank of the meeting that began the job.
  void start_joiner(int number, int replaced) {
    RankSpecification one{job_.command, inherited(job_), job_.folder, cores_[replaced]};
    for (const char* name : kNumbers) unset_variable(one.environment, name);
    set_variable(one.environment, "WREATH_JOIN", number);
    cores_[number] = one.processors;
    (void)start(number, one);
  }

  void report(const Message& message) {
    if (reports_ && !write_all(reports_.get(), encode(message))) reports_ = Fd();
  }

  void wait() {
    std::vector<pollfd> set{{signals_.get(), POLLIN, 0}};
    if (commands_) set.push_back({commands_.get(), POLLIN, 0});
    for (const auto& [pid, rank] : ranks_) {
      for (const Fd* stream : {&rank.process.output, &rank.process.errors}) {
        if (*stream) set.push_back({stream->get(), POLLIN, 0});
      }
    }
    (void)::poll(set.data(), set.size(), kill_at_ ? kill_at_->left_ms() : -1);
  }

  void pass_on(Rank& rank) {
    pass_on(rank.number, 1, rank.process.output);
    pass_on(rank.number, 2, rank.process.errors);
  }

  void pass_on(int rank, int number, Fd& stream) {
    const auto take = [&](std::string_view bytes) { report({Kind::Output, rank, number, std::string(bytes)}); };
    if (stream && !read_some(stream.get(), take)) stream = Fd();
  }

  void read_signals() {
    signalfd_siginfo info;
    while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      if (info.ssi_signo != SIGCHLD) end_soon();
    }
    int status = 0;
    for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      const auto found = running_.find(pid);
      if (found == running_.end()) continue;  // an orphan of a rank
      pass_on(ranks_.at(pid));
      const bool failed = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
      // Kills what the rank has started, since the job may go on for days.
      if (elastic() && failed) (void)::kill(-pid, SIGKILL);
      report({Kind::Ended, found->second, status, {}});
      running_.erase(found);
    }
  }

  void read_commands() {
    const auto take = [this](std::string_view bytes) { reader_.add(bytes); };
    if (commands_ && !read_some(commands_.get(), take)) commands_ = Fd();
    for (auto message = reader_.next(); message && *message; message = reader_.next()) {
      if ((*message)->kind == Kind::Signal) signal_all((*message)->value);
      if ((*message)->kind == Kind::Start && elastic() && !kill_at_) start_joiner((*message)->rank, (*message)->value);
    }
    if (!commands_) end_soon();
  }

  void end_soon() {
    if (kill_at_) return;
    kill_at_ = Deadline::after_ms(kOrphanedGraceMs);
    signal_all(SIGTERM);
  }

  // Sends the signal to the process groups, which include what each rank has started.
  void signal_all(int signal) {
    for (const auto& [pid, rank] : running_) (void)::kill(-pid, signal);
  }

  const HostJob& job_;
  Fd commands_;
  Fd reports_;
  Fd signals_;
  MessageReader reader_;
  std::map<pid_t, Rank> ranks_;
  std::map<pid_t, int> running_;           // the ranks by their process
  std::map<int, std::vector<int>> cores_;  // by rank; empty: all
  std::optional<Deadline> kill_at_;
};

// Returns the text of the message Job; nullopt where the launcher ends before it sends the message, since a host is
// missing.
Result<std::optional<std::string>> read_job(int descriptor) {
  MessageReader reader;
  // Reads one byte at a time, since the Agent reads what follows.
  std::array<char, 1> byte;
  for (;;) {
    const ssize_t got = ::read(descriptor, byte.data(), byte.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::optional<std::string>();
    reader.add({byte.data(), byte.size()});
    auto message = reader.next();
    if (!message) return message.error();
    if (!*message) continue;
    if ((*message)->kind == Kind::Job) return std::optional(std::move((*message)->text));
    return Error{ErrorCode::StartupFailed, "the launcher gave something else than a job"};
  }
}

int complain(const Error& error) {
  fmt::print(stderr, "wreath: error: {}\n", error.message);
  return exit_code(error.code);
}

int dismissed(int reports) {
  return write_all(reports, encode({Kind::Done, -1, 0, {}})) ? 0 : exit_code(ErrorCode::StartupFailed);
}

}  // namespace

int run_agent(const HostJob& job, Fd commands, Fd reports) {
  const auto given = read_job(commands.get());
  if (!given) return complain(given.error());
  if (!*given) return dismissed(reports.get());
  return Agent(job, std::move(commands), std::move(reports)).run();
}

int run_remote_agent() {
  (void)::setsid();
  if (!write_all(STDOUT_FILENO, kGreeting)) return exit_code(ErrorCode::StartupFailed);
  const auto given = read_job(STDIN_FILENO);
  if (!given) return complain(given.error());
  if (!*given) return dismissed(STDOUT_FILENO);
  const auto job = decode_job(**given);
  if (!job) return complain(job.error());
  // Moves the streams away from 0 and 1, since ranks get others under these numbers.
  Fd commands(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
  Fd reports(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
  (void)::dup2(STDERR_FILENO, STDOUT_FILENO);
  return Agent(*job, std::move(commands), std::move(reports)).run();
}

}  // namespace wreath::launcher
