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

constexpr std::string_view kOverUcx = "--mca pml ucx --mca opal_common_ucx_tls any --mca opal_common_ucx_devices any";
constexpr std::string_view kIntelTcp =
    "I_MPI_FABRICS=ofi I_MPI_OFI_PROVIDER=tcp FI_TCP_IFACE=lo I_MPI_COLL_INTRANODE=pt2pt";

constexpr Carrier kMemory = Carrier::Memory;
constexpr Carrier kSockets = Carrier::Sockets;

// Codes of newer libraries have their version.
constexpr std::array kSettings{
    Setting{"wreath", "Wreath", &kWreath, kMemory, "", ""},
    Setting{"wreath", "Wreath", &kWreath, kSockets, "", ""},
    Setting{"build", "the other build", &kOtherBuild, kMemory, "", ""},
    Setting{"build", "the other build", &kOtherBuild, kSockets, "", ""},
    Setting{"O", "Open MPI 4", &kOpenMpi4, kMemory, "--mca pml ob1 --mca btl self,vader", ""},
    Setting{"On", "Open MPI 4 without CMA", &kOpenMpi4, kMemory,
            "--mca pml ob1 --mca btl self,vader --mca btl_vader_single_copy_mechanism none", ""},
    Setting{"Oc", "Open MPI 4 coll/sm", &kOpenMpi4, kMemory,
            "--mca pml ob1 --mca btl self,vader --mca btl_vader_single_copy_mechanism none --mca coll_sm_priority 90",
            ""},
    Setting{"Ou", "Open MPI 4 over UCX", &kOpenMpi4, kMemory, kOverUcx, "UCX_TLS=self,posix,sysv,cma"},
    Setting{"O5", "Open MPI 5", &kOpenMpi5, kMemory, "--mca pml ob1 --mca btl self,sm", ""},
    Setting{"O5n", "Open MPI 5 without CMA", &kOpenMpi5, kMemory,
            "--mca pml ob1 --mca btl self,sm --mca smsc ^cma --mca coll ^han", ""},
    Setting{"O5c", "Open MPI 5 coll/sm", &kOpenMpi5, kMemory,
            "--mca pml ob1 --mca btl self,sm --mca smsc ^cma --mca coll ^han --mca coll_sm_priority 90", ""},
    Setting{"O5l", "Open MPI 5, large fragments", &kOpenMpi5, kMemory,
            "--mca pml ob1 --mca btl self,sm --mca btl_sm_eager_limit 32768 --mca btl_sm_max_send_size 131072", ""},
    Setting{"O5u", "Open MPI 5 over UCX without CMA", &kOpenMpi5, kMemory, kOverUcx, "UCX_TLS=posix,sysv,self"},
    Setting{"O5uc", "Open MPI 5 over UCX", &kOpenMpi5, kMemory, kOverUcx, "UCX_TLS=sm,self"},
    Setting{"M", "MPICH 4", &kMpich4, kMemory, "", ""},
    Setting{"Mr", "MPICH 4 release_gather", &kMpich4, kMemory, "", kReleaseGather},
    Setting{"Mu", "MPICH 4 through UCX", &kMpich4, kMemory, "", "MPIR_CVAR_NOLOCAL=1 UCX_TLS=self,posix,sysv,cma"},
    Setting{"M5", "MPICH 5", &kMpich5, kMemory, "", ""},
    Setting{"M5r", "MPICH 5 release_gather", &kMpich5, kMemory, "", kReleaseGather},
    Setting{"I", "Intel MPI", &kIntelMpi, kMemory, "", "I_MPI_FABRICS=shm"},
    Setting{"Ih", "Intel MPI shared heap", &kIntelMpi, kMemory, "",
            "I_MPI_FABRICS=shm I_MPI_SHM_HEAP=1 I_MPI_SHM=skx_avx512"},
    Setting{"It", "Intel MPI tuned", &kIntelMpi, kMemory, "",
            "I_MPI_FABRICS=shm I_MPI_SHM=skx_avx512 I_MPI_TUNING_BIN={}/opt/mpi/etc/tuning_spr_shm.dat"},
    Setting{"O", "Open MPI 4", &kOpenMpi4, kSockets, "--mca pml ob1 --mca btl self,tcp --mca btl_tcp_if_include lo",
            ""},
    Setting{"Ou", "Open MPI 4 over UCX", &kOpenMpi4, kSockets, kOverUcx, "UCX_TLS=tcp,self UCX_NET_DEVICES=lo"},
    Setting{"O5", "Open MPI 5", &kOpenMpi5, kSockets,
            "--mca pml ob1 --mca btl self,tcp --mca coll ^han,sm --mca btl_tcp_if_include lo", ""},
    Setting{"M", "MPICH 4", &kMpich4, kSockets, "", kMpichTcp},
    Setting{"M5", "MPICH 5", &kMpich5, kSockets, "",
            "MPIR_CVAR_NOLOCAL=1 MPIR_CVAR_CH4_NETMOD=ofi FI_PROVIDER=tcp FI_TCP_IFACE=lo"},
    Setting{"I", "Intel MPI", &kIntelMpi, kSockets, "", kIntelTcp},
    Setting{"G", "Gloo", &kGloo, kSockets, "", ""},
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

}  // namespace

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
  const Library& library = *setting.library;
  const std::vector<std::string> own{program_of(library, places, program)};
  const std::vector<std::string> tool{program};
  const std::string count = std::to_string(ranks);
  const std::string starter = starter_of(library, places);
  Start start;
  start.variables = joined(words(with_folder(library, places, library.variables)),
                           words(with_folder(library, places, setting.variables)));
  if (library.program.empty()) {
    start.commands = {joined(own, words(fmt::format("--ranks {} --transport {}", count, setting.transport())), flags)};
  } else if (!starter.empty()) {
    const bool own_cores = static_cast<std::size_t>(ranks) <= allowed_cores().size();
    const auto options = words(fmt::format("{} -n {}", own_cores ? library.own_cores : library.shared_cores, count));
    start.commands = {joined(std::vector{starter}, options, words(setting.arguments), own, tool, flags)};
  } else {
    for (int rank = 0; rank < ranks; ++rank) {
      start.commands.push_back(
          joined(own, std::vector{std::to_string(rank), count, places.scratch}, tool, words("--no-pin"), flags));
    }
  }
  return start;
}

std::string missing(const Setting& setting, const Places& places) {
  const Library& library = *setting.library;
  for (const std::string& path : {program_of(library, places, "all_reduce_perf"), starter_of(library, places)}) {
    if (!path.empty() && ::access(path.c_str(), X_OK) != 0) return path;
  }
  return {};
}

}  // namespace wreath::perf
