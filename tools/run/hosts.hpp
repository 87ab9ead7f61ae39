// Places ranks on hosts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "wreath/result.hpp"

namespace wreath::launcher {

struct Host {
  std::string name;
  int slots = 0;  // ranks that fit; 0: not stated
};

// Parses a text such as "a,b:4,[fd00::1]:2".
Result<std::vector<Host>> parse_hosts(std::string_view text);
// Parses a file with a host in each line: "a", "b:4" or "b slots=4". A comment begins with #. `path` is for messages.
Result<std::vector<Host>> parse_hostfile(std::string_view text, std::string_view path);

struct Placement {
  std::string host;
  std::vector<int> ranks;  // consecutive
  bool here = false;       // the host is this one
};

// Places `ranks` ranks (0: one for each slot) in blocks, in the order of the hosts. They go by slots where any are
// stated, else evenly. Hosts without a rank are left out.
Result<std::vector<Placement>> place(const std::vector<Host>& hosts, int ranks);

// The ranks that start, and the spares that start beside them and wait for work.
struct Size {
  int ranks = 0;
  int spares = 0;
};
// Returns the part of `wished` for which the hosts have slots, ranks first. Returns all of it where no slots are
// stated.
Size fitting(const std::vector<Host>& hosts, Size wished);
// Returns whether host `name` has a slot beside `running` ranks. That is always so where no slots are stated.
bool has_room(const std::vector<Host>& hosts, const std::string& name, int running);

// Returns whether a host's name means this machine.
bool is_here(const std::string& name);
// Fills Placement::here, once for all that depends on it: a name server may answer otherwise the next time.
void mark_here(std::vector<Placement>& placements);

}  // namespace wreath::launcher
