// The launcher: one thread, one poll loop over its hosts. See launcher.hpp.
#include "tools/run/launcher.hpp"

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
#include <cstring>

#include "src/base/clock.hpp"
#include "src/base/config.hpp"
#include "tools/run/descendants.hpp"
#include "tools/run/host_link.hpp"
#include "tools/run/output.hpp"
#include "tools/run/verdict.hpp"

namespace wreath::launcher {
namespace {

constexpr std::int64_t kLastWordsMs = 1000;  // after a failure others may say by themselves what it did to them
constexpr std::int64_t kGoneMs = 5000;       // a host that does not say that its ranks are gone is given up

// Running, then in this order when the job ends early.
enum class Phase { Running, LastWords, Terminating, Killing, GivenUp };

class Job {
 public:
  explicit Job(const Plan& plan) : plan_(plan), output_(plan, [this] { return goes_on(); }) {}

  int run() {
    sigset_t wanted;
    sigemptyset(&wanted);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGPIPE}) sigaddset(&wanted, signal);
    (void)::sigprocmask(SIG_BLOCK, &wanted, nullptr);
    sigdelset(&wanted, SIGPIPE);
    signals_ = Fd(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
    output_.wake_by(signals_.get());
    if (const Status opened = output_.open(); !opened) return refuse(opened.error());
    if (const Status started = start(); !started) return refuse(started.error());
    const auto patience = setting_integer(Setting::BootstrapTimeoutMs);
    if (!patience) return refuse(patience.error());
    greeting_due_ = Deadline::after_ms(*patience);
    while (!over()) {
      wait();
      read_signals();
      for (const auto& host : hosts_) serve(*host);
      check_clocks();
    }
    output_.end();
    descendants_.end();
    return conclude();
  }

 private:
  int refuse(const Error& error) {
    say(fmt::format("error: {}", error.message));
    hosts_.clear();
    descendants_.end();
    return exit_code(error.code);
  }

  // This host first: its agent is a fork, which must not hold the others' streams open.
  Status start() {
    auto environment = job_environment(plan_);
    if (!environment) return environment.error();
    if (plan_.verbose) {
      say(fmt::format("info: {} ranks of {}; they meet {}; key: {}", ranks_of(plan_), fmt::join(plan_.command, " "),
                      environment->meeting, environment->key_source));
    }
    for (const bool here : {true, false}) {
      for (const Placement& placement : plan_.placements) {
        if (is_here(placement.host) != here) continue;
        auto host = start_host(plan_, placement, *environment);
        if (!host) return host.error();
        hosts_.push_back(std::move(*host));
      }
    }
    return {};
  }

  bool over() const {
    return phase_ == Phase::GivenUp ||
           std::all_of(hosts_.begin(), hosts_.end(), [](const auto& host) { return host->pid < 0 && !host->reports; });
  }

  void wait() {
    std::vector<pollfd> set{{signals_.get(), POLLIN, 0}};
    for (const auto& host : hosts_) {
      for (const Fd* stream : {&host->reports, &host->errors}) {
        if (*stream) set.push_back({stream->get(), POLLIN, 0});
      }
    }
    (void)::poll(set.data(), set.size(), next_ ? next_->left_ms() : greeted() ? -1 : greeting_due_.left_ms());
  }

  bool greeted() const {
    return std::all_of(hosts_.begin(), hosts_.end(), [](const auto& host) { return host->greeted; });
  }

