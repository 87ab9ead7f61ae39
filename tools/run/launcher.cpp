// The launcher: one thread with one poll loop over its hosts (see launcher.hpp).
#include "tools/run/launcher.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "src/base/clock.hpp"
#include "src/base/config.hpp"
#include "src/base/io.hpp"
#include "tools/run/descendants.hpp"
#include "tools/run/elastic_folder.hpp"
#include "tools/run/elastic_members.hpp"
#include "tools/run/host_link.hpp"
#include "tools/run/output.hpp"
#include "tools/run/verdict.hpp"

namespace wreath::launcher {
namespace {

// The time after a failure in which the others may report what it did to them.
constexpr std::int64_t kLastWordsMs = 1000;
// The time for ranks that wait to join a job that is over to see that by themselves.
constexpr std::int64_t kFarewellMs = 3000;
// The time after which a host is given up that does not report the end of its ranks.
constexpr std::int64_t kGoneMs = 5000;

// The phases of a job. When the job ends early, they follow in this order.
enum class Phase { Running, LastWords, Terminating, Killing, GivenUp };

class Job {
 public:
  explicit Job(const Plan& plan) : plan_(plan), output_(plan, [this] { return goes_on(); }) {
    if (!plan.elastic) return;
    members_.emplace(plan.elastic->min_ranks, plan.elastic->max_restarts,
                     [this](int number) { return folder_->has_joined(number); });
  }

  int run() {
    sigset_t wanted;
    sigemptyset(&wanted);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGPIPE}) sigaddset(&wanted, signal);
    (void)::sigprocmask(SIG_BLOCK, &wanted, nullptr);
    sigdelset(&wanted, SIGPIPE);
    signals_ = Fd(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
    output_.wake_by(signals_.get());
    if (const Status opened = output_.open(); !opened) return refuse(opened.error());
    do {
      if (const Status started = start(); !started) return refuse(started.error());
      const auto patience = setting_integer(Setting::BootstrapTimeoutMs);
      if (!patience) return refuse(patience.error());
      greeting_due_ = Deadline::after_ms(*patience);
      while (!over()) {
        wait();
        read_signals();
        for (const auto& host : hosts_) serve(*host);
        hand_out();
        check_clocks();
        if (members_) dismiss_agents();
      }
      output_.end();
      folder_.reset();
      descendants_.end();
    } while (members_ && start_again());
    return conclude();
  }

 private:
  int refuse(const Error& error) {
    say(fmt::format("error: {}", error.message));
    hosts_.clear();
    folder_.reset();
    descendants_.end();
    return exit_code(error.code);
  }

  // Starts an agent on each host, which then waits. The agent of this host comes first: it is a fork, which must not
  // hold the streams of the others open.
  Status start() {
    handed_out_ = false;
    if (plan_.elastic) {
      auto folder = ElasticFolder::make(plan_.elastic->folder);
      if (!folder) return folder.error();
      folder_.emplace(std::move(*folder));
      members_->begin(ranks_of(plan_));
    }
    auto environment = job_environment(plan_, folder_ ? folder_->path() : std::string());
    if (!environment) return environment.error();
    if (plan_.verbose) {
      say(fmt::format("info: {} ranks of {}; they meet {}; key: {}", ranks_of(plan_), fmt::join(plan_.command, " "),
                      environment->meeting, environment->key_source));
    }
    for (const bool here : {true, false}) {
      for (const Placement& placement : plan_.placements) {
        if (placement.here != here) continue;
        auto host = start_host(plan_, placement, *environment);
        if (!host) return host.error();
        hosts_.push_back(std::move(*host));
      }
    }
    hand_out();
    return {};
  }

