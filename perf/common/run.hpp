// A perf tool from its command line to its exit code.
#pragma once

#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "perf/common/collectives.hpp"
#include "perf/common/limit.hpp"
#include "perf/common/options.hpp"
#include "perf/common/report.hpp"

namespace wreath::perf {

// Measures another library in the same way. `member` is its end, which is already connected. command[0] is the name of
// a perf tool, and the rest are its flags. Flags about ranks and transports have no effect.
int run_peer(Member& member, std::string_view transport, const std::vector<std::string>& command);

// The output of a run while it goes on. Rank 0 calls these functions.
struct Display {
  std::function<void(const std::string&)> print;  // finished text, for stdout
  // Shows one short line, which the next one replaces; "" clears it.
  std::function<void(const std::string&)> progress;
  // Gets the rows so far, after each of them; may be empty.
  std::function<void(const Report&)> keep = {};
};

// Writes text to `out`. Writes the progress line to `errors`, where that is a terminal and the environment variable
// NO_COLOR is unset or empty.
Display stream_display(std::FILE* out, std::FILE* errors);

// The facts that a run knows before it starts.
struct Surroundings {
  std::string transport;  // of rank 0's links, as transport_words() says
  Limits limits;          // rank 0's
  // Makes a rank's end of the peer (peer.hpp) for calls in `stream`; empty: there is none.
  std::function<Result<std::unique_ptr<Member>>(Stream* stream)> peer = {};
};

// Describes the transports of rank 0's data. `links` has the words for the links to rank 1, 2, .... The result is "shm,
// single copy" where links are alike. Else it has each kind with the first rank that has it: "shm+tcp (shm, single copy
// to rank 1; tcp over eth0 to rank 2)". Without any link it is "self".
std::string transport_words(const std::vector<std::string>& links);

// Binds the thread of this rank to a core of its own and returns the core, or -1: not bound. It binds only where `pin`
// is true, and the ranks that may run on the same cores are not more than these cores. These are all ranks of a host,
// or each by itself where a launcher has shared out the cores.
Result<int> choose_core(Member& member, bool pin);

// Checks whether a group of `ranks` ranks can do what is requested. Returns Unavailable or InvalidArgument.
Status check_group(const CollectiveRow& row, const Options& options, int ranks);

// Checks whether the kept results can be read, and suit a run of `ranks` ranks (0: not known yet).
Status check_kept_files(const CollectiveRow& row, const Options& options, int ranks);

// Returns all cases of one cycle, in the order of the table.
std::vector<Case> cases_of(const CollectiveRow& row, const Options& options, int ranks);

// Measures everything that `options` name, as one rank. It is collective, and rank 0 gets the whole report.
Result<Report> run_rank(Member& member, const CollectiveRow& row, const Options& options,
                        const Surroundings& surroundings, const Display& display);

}  // namespace wreath::perf
