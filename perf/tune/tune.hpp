// The work of `wreath tune`: times rows and tiles between processes of this host, beside the limits of the machine. On
// devices it times them between threads.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "perf/base/streamed.hpp"
#include "wreath/result.hpp"
#include "wreath/transport.hpp"
#include "wreath/tuning.hpp"

namespace wreath::perf {

struct TuneRequest {
  std::vector<int> ranks{2};
  std::vector<std::string> transports;
  std::vector<Collective> collectives;  // empty: all that have a choice
  // The place of the buffers. On a device the rows' loops are measured, too.
  MemoryPlace memory = MemoryPlace::Host;
  std::size_t smallest = 8;
  std::size_t largest = std::size_t{64} << 20;
  // The approximate time for each number of ranks. Contests that are left then are not measured.
  double seconds = 50;
  std::string output;  // empty: default_tuning_path()
  // The command line as typed, by which this program starts ranks of itself.
  std::vector<std::string> command;
  // The descriptor from which a started process reads its place.
  int start_descriptor = -1;
  // The file to which rank 0 of the started processes writes its times.
  std::string part_file;
};

// Returns whether ranks map each other's memory over that transport of the table.
bool maps_memory(std::string_view transport);
// Returns TuningTime::wire for it.
std::string wire_of(const std::string& transport);

// Returns sizes in steps of four, and the largest one.
std::vector<std::size_t> tuned_sizes(const TuneRequest& request);

// Measures, prints a table meanwhile, and writes the file. A started process only measures. Returns the exit code.
int tune(const TuneRequest& request);

// Measures the limits of this machine for such calls of `ranks` ranks. Nothing else should run.
std::vector<TuningLimit> tuning_limits(const TuneRequest& request, int ranks, double flag_ns);

// Measures the part of this rank in a started process. Rank 0 writes its times.
Status measure_part(const TuneRequest& request);
// Measures ranks that are threads of this process.
Result<std::vector<TuningTime>> measure_threads(const TuneRequest& request, int ranks);

}  // namespace wreath::perf