  // Starts the ranks once there is an agent on every host. A job with a missing host does not run anywhere.
  void hand_out() {
    if (handed_out_ || phase_ != Phase::Running || !greeted()) return;
    handed_out_ = true;
    for (const auto& host : hosts_) give_job(*host);
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
    int left_ms = next_ ? next_->left_ms() : greeted() ? -1 : greeting_due_.left_ms();
    if (settled_ && !next_) left_ms = left_ms < 0 ? settled_->left_ms() : std::min(left_ms, settled_->left_ms());
    (void)::poll(set.data(), set.size(), left_ms);
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

  // Reads signals while output waits for its reader, and returns whether output may go on waiting.
  bool goes_on() {
    read_signals();
    return phase_ < Phase::Terminating;
  }

  void lose_reader(int error) {
    if (error == EPIPE) return interrupt(SIGPIPE);
    if (phase_ >= Phase::Terminating) return;
    say(fmt::format("error: standard output: {}", std::strerror(error)));
    if (!at_fault()) code_ = exit_code(ErrorCode::System);
    enter(Phase::Terminating);
  }

  // Handles a signal from the terminal or the owner. The first one ends the job in order, and the second one ends it at
  // once.
  void interrupt(int signal) {
    if (code_ == 0 && !at_fault() && (phase_ < Phase::Terminating || outcome_ == Members::Next::StartAgain))
      code_ = 128 + signal;
    if (phase_ >= Phase::Terminating) return enter(Phase::Killing);
    phase_ = Phase::Terminating;
    next_ = Deadline::after_ms(plan_.grace_ms);
    signal_ranks(signal);
  }

  // Returns whether the end of a rank decides the end of the job. An elastic job survives most ends.
  bool at_fault() const { return members_ ? outcome_ == Members::Next::Fail : verdict_.code() != 0; }

  void signal_ranks(int signal) {
    if (!handed_out_) return dismiss_waiting();
    for (const auto& host : hosts_) {
      if (host->commands && !write_all(host->commands.get(), encode({Kind::Signal, -1, signal, {}})))
        host->commands = Fd();
    }
  }

  // Ends the agents, which have no ranks yet. An elastic job does not kill a slow host without an agent, since it may
  // go on with that host.
  void dismiss_waiting() {
    for (const auto& host : hosts_) {
      host->commands = Fd();
      if (!members_ && !host->greeted && host->pid > 0) (void)::kill(host->pid, SIGTERM);
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
        // A rank that has not begun must not begin any more.
        for (const auto& host : hosts_) host->commands = Fd();
        break;
      default: next_.reset();
    }
  }

  void check_clocks() {
    if (next_ && next_->passed()) enter(static_cast<Phase>(static_cast<int>(phase_) + 1));
    if (settled_ && settled_->passed()) fill_vacancies();
    if (phase_ != Phase::Running || greeted() || !greeting_due_.passed()) return;
    for (const auto& host : hosts_) {
      if (!host->greeted) lose(*host, "no agent came up there in time (WREATH_BOOTSTRAP_TIMEOUT_MS)");
    }
  }

  // Gives up a host and its ranks.
  void lose(HostLink& host, const std::string& why) {
    host.reports = Fd();
    host.commands = Fd();
    if (host.pid > 0) (void)::kill(host.pid, SIGTERM);
    if (members_) return lose_members(host, why);
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
    if (!stream || read_some(stream.get(), take)) return;
    if (&stream == &host.errors) output_.print(2, host.complaints.end());
    stream = Fd();
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
      const RankEnd end{message.rank, host.host, rank->second.pid, message.value, message.text};
      if (!members_) return judge(end);
      if (message.kind == Kind::Refused && message.rank < ranks_of(plan_)) forget_unstarted(host);
      judge_members({end});
    }
  }

  void judge(const RankEnd& end) {
    if (plan_.verbose && exit_code_of(end) == 0) say(fmt::format("info: {}", describe(end)));
    if (phase_ >= Phase::Terminating || !verdict_.add(end)) return;
    if (phase_ == Phase::Running) enter(Phase::LastWords);
  }

  int conclude() {
    if (members_ && !at_fault()) return code_;
    const std::string restarts = members_ ? fmt::format(", after {} restarts", members_->restarts()) : std::string();
    if (verdict_.culprit())
      say(fmt::format("error: {}; all {} ranks were ended{}", describe(*verdict_.culprit()), ranks_of(plan_),
                      restarts));
    return verdict_.code() != 0 ? verdict_.code() : code_;
  }

  // ---- elastic jobs ----

  // Judges the ends of members that came together.
  void judge_members(const std::vector<RankEnd>& ends) {
    if (phase_ >= Phase::Terminating) return;
    for (const RankEnd& end : ends) {
      if (plan_.verbose && exit_code_of(end) == 0) say(fmt::format("info: {}", describe(end)));
      (void)verdict_.add(end);
    }
    if (phase_ != Phase::Running) return;
    outcome_ = members_->take(ends);
    for (const RankEnd& end : ends) {
      if (exit_code_of(end) == 0) continue;
      say(fmt::format("warning: {}", members_->obituary(end)));
      vacancies_.push_back(end);
      settled_ = Deadline::after_ms(kLastWordsMs);
    }
    if (outcome_ == Members::Next::StartAgain || outcome_ == Members::Next::Fail) enter(Phase::LastWords);
    if (outcome_ != Members::Next::Over || all_over()) return;
    enter(Phase::LastWords);
    next_ = Deadline::after_ms(kFarewellMs);
  }

  bool all_over() const {
    return std::all_of(hosts_.begin(), hosts_.end(), [](const auto& host) { return all_over(*host); });
  }

  // Marks ranks as over that the agent has not started. An agent that could not start one of a job's first ranks does
  // not try the next ones.
  static void forget_unstarted(HostLink& host) {
    for (auto& [number, rank] : host.ranks) rank.over |= rank.pid == 0;
  }

