// The settings that are compared, with one row for each setting of each library and transport, and the ways to start
// them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "perf/compare/libraries.hpp"

namespace wreath::perf {

// The way on which ranks of a library, which are all on this host, move their data.
enum class Carrier { Memory, Sockets };
// Returns the name of this library's transport for the carrier, which results have, too.
std::string_view transport_of(Carrier carrier) noexcept;
// Returns the names of both transports.
std::vector<std::string> compared_transports();

struct Setting {
  std::string_view code;   // "On"; "wreath" for this library
  std::string_view shown;  // "Open MPI 4 without CMA"
  const Library* library;
  Carrier carrier;
  std::string_view arguments;  // of the starter, separated by spaces
  std::string_view variables;  // NAME=VALUE, separated by spaces; {} is the library's folder

  std::string_view transport() const noexcept { return transport_of(carrier); }
};

// Returns all settings, with the rows of this library first.
std::span<const Setting> settings() noexcept;
// Returns the setting of that transport and code; null when there is none.
const Setting* find_setting(std::string_view transport, std::string_view code) noexcept;

// One start of a library's ranks.
struct Start {
  // One command for each process: for the starter, or for each rank.
  std::vector<std::vector<std::string>> commands;
  std::vector<std::string> variables;  // NAME=VALUE beyond this process's
};

// Returns the start of `ranks` ranks of perf tool `program` with `flags`.
Start start_of(const Setting& setting, int ranks, const Places& places, const std::string& program,
               const std::vector<std::string>& flags);

// Returns the path of the first program of a setting that is missing here; empty: none is missing.
std::string missing(const Setting& setting, const Places& places);

}  // namespace wreath::perf
