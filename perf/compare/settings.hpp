// Who is compared, and how each is started: one row for each setting of each library and transport.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace wreath::perf {

// What starts the ranks of a library. OtherBuild: this library's programs, from another build folder.
enum class Starter { Wreath, OtherBuild, OpenMpi, Mpich, Gloo };
// Returns the library's name, such as "Open MPI".
std::string_view name(Starter starter) noexcept;

// Ranks of a library, which are all on this host, move their data through it.
enum class Carrier { Memory, Sockets };
// Returns the name of this library's transport that does so; results have it, too.
std::string_view transport_of(Carrier carrier) noexcept;
// Returns the names of both.
std::vector<std::string> compared_transports();

struct Setting {
  std::string_view code;   // "On"; "wreath" for this library
  std::string_view shown;  // "Open MPI without CMA"
  Starter starter;
  Carrier carrier;
  std::string_view arguments;  // of the starter, separated by spaces
  std::string_view variables;  // NAME=VALUE, separated by spaces

  std::string_view transport() const noexcept { return transport_of(carrier); }
};

// This library's rows come first.
std::span<const Setting> settings() noexcept;
// Null when there is none.
const Setting* find_setting(std::string_view transport, std::string_view code) noexcept;

// One start of a library's ranks.
struct Start {
  std::vector<std::vector<std::string>> commands;  // one process each: of the starter, or of each rank
  std::vector<std::string> variables;              // NAME=VALUE beyond this process's
};

// `folder` holds the programs, `scratch` is an empty folder for the run's files, `other_build` holds the programs of
// another build of this library (empty: there is none).
struct Places {
  std::string folder;
  std::string scratch;
  std::string other_build;
};

// How `ranks` ranks run perf tool `program` with `flags`.
Start start_of(const Setting& setting, int ranks, const Places& places, const std::string& program,
               const std::vector<std::string>& flags);

// Whether the programs of a setting are here; what lacks, else empty.
std::string missing(const Setting& setting, const Places& places);

}  // namespace wreath::perf