  void lose_members(HostLink& host, const std::string& why) {
    lost_hosts_.push_back(host.host);
    std::vector<RankEnd> ends;
    for (auto& [number, rank] : host.ranks) {
      if (std::exchange(rank.over, true)) continue;
      output_.end(number);
      ends.push_back({number, host.host, rank.pid, 0, "lost with its host", true});
    }
    if (phase_ >= Phase::Terminating) return;
    say(fmt::format("warning: host {} is lost: {}", host.host, why));
    if (!ends.empty()) judge_members(ends);
  }

  // Ends the agents of an elastic job when all ranks are over. Until then they wait for ranks to start.
  void dismiss_agents() {
    if (!all_over()) return;
    for (const auto& host : hosts_) host->commands = Fd();
  }

  // Replaces lost ranks some time after the last loss, since all ranks may turn out to be lost.
  void fill_vacancies() {
    settled_.reset();
    const std::vector<RankEnd> vacancies = std::exchange(vacancies_, {});
    if (phase_ != Phase::Running) return;
    // The others have survived the loss, so no rank is at fault.
    verdict_ = Verdict(true);
    for (const RankEnd& lost : vacancies) {
      if (!members_->may_start()) return;
      HostLink* const host = host_with_room(lost.host);
      if (host == nullptr) {
        say(fmt::format("warning: rank {} is not replaced: the other hosts' slots are taken", lost.rank));
        continue;
      }
      const int number = members_->start_one();
      host->ranks[number] = {};
      if (!write_all(host->commands.get(), encode({Kind::Start, number, lost.rank, {}}))) host->commands = Fd();
      say(fmt::format("info: rank {} is started on host {} in place of rank {}: restart {}", number, host->host,
                      lost.rank, members_->restarts()));
    }
  }

  static int running_on(const HostLink& host) {
    return static_cast<int>(
        std::count_if(host.ranks.begin(), host.ranks.end(), [](const auto& rank) { return !rank.second.over; }));
  }

  // Returns the host `wished`, or the emptiest of the others when that one is lost; nullptr: no host has a free slot.
  HostLink* host_with_room(const std::string& wished) {
    HostLink* best = nullptr;
    for (const auto& host : hosts_) {
      if (!host->commands || !host->reports) continue;
      if (host->host == wished) return host.get();
      const bool better = best == nullptr || running_on(*host) < running_on(*best);
      if (better && has_room(plan_.hosts, host->host, running_on(*host))) best = host.get();
    }
    return best;
  }

  // Prepares another generation, with new ranks on the hosts that are left. Returns false where there is none.
  bool start_again() {
    if (outcome_ != Members::Next::StartAgain || code_ != 0) return false;
    outcome_ = Members::Next::Fail;
    for (const auto& host : hosts_) {
      if (host->pid >= 0 || host->reports) lost_hosts_.push_back(host->host);  // it was given up
    }
    std::erase_if(plan_.hosts, [&](const Host& host) {
      return std::find(lost_hosts_.begin(), lost_hosts_.end(), host.name) != lost_hosts_.end();
    });
    const Size size = fitting(plan_.hosts, wished_);
    if (size.ranks < plan_.elastic->min_ranks) {
      say(fmt::format("error: the hosts that are left have {} slots, but --min is {}", size.ranks,
                      plan_.elastic->min_ranks));
      return false;
    }
    auto placements = place(plan_.hosts, size.ranks + size.spares);
    if (!placements) return false;
    say(fmt::format("warning: restart {}: {} ranks and {} spares begin anew, because of {}", members_->restarts(),
                    size.ranks, size.spares, describe(*verdict_.culprit())));
    // The address belonged to the lost host.
    if (placements->front().host != plan_.placements.front().host) plan_.address.clear();
    mark_here(*placements);
    plan_.placements = std::move(*placements);
    plan_.elastic->size = size;
    hosts_.clear();
    verdict_ = Verdict(true);
    vacancies_.clear();
    settled_.reset();
    next_.reset();
    phase_ = Phase::Running;
    outcome_ = Members::Next::GoOn;
    return true;
  }

  Plan plan_;
  Descendants descendants_;
  Output output_;
  std::vector<std::unique_ptr<HostLink>> hosts_;
  Fd signals_;
  Verdict verdict_{plan_.elastic.has_value()};
  Phase phase_ = Phase::Running;
  bool handed_out_ = false;  // agents have their ranks
  // The time at which the next phase begins.
  std::optional<Deadline> next_;
  Deadline greeting_due_ = Deadline::after_ms(-1);
  int code_ = 0;  // where no rank is at fault

  // The members below belong to elastic jobs.
  const Size wished_ = plan_.elastic ? plan_.elastic->size : Size{};
  std::optional<Members> members_;
  std::optional<ElasticFolder> folder_;
  Members::Next outcome_ = Members::Next::GoOn;
  // The ends of ranks that no other has replaced yet.
  std::vector<RankEnd> vacancies_;
  std::optional<Deadline> settled_;  // when they are replaced
  std::vector<std::string> lost_hosts_;
};

}  // namespace

int launch(const Plan& plan) { return Job(plan).run(); }

}  // namespace wreath::launcher
