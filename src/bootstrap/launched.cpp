// Finds the launcher that started this process, by a table of launchers with the innermost first.
#include "src/bootstrap/launched.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "src/base/config.hpp"
#include "src/base/ports.hpp"

namespace wreath {
namespace {

constexpr int kPorts = 16;
constexpr int kDefaultPort = 29'500;

enum class LaunchedBy { Wreath, Torchrun, OpenMpi, Pmi, Slurm };

struct Launcher {
  LaunchedBy by;
  std::string_view name;
  Setting rank;
  Setting ranks;
  // Is read where `ranks` is not set.
  Setting ranks_otherwise;
  Setting local_rank;
  Setting local_rank_otherwise;
  // Without this setting the others mean something else.
  Setting proof;
};

constexpr std::array kLaunchers{
    Launcher{LaunchedBy::Wreath, "Wreath's variables", Setting::OwnRank, Setting::OwnRanks, Setting::OwnRanks,
             Setting::OwnLocalRank, Setting::OwnLocalRank, Setting::OwnRank},
    Launcher{LaunchedBy::Torchrun, "torchrun's variables", Setting::JobRank, Setting::WorldSize, Setting::WorldSize,
             Setting::LocalRank, Setting::LocalRank, Setting::JobRank},
    Launcher{LaunchedBy::OpenMpi, "Open MPI's variables", Setting::OpenMpiRank, Setting::OpenMpiRanks,
             Setting::OpenMpiRanks, Setting::OpenMpiLocalRank, Setting::OpenMpiLocalRank, Setting::PmixNamespace},
    // Slurm numbers the ranks of a host, too, where it serves PMI.
    Launcher{LaunchedBy::Pmi, "PMI's variables", Setting::PmiRank, Setting::PmiRanks, Setting::PmiRanks,
             Setting::PmiLocalRank, Setting::SlurmLocalRank, Setting::PmiDescriptor},
    Launcher{LaunchedBy::Slurm, "Slurm's variables", Setting::SlurmRank, Setting::SlurmStepRanks, Setting::SlurmRanks,
             Setting::SlurmLocalRank, Setting::SlurmLocalRank, Setting::SlurmStep},
};

Setting ranks_setting(const Launcher& launcher) {
  return is_set(launcher.ranks) ? launcher.ranks : launcher.ranks_otherwise;
}

bool complete(const Launcher& launcher) {
  return is_set(launcher.rank) && is_set(ranks_setting(launcher)) && is_set(launcher.proof);
}

// Returns the name of one of these settings that is set; empty where none is.
template <std::size_t kCount>
std::string_view present(const std::array<Setting, kCount>& settings) {
  const auto found = std::find_if(settings.begin(), settings.end(), is_set);
  return found == settings.end() ? std::string_view() : row(*found).name;
}

Status require(Setting setting, std::string_view because) {
  if (is_set(setting)) return {};
  return Error{ErrorCode::InvalidArgument, fmt::format("{} is not set, but {}", row(setting).name, because)};
}

// Fails where one of `signs` is set, but not both of the others.
template <std::size_t kCount>
Status require_both(const std::array<Setting, kCount>& signs, Setting rank, Setting ranks) {
  const std::string_view sign = present(signs);
  if (sign.empty()) return {};
  WREATH_TRY(require(rank, fmt::format("{} is", sign)));
  return require(ranks, fmt::format("{} is", sign));
}

// Fails where Slurm's variables are those of MPI's daemons, which started this process within a step of their own. The
// innermost launcher is MPI's then, and Slurm's numbers are not the ranks'.
Status check_innermost(const Launcher& launcher) {
  if (launcher.by != LaunchedBy::Slurm) return {};
  const auto ranks = setting_integer(ranks_setting(launcher));
  for (const Setting size : {Setting::OpenMpiRanks, Setting::PmiRanks}) {
    const auto inner = setting_integer(size);
    if (!is_set(size) || !inner || !ranks || *inner == *ranks) continue;
    return Error{ErrorCode::InvalidArgument,
                 fmt::format("{}={}, but {}={}, which are of the step of MPI's daemons, and it gives no place to meet "
                             "(PMIX_NAMESPACE, PMI_FD); start the ranks by srun or `wreath run`",
                             row(size).name, *inner, row(ranks_setting(launcher)).name, *ranks)};
  }
  return {};
}

// Returns the innermost launcher whose variables are complete, or null. Half of a launcher's variables is a mistake.
// However, MASTER_ADDR and the like may be set for ranks that Slurm numbers.
Result<const Launcher*> find_launcher() {
  constexpr std::array kOwn{Setting::OwnRank, Setting::OwnRanks};
  constexpr std::array kTorchrun{Setting::JobRank, Setting::WorldSize, Setting::MasterAddr, Setting::MasterPort};
  constexpr std::array kMeeting{Setting::MeetingFile, Setting::Address};
  WREATH_TRY(require_both(kOwn, Setting::OwnRank, Setting::OwnRanks));
  const auto* const found = std::find_if(kLaunchers.begin(), kLaunchers.end(), complete);
  if (found != kLaunchers.end()) {
    WREATH_TRY(check_innermost(*found));
    return found;
  }
  WREATH_TRY(require_both(kTorchrun, Setting::JobRank, Setting::WorldSize));
  WREATH_TRY(require_both(kMeeting, Setting::OwnRank, Setting::OwnRanks));
  return nullptr;
}

Result<EnvironmentJob> job_of(const Launcher& launcher) {
  const Setting ranks_name = ranks_setting(launcher);
  const auto rank = setting_integer(launcher.rank);
  if (!rank) return rank.error();
  const auto ranks = setting_integer(ranks_name);
  if (!ranks) return ranks.error();
  if (*rank >= *ranks) {
    return Error{ErrorCode::InvalidArgument, fmt::format("{}={} must be less than {}={}", row(launcher.rank).name,
                                                         *rank, row(ranks_name).name, *ranks)};
  }
  EnvironmentJob job{static_cast<int>(*rank),
                     static_cast<int>(*ranks),
                     fmt::format("{} ({}, {})", launcher.name, row(launcher.rank).name, row(ranks_name).name),
                     -1,
                     true,
                     {}};
  const Setting local_name = is_set(launcher.local_rank) ? launcher.local_rank : launcher.local_rank_otherwise;
  if (is_set(local_name)) {
    const auto local = setting_integer(local_name);
    if (!local) return local.error();
    job.local_rank = static_cast<int>(*local);
  }
  return job;
}

// Returns the ports from MASTER_PORT on. Where torchrun's own store is at MASTER_PORT, it is left out, for there is no
// use in asking it.
Result<std::vector<std::uint16_t>> ports_after_master_port() {
  const auto port = setting_integer(Setting::MasterPort);
  if (!port) return port.error();
  auto ports = ports_from(*port);
  if (setting_text(Setting::AgentStore) == "True" && ports.size() > 1) ports.erase(ports.begin());
  return ports;
}

Result<Rendezvous> at_master() {
  WREATH_TRY(require(Setting::MasterAddr, "there are other ranks to meet"));
  const std::string host = setting_text(Setting::MasterAddr);
  Rendezvous place{{host}, {}, {}, "MASTER_ADDR=" + host};
  if (is_set(Setting::MasterPort)) {
    auto ports = ports_after_master_port();
    if (!ports) return ports.error();
    place.ports = std::move(*ports);
    place.job = "MASTER_PORT=" + setting_text(Setting::MasterPort);
  }
  return place;
}

Result<Rendezvous> at_first_node() {
  const Setting nodes = is_set(Setting::SlurmStepNodes) ? Setting::SlurmStepNodes : Setting::SlurmNodes;
  const std::string list = setting_text(nodes);
  const std::string first = first_node(list);
  if (first.empty()) {
    return Error{
        ErrorCode::InvalidArgument,
        fmt::format("{}='{}' is no list of nodes; WREATH_ADDRESS can name rank 0's host", row(nodes).name, list)};
  }
  const auto job = is_set(Setting::SlurmJob) ? setting_integer(Setting::SlurmJob) : Result<std::int64_t>(0);
  if (!job) return job.error();
  const std::string step = setting_text(Setting::SlurmStep);
  // A step of one node needs no name: the list is that node then.
  const bool alone = first == list;
  Rendezvous place{
      alone ? std::vector<std::string>() : std::vector{first}, ports_from(kFirstMeetingPort + *job % kMeetingPorts),
      fmt::format("SLURM_JOB_ID={} SLURM_STEP_ID={}", *job, step), fmt::format("{}={}", row(nodes).name, list)};
  if (!alone) place.step = fmt::format("slurm-{}.{}", *job, step);
  return place;
}

// Returns what the launcher carries texts by. Within torchrun, PMIx and PMI are those of the step around it.
Carrier carrier_of(const Launcher& launcher) {
  if (launcher.by == LaunchedBy::OpenMpi) return Carrier::Pmix;
  if (launcher.by == LaunchedBy::Pmi) return Carrier::Pmi;
  const bool same = launcher.by == LaunchedBy::Slurm && is_set(Setting::PmixNamespace) && is_set(Setting::PmixRank) &&
                    setting_text(Setting::PmixRank) == setting_text(Setting::SlurmRank);
  return same ? Carrier::Pmix : Carrier::None;
}

Result<Rendezvous> where_launcher_says(const Launcher& launcher) {
  if (is_set(Setting::Address)) {
    const std::string text = setting_text(Setting::Address);
    return Rendezvous{split_list(text), {}, {}, "WREATH_ADDRESS=" + text};
  }
  if (launcher.by == LaunchedBy::Wreath) return Rendezvous{{}, {}, {}, "no WREATH_ADDRESS"};
  if (const Carrier carrier = carrier_of(launcher); carrier != Carrier::None) {
    Rendezvous place;
    place.carrier = carrier;
    return place;
  }
  if (launcher.by == LaunchedBy::Slurm && !is_set(Setting::MasterAddr)) return at_first_node();
  return at_master();
}

// Returns what MPI's launchers say of other processes, where they say too little to meet them. The caller is a process
// that no launcher of the table numbers. Empty where there is nothing.
std::string strangers() {
  struct Sign {
    Setting setting;
    // Is the setting's highest value in a process that has no others.
    std::int64_t alone;
    std::string_view missing;
  };
  // A rank above 0 is not the only one. Its process ends the job; rank 0 may be the only one, and warns
  // (disagreements).
  constexpr std::array kSigns{Sign{Setting::OpenMpiRanks, 1, "OMPI_COMM_WORLD_RANK and PMIX_NAMESPACE"},
                              Sign{Setting::PmiRanks, 1, "PMI_RANK and PMI_FD"},
                              Sign{Setting::PmixRank, 0, "OMPI_COMM_WORLD_SIZE or SLURM_STEP_NUM_TASKS"}};
  for (const Sign& sign : kSigns) {
    const auto value = setting_integer(sign.setting);
    if (!is_set(sign.setting) || !value || *value <= sign.alone) continue;
    return fmt::format("{}={}, but Wreath does not meet through MPI's launchers without {}", row(sign.setting).name,
                       *value, sign.missing);
  }
  return {};
}

// Returns what MPI's launchers say of this process's number among the ranks of its host, or -1.
int local_rank_of_strangers() {
  for (const Setting setting : {Setting::OpenMpiLocalRank, Setting::PmiLocalRank}) {
    const auto number = setting_integer(setting);
    if (is_set(setting) && number) return static_cast<int>(*number);
  }
  return -1;
}

// Returns whether PMIx numbers this process 0 and no variable says of how many, so that it may be alone by mistake.
bool may_have_strangers() {
  const auto rank = setting_integer(Setting::PmixRank);
  return is_set(Setting::PmixRank) && rank && *rank == 0 && !is_set(Setting::OpenMpiRanks) &&
         !is_set(Setting::PmiRanks);
}

}  // namespace

Result<EnvironmentJob> environment_job() {
  const auto launcher = find_launcher();
  if (!launcher) return launcher.error();
  if (*launcher == nullptr) {
    return EnvironmentJob{0,     1,          "nobody: no launcher's variables are set", local_rank_of_strangers(),
                          false, strangers()};
  }
  auto job = job_of(**launcher);
  if (job && job->ranks > 1) {
    if (const auto place = rendezvous(); !place) return place.error();
  }
  return job;
}

Result<Rendezvous> rendezvous() {
  const auto launcher = find_launcher();
  if (!launcher) return launcher.error();
  if (*launcher == nullptr) return Error{ErrorCode::InvalidArgument, "no launcher's variables are set"};
  auto place = is_set(Setting::MeetingFile) ? Result<Rendezvous>(Rendezvous()) : where_launcher_says(**launcher);
  if (!place) return place;
  place->file = setting_text(Setting::MeetingFile);
  if (const std::string text = setting_text(Setting::Port); text != "0") {
    auto ports = parse_ports(text, row(Setting::Port).name);
    if (!ports) return ports.error();
    place->ports = std::move(*ports);
  }
  if (place->ports.empty() && (*launcher)->by == LaunchedBy::Torchrun && place->file.empty() &&
      !is_set(Setting::Address))
    WREATH_TRY(require(Setting::MasterPort, "MASTER_ADDR is"));
  if (place->ports.empty() && place->carrier == Carrier::None) place->ports = ports_from(kDefaultPort);
  if (is_set(Setting::JobName)) place->job = "WREATH_JOB=" + setting_text(Setting::JobName);
  return place;
}

std::vector<Disagreement> disagreements(const EnvironmentJob& job) {
  std::vector<Disagreement> all;
  for (const Launcher& launcher : kLaunchers) {
    if (!complete(launcher) || job.source.starts_with(launcher.name)) continue;
    const auto other = job_of(launcher);
    if (!other || (other->rank == job.rank && other->ranks == job.ranks)) continue;
    all.push_back({fmt::format("{} say rank {} of {}; they are not used", other->source, other->rank, other->ranks),
                   job.ranks == 1 && other->ranks > 1});
  }
  if (!job.launched && may_have_strangers()) {
    all.push_back({fmt::format("{}=0 does not say how many ranks there are, and this process does not meet any others. "
                               "Start it by `wreath run`, or set WREATH_RANK and WREATH_RANKS (0 and 1 where it is to "
                               "be alone)",
                               row(Setting::PmixRank).name),
                   true});
  }
  return all;
}

std::vector<std::uint16_t> ports_from(std::int64_t first) {
  std::vector<std::uint16_t> ports;
  for (std::int64_t port = first; port < first + kPorts && port <= kMaximumPort; ++port)
    ports.push_back(static_cast<std::uint16_t>(port));
  return ports;
}

std::string first_node(std::string_view list) {
  std::string name;
  while (!list.empty() && list.front() != ',') {
    if (list.front() != '[') {
      name += list.front();
      list.remove_prefix(1);
      continue;
    }
    const std::size_t close = list.find(']');
    if (close == std::string_view::npos) return {};
    const std::string_view inside = list.substr(1, close - 1);
    const std::string_view first = inside.substr(0, inside.find_first_of(",-"));
    if (first.empty() || !std::all_of(first.begin(), first.end(), [](char c) { return c >= '0' && c <= '9'; }))
      return {};
    name += first;
    list.remove_prefix(close + 1);
  }
  return name;
}

}  // namespace wreath