  void read_signals() {
    signalfd_siginfo info;
    while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      if (info.ssi_signo != SIGCHLD) interrupt(static_cast<int>(info.ssi_signo));
    }
    int status = 0;
    for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      const auto found = std::find_if(hosts_.begin(), hosts_.end(), [&](const auto& host) { return host->pid == pid; });
      if (found == hosts_.end()) continue;
      (*found)->pid = -1;
      (*found)->status = status;
    }
  }

  void say(const std::string& text) { (void)output_.print(2, fmt::format("wreath: {}\n", text)); }

  // While output waits for its reader, signals must not.
  bool goes_on() {
    read_signals();
    return phase_ < Phase::Terminating;
  }

  void lose_reader(int error) {
    if (error == EPIPE) return interrupt(SIGPIPE);
    if (phase_ >= Phase::Terminating) return;
    say(fmt::format("error: standard output: {}", std::strerror(error)));
    if (verdict_.code() == 0) code_ = exit_code(ErrorCode::System);
    enter(Phase::Terminating);
  }

  // From a terminal or its owner: once in good order, twice at once.
  void interrupt(int signal) {
    if (phase_ >= Phase::Terminating) return enter(Phase::Killing);
    if (code_ == 0 && verdict_.code() == 0) code_ = 128 + signal;
    phase_ = Phase::Terminating;
    next_ = Deadline::after_ms(plan_.grace_ms);
    signal_ranks(signal);
  }

  void signal_ranks(int signal) {
    for (const auto& host : hosts_) {
      if (host->commands && !write_all(host->commands.get(), encode({Kind::Signal, -1, signal, {}})))
        host->commands = Fd();
    }
  }

  void enter(Phase phase) {
    phase_ = phase;
    switch (phase) {
      case Phase::LastWords: next_ = Deadline::after_ms(kLastWordsMs); break;
      case Phase::Terminating:
        next_ = Deadline::after_ms(plan_.grace_ms);
        signal_ranks(SIGTERM);
        break;
      case Phase::Killing:
        next_ = Deadline::after_ms(kGoneMs);
        signal_ranks(SIGKILL);
        for (const auto& host : hosts_) host->commands = Fd();  // who has not begun, shall not
        break;
      default: next_.reset();
    }
  }

  void check_clocks() {
    if (next_ && next_->passed()) enter(static_cast<Phase>(static_cast<int>(phase_) + 1));
    if (phase_ != Phase::Running || greeted() || !greeting_due_.passed()) return;
    for (const auto& host : hosts_) {
      if (!host->greeted) lose(*host, "no agent came up there in time (WREATH_BOOTSTRAP_TIMEOUT_MS)");
    }
  }

  // A host that is of no use any more, with its ranks.
  void lose(HostLink& host, const std::string& why) {
    host.reports = Fd();
    host.commands = Fd();
    if (host.pid > 0) (void)::kill(host.pid, SIGTERM);
    if (phase_ >= Phase::Terminating) return;
    say(fmt::format("error: host {}: {}", host.host, why));
    if (code_ == 0 && verdict_.code() == 0) code_ = exit_code(ErrorCode::StartupFailed);
    enter(Phase::Terminating);
  }

  void serve(HostLink& host) {
    read(host, host.errors, [&](std::string_view bytes) { output_.print(2, host.complaints.add(bytes)); });
    const bool open = static_cast<bool>(host.reports);
    read(host, host.reports, [&](std::string_view bytes) { host.reader.add(bytes); });
    take_messages(host);
    if (!open || host.reports || (host.done && (phase_ != Phase::Running || all_over(host)))) return;
    const bool started = host.greeted || host.here;
    if (!started) {
      output_.print(2, host.noise.add(host.reader.rest()));
      output_.print(2, host.noise.end());
    }
    if (host.pid > 0) (void)::waitpid(host.pid, &host.status, 0), host.pid = -1;
    const std::string how = WIFSIGNALED(host.status) ? fmt::format("ended by signal {}", WTERMSIG(host.status))
                                                     : fmt::format("ended with exit code {}", WEXITSTATUS(host.status));
    const std::string what = host.here ? "this host's agent" : fmt::format("`{}`", fmt::join(plan_.ssh, " "));
    lose(host, started ? fmt::format("{} {} before its ranks did", what, how)
                       : fmt::format("no agent came up there: {} {}", what, how));
  }

  static bool all_over(const HostLink& host) {
    return std::all_of(host.ranks.begin(), host.ranks.end(), [](const auto& rank) { return rank.second.over; });
  }

  template <typename Take>
  void read(HostLink& host, Fd& stream, Take take) {
    std::array<char, 65536> bytes;
    for (int turns = 0; stream && turns < 16; ++turns) {
      const ssize_t got = ::read(stream.get(), bytes.data(), bytes.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return;
      if (got <= 0) {
        if (&stream == &host.errors) output_.print(2, host.complaints.end());
        stream = Fd();
        return;
      }
      take(std::string_view(bytes.data(), static_cast<std::size_t>(got)));
    }
  }

  void take_messages(HostLink& host) {
    if (!host.greeted) {
      std::string noise;
      host.greeted = host.reader.skip_to_greeting(noise);
      output_.print(2, host.noise.add(noise));
      if (!host.greeted) return;
    }
    for (;;) {
      auto message = host.reader.next();
      if (!message) return lose(host, message.error().message);
      if (!*message) return;
      handle(host, **message);
    }
  }

  void handle(HostLink& host, const Message& message) {
    const auto rank = host.ranks.find(message.rank);
    if (message.kind == Kind::Done) host.done = true;
    if (rank == host.ranks.end()) return;
    if (message.kind == Kind::Started) {
      rank->second.pid = message.value;
      if (plan_.verbose) {
        say(fmt::format("info: rank {} (host {}, pid {}): cores {}", message.rank, host.host, message.value,
                        message.text));
      }
    } else if (message.kind == Kind::Output) {
      if (const int error = output_.add(message.rank, message.value, message.text); error != 0) lose_reader(error);
    } else if (message.kind == Kind::Ended || message.kind == Kind::Refused) {
      rank->second.over = true;
      output_.end(message.rank);
      judge({message.rank, host.host, rank->second.pid, message.value, message.text});
    }
  }

  void judge(const RankEnd& end) {
    if (plan_.verbose && exit_code_of(end) == 0) say(fmt::format("info: {}", describe(end)));
    if (phase_ >= Phase::Terminating || !verdict_.add(end)) return;
    if (phase_ == Phase::Running) enter(Phase::LastWords);
  }

  int conclude() {
    if (verdict_.culprit())
      say(fmt::format("error: {}; all {} ranks were ended", describe(*verdict_.culprit()), ranks_of(plan_)));
    return verdict_.code() != 0 ? verdict_.code() : code_;
  }

  const Plan& plan_;
  Descendants descendants_;
  Output output_;
  std::vector<std::unique_ptr<HostLink>> hosts_;
  Fd signals_;
  Verdict verdict_;
  Phase phase_ = Phase::Running;
  std::optional<Deadline> next_;  // when the next phase begins
  Deadline greeting_due_ = Deadline::after_ms(-1);
  int code_ = 0;  // where no rank is at fault
};

}  // namespace

int launch(const Plan& plan) { return Job(plan).run(); }

}  // namespace wreath::launcher
