// The subcommand `wreath run`: reads its arguments for the code in tools/run/.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "src/base/config.hpp"
#include "src/command_line/numbers.hpp"
#include "src/command_line/program.hpp"
#include "tools/commands.hpp"
#include "tools/run/agent.hpp"
#include "tools/run/launcher.hpp"
#include "wreath/topology.hpp"
#include "wreath/types.hpp"

namespace wreath {
namespace {

constexpr std::size_t kMostHostfileBytes = std::size_t{1} << 20;
// The ssh command. It asks no questions, since a user could not answer them for each host. It notices a host that is
// gone.
constexpr const char* kSsh =
    "ssh -T -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=5 -o ServerAliveCountMax=3";

constexpr const char* kFooter =
    R"(CMD is started once for each rank, which finds its number, the others and the job's key in its environment
(WREATH_RANK, WREATH_RANKS, ...; also RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT). The first rank that
fails ends the job, with its exit code: the others get SIGTERM, and SIGKILL after --grace. Ctrl-C does the same.
No process is left, however `wreath run` ends.

Other hosts are reached by ssh, which must not ask for a password, and need the same `wreath` and CMD at the same
path. Their ranks get WREATH_*, NCCL_*, PATH and LD_LIBRARY_PATH of this environment, and what --env names.

With --elastic a rank that fails is dead: the others go on while --min are left, and another process is started in its
place, as is everything when too few are left or one ends with 9, until --max-restarts. CMD must know how to go on
(WREATH_ELASTIC, WREATH_JOIN; the training layer does); one that does not is started again as a whole.

Examples:
  wreath run -n 4 ./train                       four ranks here, each with its share of the cores
  wreath run -n 4 --verbose all_reduce_perf -b 8 -e 64M -f 2
  wreath run -n 8 --hosts a,b ./train           four on a, four on b
  wreath run --hosts a:2,b:6 ./train            two on a, six on b
  wreath run --hostfile hosts -n 16 --env OMP_NUM_THREADS=2 -- ./train --epochs 3
  wreath run -n 2 --ssh "ssh -p 2222" --hosts a,b ./train
  wreath run -n 4 --output logs ./train         also logs/rank-0.out, logs/rank-0.err, ...
  wreath run --elastic --min 2 --max 4 --spares 1 ./train

exit: that of the rank that failed first, 128 + N where signal N ended it or this; 2 usage; 6 a host or CMD could not
be started. With --elastic 0 when those that were left ended with 0.)";

struct RunArguments {
  int ranks = 0;
  std::string hosts;
  std::string hostfile;
  std::string ssh;
  std::string bind = "cores";
  double grace_s = 5;
  bool no_prefix = false;
  bool agent = false;
  launcher::Elasticity elastic;
  bool is_elastic = false;
  launcher::Plan plan;
};

Error refuse(const std::string& text) { return {ErrorCode::InvalidArgument, text}; }

// Returns one rank for each core that this process may use.
int cores_here() {
  const Topology topology = read_topology();
  std::set<int> cores;
  for (const Processor& processor : topology.processors) {
    for (const int allowed : topology.allowed) {
      if (allowed == processor.number) cores.insert(processor.core);
    }
  }
  return std::max<int>(1, static_cast<int>(cores.size()));
}

std::string own_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 && name[0] != 0 ? name.data() : "localhost";
}

