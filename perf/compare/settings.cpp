// The table of settings and their command lines.
#include "perf/compare/settings.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "perf/base/machine.hpp"
#include "wreath/transport.hpp"

namespace wreath::perf {
namespace {

constexpr std::string_view kMpichTcp = "MPIR_CVAR_NOLOCAL=1 UCX_TLS=tcp,self UCX_NET_DEVICES=lo";
constexpr std::string_view kReleaseGather =
    "MPIR_CVAR_BCAST_POSIX_INTRA_ALGORITHM=release_gather MPIR_CVAR_REDUCE_POSIX_INTRA_ALGORITHM=release_gather "
    "MPIR_CVAR_ALLREDUCE_POSIX_INTRA_ALGORITHM=release_gather MPIR_CVAR_BARRIER_POSIX_INTRA_ALGORITHM=release_gather";

constexpr std::array kSettings{
    Setting{"wreath", "Wreath", Starter::Wreath, Carrier::Memory, "", ""},
    Setting{"wreath", "Wreath", Starter::Wreath, Carrier::Sockets, "", ""},
    Setting{"build", "the other build", Starter::OtherBuild, Carrier::Memory, "", ""},
    Setting{"build", "the other build", Starter::OtherBuild, Carrier::Sockets, "", ""},
    Setting{"O", "Open MPI", Starter::OpenMpi, Carrier::Memory, "--mca pml ob1 --mca btl self,vader", ""},
    Setting{"On", "Open MPI without CMA", Starter::OpenMpi, Carrier::Memory,
            "--mca pml ob1 --mca btl self,vader --mca btl_vader_single_copy_mechanism none", ""},
    Setting{"Oc", "Open MPI coll/sm", Starter::OpenMpi, Carrier::Memory,
            "--mca pml ob1 --mca btl self,vader --mca btl_vader_single_copy_mechanism none --mca coll_sm_priority 90",
            ""},
    Setting{"Ou", "Open MPI over UCX", Starter::OpenMpi, Carrier::Memory,
            "--mca pml ucx --mca opal_common_ucx_tls any --mca opal_common_ucx_devices any",
            "UCX_TLS=self,posix,sysv,cma"},
    Setting{"M", "MPICH", Starter::Mpich, Carrier::Memory, "", ""},
    Setting{"Mr", "MPICH release_gather", Starter::Mpich, Carrier::Memory, "", kReleaseGather},
    Setting{"Mu", "MPICH through UCX", Starter::Mpich, Carrier::Memory, "",
            "MPIR_CVAR_NOLOCAL=1 UCX_TLS=self,posix,sysv,cma"},
    Setting{"O", "Open MPI", Starter::OpenMpi, Carrier::Sockets,
            "--mca pml ob1 --mca btl self,tcp --mca btl_tcp_if_include lo", ""},
    Setting{"Ou", "Open MPI over UCX", Starter::OpenMpi, Carrier::Sockets,
            "--mca pml ucx --mca opal_common_ucx_tls any --mca opal_common_ucx_devices any",
            "UCX_TLS=tcp,self UCX_NET_DEVICES=lo"},
    Setting{"M", "MPICH", Starter::Mpich, Carrier::Sockets, "", kMpichTcp},
    Setting{"G", "Gloo", Starter::Gloo, Carrier::Sockets, "", ""},
};

std::vector<std::string> words(std::string_view text) {
  std::istringstream stream{std::string(text)};
  std::vector<std::string> list;
  for (std::string word; stream >> word;) list.push_back(word);
  return list;
}

template <typename... Lists>
std::vector<std::string> joined(const Lists&... lists) {
  std::vector<std::string> all;
  (all.insert(all.end(), lists.begin(), lists.end()), ...);
  return all;
}

std::string program_of(const Setting& setting, const Places& places, const std::string& program) {
  switch (setting.starter) {
    case Starter::Wreath: return places.folder + "/" + program;
    case Starter::OtherBuild: return places.other_build + "/" + program;
    case Starter::OpenMpi: return places.folder + "/peer_openmpi";
    case Starter::Mpich: return places.folder + "/peer_mpich";
    case Starter::Gloo: return places.folder + "/peer_gloo";
  }
  return {};
}

std::string_view starter_program(Starter starter) {
  switch (starter) {
    case Starter::OpenMpi: return "/usr/bin/mpirun.openmpi";
    case Starter::Mpich: return "/usr/bin/mpirun.mpich";
    default: return {};
  }
}

}  // namespace

std::string_view name(Starter starter) noexcept {
  constexpr std::string_view kNames[] = {"Wreath", "the other build", "Open MPI", "MPICH", "Gloo"};
  return kNames[static_cast<std::size_t>(starter)];
}

std::string_view transport_of(Carrier carrier) noexcept {
  const auto rows = transports();
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const TransportRow& row) {
    return carrier == Carrier::Memory ? row.shares == SharedMemory::Host : row.needs_stream;
  });
  return found == rows.end() ? std::string_view() : found->name;
}

std::vector<std::string> compared_transports() {
  return {std::string(transport_of(Carrier::Memory)), std::string(transport_of(Carrier::Sockets))};
}

std::span<const Setting> settings() noexcept { return kSettings; }

const Setting* find_setting(std::string_view transport, std::string_view code) noexcept {
  const auto* found = std::find_if(kSettings.begin(), kSettings.end(), [&](const Setting& row) {
    return row.transport() == transport && row.code == code;
  });
  return found == kSettings.end() ? nullptr : found;
}

Start start_of(const Setting& setting, int ranks, const Places& places, const std::string& program,
               const std::vector<std::string>& flags) {
  const std::vector<std::string> own{program_of(setting, places, program)};
  const std::vector<std::string> tool{program};
  const std::vector<std::string> arguments = words(setting.arguments);
  const std::string count = std::to_string(ranks);
  const std::string starter(starter_program(setting.starter));
  const bool fits = static_cast<std::size_t>(ranks) <= allowed_cores().size();
  Start start;
  switch (setting.starter) {
    case Starter::Wreath:
    case Starter::OtherBuild:
      start.commands = {
          joined(own, words(fmt::format("--ranks {} --transport {}", count, setting.transport())), flags)};
      break;
    case Starter::OpenMpi: {
      const auto options = words(fmt::format("--allow-run-as-root {} -n {}",
                                             fits ? "--bind-to core" : "--oversubscribe --bind-to none", count));
      start.commands = {joined(std::vector{starter}, options, arguments, own, tool, flags)};
      break;
    }
    case Starter::Mpich: {
      const auto options = words(fmt::format("{}-n {}", fits ? "-bind-to core " : "", count));
      start.commands = {joined(std::vector{starter}, options, arguments, own, tool, flags)};
      break;
    }
    case Starter::Gloo:
      for (int rank = 0; rank < ranks; ++rank) {
        start.commands.push_back(
            joined(own, std::vector{std::to_string(rank), count, places.scratch}, tool, words("--no-pin"), flags));
      }
      break;
  }
  start.variables = words(setting.variables);
  return start;
}

std::string missing(const Setting& setting, const Places& places) {
  for (const std::string& path :
       {program_of(setting, places, "all_reduce_perf"), std::string(starter_program(setting.starter))}) {
    if (!path.empty() && ::access(path.c_str(), X_OK) != 0) return path;
  }
  return {};
}

}  // namespace wreath::perf
