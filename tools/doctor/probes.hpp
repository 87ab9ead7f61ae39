// What no file tells: it is tried.
#pragma once

#include <string>
#include <vector>

namespace wreath {

// A library that some transport, or a tool beside us, would load at run time.
struct LibraryProbe {
  std::string name;     // "libibverbs.so.1"
  std::string file;     // that would be loaded; empty: none
  std::string version;  // as it says itself; empty: it does not
};

struct Probes {
  int memfd_error = 0;        // an errno value; 0: it works
  int pidfd_error = 0;        // pidfd_open
  int peer_memory_error = 0;  // process_vm_readv of a process that is neither child nor parent's debugger
  std::vector<LibraryProbe> libraries;
};

Probes probe_system();

}  // namespace wreath