Result<std::vector<launcher::Host>> hosts_of(const RunArguments& arguments) {
  if (!arguments.hosts.empty()) return launcher::parse_hosts(arguments.hosts);
  if (arguments.hostfile.empty()) return std::vector<launcher::Host>{{own_name(), 0}};
  std::ifstream file(arguments.hostfile);
  if (!file) return refuse(fmt::format("--hostfile {}: it cannot be read", arguments.hostfile));
  std::string text(kMostHostfileBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (file.bad() || text.size() > kMostHostfileBytes)
    return refuse(fmt::format("--hostfile {}: this is no list of hosts", arguments.hostfile));
  return launcher::parse_hostfile(text, arguments.hostfile);
}

// Returns the ranks of an elastic job: -n, else --max, else the ranks of a job that is not elastic, without the spares.
Result<int> elastic_ranks(const RunArguments& arguments, const std::vector<launcher::Host>& hosts) {
  if (arguments.ranks > 0) return arguments.ranks;
  if (arguments.elastic.max_ranks > 0) return arguments.elastic.max_ranks;
  if (arguments.hosts.empty() && arguments.hostfile.empty()) return cores_here();
  auto placements = launcher::place(hosts, 0);
  if (!placements) return placements.error();
  int slots = 0;
  for (const launcher::Placement& one : *placements) slots += static_cast<int>(one.ranks.size());
  return slots - arguments.elastic.size.spares;
}

Status complete_elastic(RunArguments& arguments, const std::vector<launcher::Host>& hosts) {
  launcher::Elasticity& elastic = arguments.elastic;
  if (elastic.max_ranks > 0 && elastic.min_ranks > elastic.max_ranks)
    return refuse(fmt::format("--min {} is above --max {}", elastic.min_ranks, elastic.max_ranks));
  const auto ranks = elastic_ranks(arguments, hosts);
  if (!ranks) return ranks.error();
  if (elastic.max_ranks == 0) elastic.max_ranks = *ranks;
  if (*ranks > elastic.max_ranks) return refuse(fmt::format("-n {} is above --max {}", *ranks, elastic.max_ranks));
  if (*ranks < elastic.min_ranks) {
    const char* const why = arguments.ranks == 0 ? "; without -n and --max there is one for each core or slot" : "";
    return refuse(fmt::format("-n {} is below --min {}{}", *ranks, elastic.min_ranks, why));
  }
  const int spares = elastic.size.spares;
  if (*ranks + spares > kMaximumRanks)
    return refuse(fmt::format("-n {} and --spares {}: at most {} in all", *ranks, spares, kMaximumRanks));
  elastic.size = {*ranks, spares};
  if (const launcher::Size fits = launcher::fitting(hosts, elastic.size); fits.ranks + fits.spares < *ranks + spares) {
    return refuse(
        fmt::format("-n {} and --spares {}: the hosts have {} slots", *ranks, spares, fits.ranks + fits.spares));
  }
  const bool elsewhere = hosts.size() > 1 || !launcher::is_here(hosts.front().name);
  if (elsewhere && elastic.folder.empty())
    return refuse("--elastic on other hosts needs --elastic-folder DIR: a folder that all hosts share");
  arguments.ranks = *ranks;
  arguments.plan.elastic = elastic;
  return {};
}

Status complete(RunArguments& arguments, const std::vector<std::string>& parsed,
                const std::vector<std::string>& after) {
  launcher::Plan& plan = arguments.plan;
  std::vector<std::string> command = parsed;
  command.insert(command.end(), after.begin(), after.end());
  if (!parsed.empty() && parsed.front().starts_with('-')) {
    return refuse(
        fmt::format("{}: `wreath run` has no such option; those of your program stand after it", command.front()));
  }
  if (command.empty()) return refuse("run: which program? As in: wreath run -n 4 ./program");
  if (!arguments.hosts.empty() && !arguments.hostfile.empty())
    return refuse("--hosts and --hostfile: give one of them");
  plan.command = std::move(command);
  const bool only_here = arguments.hosts.empty() && arguments.hostfile.empty();
  auto hosts = hosts_of(arguments);
  if (!hosts) return hosts.error();
  if (arguments.is_elastic) WREATH_TRY(complete_elastic(arguments, *hosts));
  const int ranks = only_here && arguments.ranks == 0 ? cores_here() : arguments.ranks;
  auto placements = launcher::place(*hosts, ranks + (plan.elastic ? plan.elastic->size.spares : 0));
  if (!placements) return placements.error();
  plan.hosts = std::move(*hosts);
  launcher::mark_here(*placements);
  plan.placements = std::move(*placements);
  const std::string own_ssh = setting_text(Setting::Ssh);
  const std::string ssh = !arguments.ssh.empty() ? arguments.ssh : own_ssh.empty() ? kSsh : own_ssh;
  plan.ssh = launcher::split_words(ssh);
  if (plan.ssh.empty()) return refuse(fmt::format("--ssh '{}': no command can be read from it", ssh));
  for (const std::string& variable : plan.environment) {
    if (variable.empty() || variable.front() == '=')
      return refuse(fmt::format("--env '{}': NAME or NAME=VALUE", variable));
  }
  std::error_code ignored;
  if (plan.program.empty()) plan.program = std::filesystem::read_symlink("/proc/self/exe", ignored).string();
  plan.grace_ms = static_cast<std::int64_t>(arguments.grace_s * 1000);
  plan.bind = arguments.bind == "none" ? launcher::Bind::None : launcher::Bind::Cores;
  plan.prefix = !arguments.no_prefix;
  return {};
}

// Runs the job. `after` holds the words behind --.
int run(RunArguments& arguments, const std::vector<std::string>& parsed, const std::vector<std::string>& after) {
  if (arguments.agent) return launcher::run_remote_agent();
  if (const Status ready = complete(arguments, parsed, after); !ready) {
    command_line::complain_of_usage(ready.error().message);
    return exit_code(ready.error().code);
  }
  warn_of_strangers();
  return launcher::launch(arguments.plan);
}

void add_elastic_options(const command_line::Command& command, RunArguments& arguments) {
  launcher::Elasticity& elastic = arguments.elastic;
  command.add_flag("--elastic", arguments.is_elastic, "go on when ranks are lost, and start others in their place");
  const auto add_count = [&](const char* name, int& value, int least, const char* meaning) {
    command_line::add_number(command, name, value, {least, kMaximumRanks}, meaning).needs("--elastic");
  };
  add_count("--min", elastic.min_ranks, 1, "with fewer ranks left, all start again (default: 1)");
  add_count("--max", elastic.max_ranks, 1, "most ranks that work at a time (default: -n)");
  add_count("--spares", elastic.size.spares, 0, "ranks beside them that wait for work (default: 0)");
  add_count("--max-restarts", elastic.max_restarts, 0, "starts of single ranks and of all, together (default: 3)");
  command.add_option("--elastic-folder", elastic.folder, "where ranks find each other again; hosts must share it")
      .type_name("DIR")
      .check(not_empty)
      .needs("--elastic");
}

}  // namespace

