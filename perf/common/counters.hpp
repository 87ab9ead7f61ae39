// Counters tell what the wires of all ranks did while calls were timed, for each MiB of messages (--counters).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "wreath/result.hpp"
#include "wreath/wire_counts.hpp"

namespace wreath::perf {

// An entry has the sum of all ranks' counts over one transport, of those over which rank 0 has links.
using Counters = std::vector<WireCounts>;

// Adds `times` x `more` to entries of the same transports. An entry that `sum` lacks is added, too.
void add_counters(Counters& sum, const Counters& more, std::int64_t times = 1);

// Every rank has its counts as equally many numbers, in the order of the table of transports.
std::vector<double> numbers_of(const Counters& counters);
std::size_t numbers_of_counters();
// Adds those numbers to the entries that `sum` has.
void add_numbers(Counters& sum, std::span<const double> numbers);

// Returns a count for each MiB of messages that were sent; nothing where none was.
std::optional<double> per_mebibyte(const WireCounts& entry, const WireCounts::Count& count);

// Returns the names of the table's columns: "doorbells", or with several transports "verbs.doorbells".
std::vector<std::string> column_names(const Counters& counters);
// Says which of a run's transports ("shm+tcp") count, and which do not: "tcp; not counted: shm".
std::string counters_note(const Counters& counters, const std::string& transports);

}  // namespace wreath::perf
