// The libraries that are compared, and the programs that start their ranks.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace wreath::perf {

// The folders of a start. `folder` holds the programs, and `scratch` is an empty folder for the run's files.
// `other_build` holds the programs of another build of this library, and `peers` newer libraries than the system's, a
// folder each (empty: there are none).
struct Places {
  std::string folder;
  std::string scratch;
  std::string other_build;
  std::string peers{};
};

struct Library {
  std::string_view name{};     // "Open MPI 4"
  std::string_view program{};  // runs the loop of all perf tools over it; empty: each perf tool is a program
  std::string_view folder{};   // of its own, in Places::peers; empty: it is the system's, or this library
  std::string_view starter{};  // in that folder or the system's; empty: no program starts its ranks
  // The starter's words where each rank has a core, and where ranks share cores.
  std::string_view own_cores{};
  std::string_view shared_cores{};
  std::string_view variables{};  // NAME=VALUE, separated by spaces; {} is the library's folder
};

extern const Library kWreath;
// This library's programs from another build folder.
extern const Library kOtherBuild;
extern const Library kOpenMpi4;
extern const Library kOpenMpi5;
extern const Library kMpich4;
extern const Library kMpich5;
extern const Library kIntelMpi;
extern const Library kGloo;

// Returns all libraries but this one's builds.
std::span<const Library* const> peers() noexcept;

// Returns the path of the program that is measured: `tool`, or the peer's own.
std::string program_of(const Library& library, const Places& places, std::string_view tool);
// Returns the path of the starter; empty: there is none.
std::string starter_of(const Library& library, const Places& places);
// Returns `text` with the library's folder for each {}.
std::string with_folder(const Library& library, const Places& places, std::string_view text);

}  // namespace wreath::perf
