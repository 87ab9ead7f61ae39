// A perf tool from its command line to its exit code.
#pragma once

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "perf/common/collectives.hpp"
#include "perf/common/limit.hpp"
#include "perf/common/options.hpp"
#include "perf/common/report.hpp"

namespace wreath::perf {

// The main of every perf tool.
int run_tool(std::string_view program, int argc, char** argv);

// The same measurement of another library: `member` is its end, connected already. command[0] is the name of a perf
// tool, the rest its flags, of which those about ranks and transports mean nothing.
int run_peer(Member& member, std::string_view transport, const std::vector<std::string>& command);

// How a run shows itself while it goes on; rank 0 calls it.
struct Display {
  std::function<void(const std::string&)> print;     // finished text, for stdout
  std::function<void(const std::string&)> progress;  // one short line, replaced by the next; "" clears
};

// Text to `out`; the progress line to `errors`, where that is a terminal and the environment variable NO_COLOR is not
// set to anything.
Display stream_display(std::FILE* out, std::FILE* errors);

// What a run knows before it starts.
struct Surroundings {
  std::string transport;  // of rank 0's links, as transport_words() says
  Limits limits;          // rank 0's
};

// What carries rank 0's data, of how rank 1, 2, ... is reached: "shm, single copy", or where links differ each kind
// with the first rank that has it, "shm+tcp (shm, single copy to rank 1; tcp over eth0 to rank 2)". "self" without any.
std::string transport_words(const std::vector<std::string>& links);

// Binds this rank's thread to a core of its own where `pin` asks for it, and the ranks that may run on the same cores
// are not more than these: all of a host, or each by itself where a launcher has shared the cores out. -1: not bound.
Result<int> choose_core(Member& member, bool pin);

// Whether a group of `ranks` ranks can do what is asked: Unavailable or InvalidArgument.
Status check_group(const CollectiveRow& row, const Options& options, int ranks);

// Whether kept results that are to be read can be, and suit a run of `ranks` ranks (0: not known yet).
Status check_kept_files(const CollectiveRow& row, const Options& options, int ranks);

// All that one cycle measures, in the order of the table.
std::vector<Case> cases_of(const CollectiveRow& row, const Options& options, int ranks);

// Measures everything `options` ask for as one rank: collective. Rank 0 gets the whole report.
Result<Report> run_rank(Member& member, const CollectiveRow& row, const Options& options,
                        const Surroundings& surroundings, const Display& display);

}  // namespace wreath::perf
