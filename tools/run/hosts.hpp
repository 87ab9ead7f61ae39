// Which ranks run on which host.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "wreath/result.hpp"

namespace wreath::launcher {

struct Host {
  std::string name;
  int slots = 0;  // ranks that fit; 0: not said
};

// "a,b:4,[fd00::1]:2".
Result<std::vector<Host>> parse_hosts(std::string_view text);
// A host in each line: "a", "b:4" or "b slots=4"; # begins a comment. `path` is for messages.
Result<std::vector<Host>> parse_hostfile(std::string_view text, std::string_view path);

struct Placement {
  std::string host;
  std::vector<int> ranks;  // consecutive
};

// `ranks` (0: one for each slot) in blocks, in the order of hosts: by their slots where these are said, else evenly.
// Hosts without a rank are left out.
Result<std::vector<Placement>> place(const std::vector<Host>& hosts, int ranks);

// How many ranks start, and how many beside them that wait for work.
struct Size {
  int ranks = 0;
  int spares = 0;
};
// What of `wished` the hosts have slots for, ranks first; all of it where no slots are said.
Size fitting(const std::vector<Host>& hosts, Size wished);
// Whether host `name` has a slot beside `running` ranks; always where no slots are said.
bool has_room(const std::vector<Host>& hosts, const std::string& name, int running);

// Whether a host's name means this machine.
bool is_here(const std::string& name);

}  // namespace wreath::launcher