std::function<int()> add_run(const command_line::Command& command) {
  command.description("start CMD as ranks, on this host and others: wreath run [OPTIONS] [--] CMD [ARGS...]");
  command.takes_program();
  const auto arguments = std::make_shared<RunArguments>();
  launcher::Plan& plan = arguments->plan;
  command_line::add_number(command, "-n,--ranks", arguments->ranks, {1, kMaximumRanks},
                           "ranks in all (default: --max, else one for each core; with hosts: each slot)");
  command.add_option("--hosts", arguments->hosts, "hosts, with the ranks that fit: a,b:4")
      .type_name("a,b,...")
      .check(not_empty);
  command.add_option("--hostfile", arguments->hostfile, "file with a host in each line: a, b:4, or c slots=4")
      .type_name("FILE")
      .check(not_empty);
  command.add_flag("-v,--verbose", plan.verbose, "say where ranks run, their cores, and how they meet and end");
  const char* const bind = "cores: each rank its share of its host's; none: all of them";
  command.add_option("--bind", arguments->bind, bind).one_of({"cores", "none"}).capture_default_str();
  command.add_option("--env", plan.environment, "a variable for all ranks: NAME (as it is here) or NAME=VALUE")
      .one_each()
      .type_name("NAME[=VALUE]");
  command.add_flag("--no-prefix", arguments->no_prefix, "do not put [RANK] before the lines of ranks");
  command.add_option("--output", plan.output, "also write what each rank says to files in this folder")
      .type_name("DIR")
      .check(not_empty);
  command_line::add_number(command, "--grace", arguments->grace_s, {0, 3600},
                           "seconds from SIGTERM to SIGKILL, when the job ends early")
      .type_name("SECONDS")
      .capture_default_str();
  command.add_option("--address", plan.address, "where other hosts reach rank 0 (default: by its host's name)")
      .type_name("ADDR")
      .check(not_empty);
  command.add_option("--ssh", arguments->ssh, "how to reach other hosts; HOST and a command follow (WREATH_SSH)")
      .type_name("COMMAND")
      .check(not_empty);
  command.add_option("--remote-wreath", plan.program, "`wreath` on other hosts (default: where it is here)")
      .type_name("PATH")
      .check(not_empty);
  add_elastic_options(command, *arguments);
  command.add_flag("--agent", arguments->agent).group("");
  command.footer(kFooter);
  return [arguments, command] { return run(*arguments, command.remaining(), command.after_dashes()); };
}

}  // namespace wreath
