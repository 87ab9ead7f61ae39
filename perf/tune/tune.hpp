// `wreath tune`: times rows and tiles between processes of this host, beside what the machine allows; on devices
// between threads.
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
  std::vector<std::string> transports = transports_between_processes();
  std::vector<Collective> collectives;     // empty: all that have a choice
  MemoryPlace memory = MemoryPlace::Host;  // of the buffers; of a device: rows' loops are measured, too
  std::size_t smallest = 8;
  std::size_t largest = std::size_t{64} << 20;
  double seconds = 50;               // for each number of ranks, about; what is left then is not measured
  std::string output;                // empty: default_tuning_path()
  std::vector<std::string> command;  // as typed: how this program starts ranks of itself
  int start_descriptor = -1;         // in a started process: where its place is told
  std::string part_file;             // ... and where rank 0 leaves its times
};

// Says whether ranks map each other's memory over that transport of the table.
bool maps_memory(std::string_view transport);

// Steps of four, and the largest.
std::vector<std::size_t> tuned_sizes(const TuneRequest& request);

// Measures, prints a table as it goes, and writes the file; in a started process only the measuring. Returns the exit
// code.
int tune(const TuneRequest& request);

// The limits of this machine for such calls of `ranks` ranks, measured now: nothing else should run.
std::vector<TuningLimit> tuning_limits(const TuneRequest& request, int ranks, double flag_ns);

// In a started process: this rank's part; rank 0 writes its times.
Status measure_part(const TuneRequest& request);
// Of ranks that are threads of this process.
Result<std::vector<TuningTime>> measure_threads(const TuneRequest& request, int ranks);

}  // namespace wreath::perf
