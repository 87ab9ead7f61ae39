// The table of libraries.
#include "perf/compare/libraries.hpp"

#include <array>

namespace wreath::perf {

constexpr Library kWreath{.name = "Wreath"};
constexpr Library kOtherBuild{.name = "the other build"};
constexpr Library kOpenMpi4{.name = "Open MPI 4",
                            .program = "peer_openmpi4",
                            .starter = "/usr/bin/mpirun.openmpi",
                            .own_cores = "--allow-run-as-root --bind-to core",
                            .shared_cores = "--allow-run-as-root --oversubscribe --bind-to none"};
constexpr Library kOpenMpi5{
    .name = "Open MPI 5",
    .program = "peer_openmpi5",
    .folder = "openmpi5",
    .starter = "bin/mpirun",
    .own_cores = "--allow-run-as-root --bind-to core",
    .shared_cores = "--allow-run-as-root --map-by :OVERSUBSCRIBE --bind-to none --mca mpi_yield_when_idle 1"};
constexpr Library kMpich4{.name = "MPICH 4",
                          .program = "peer_mpich4",
                          .starter = "/usr/bin/mpirun.mpich",
                          .own_cores = "-bind-to core",
                          .shared_cores = ""};
constexpr Library kMpich5{.name = "MPICH 5",
                          .program = "peer_mpich5",
                          .folder = "mpich5",
                          .starter = "bin/mpiexec",
                          .own_cores = "-bind-to core",
                          .shared_cores = ""};
// Its mpirun asks the batch system first. The libfabric that it wants is a package of its own; shared memory needs
// none.
constexpr Library kIntelMpi{.name = "Intel MPI",
                            .program = "peer_impi",
                            .folder = "impi",
                            .starter = "bin/mpiexec.hydra",
                            .own_cores = "-bind-to core",
                            .shared_cores = "-genv I_MPI_PIN 0 -genv I_MPI_THREAD_YIELD 3",
                            .variables = "I_MPI_ROOT={}"};
constexpr Library kGloo{.name = "Gloo", .program = "peer_gloo"};

std::span<const Library* const> peers() noexcept {
  static constexpr std::array kPeers{&kOpenMpi4, &kOpenMpi5, &kMpich4, &kMpich5, &kIntelMpi, &kGloo};
  return kPeers;
}

namespace {

std::string folder_of(const Library& library, const Places& places) {
  return library.folder.empty() ? std::string() : places.peers + "/" + std::string(library.folder);
}

}  // namespace

std::string program_of(const Library& library, const Places& places, std::string_view tool) {
  const std::string& folder = &library == &kOtherBuild ? places.other_build : places.folder;
  return folder + "/" + std::string(library.program.empty() ? tool : library.program);
}

std::string starter_of(const Library& library, const Places& places) {
  if (library.starter.empty() || library.folder.empty()) return std::string(library.starter);
  return folder_of(library, places) + "/" + std::string(library.starter);
}

std::string with_folder(const Library& library, const Places& places, std::string_view text) {
  std::string result(text);
  const std::string folder = folder_of(library, places);
  for (std::size_t at = result.find("{}"); at != std::string::npos; at = result.find("{}", at + folder.size())) {
    result.replace(at, 2, folder);
  }
  return result;
}

}  // namespace wreath::perf
