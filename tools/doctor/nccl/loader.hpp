// Finds the files that the system's loader (glibc's ld.so) would load for a program. The loader itself runs in its
// tracing mode, and this code reads what it prints about its search. The loader maps files in that mode, and runs none
// of their code.
// Set-user-ID programs, auditors other than Wreath's, and programs of another C library are left out. The names of
// libraries to open may hold no blank and no colon, since the loader gets them as a list.
#pragma once

#include <string>
#include <vector>

#include "tools/doctor/nccl/elf_file.hpp"
#include "wreath/result.hpp"

namespace wreath {

// Returns whether Wreath's auditor answers for the name: libnccl.so, libnccl.so.2 or libnccl.so.2.28.9, in any folder.
bool is_nccl_name(const std::string& file);

struct LoaderEnvironment {
  // A folder that is put before every path; empty: this machine.
  std::string root;
  // The working folder of the process, for relative paths.
  std::string folder;
  std::string library_path;
  std::string preload;
  std::vector<std::string> audit;
  std::string nccl_library;  // WREATH_NCCL_LIBRARY
};

// Reads the variables, each a text NAME=value as in /proc/PID/environ.
LoaderEnvironment loader_environment(const std::vector<std::string>& variables);

// A place where the loader searched, and the rule that led there.
struct Place {
  // The rule: LD_PRELOAD, /etc/ld.so.preload, LD_AUDIT, path, DT_RPATH, LD_LIBRARY_PATH, DT_RUNPATH, /etc/ld.so.cache
  // or default folder.
  std::string rule;
  // The file whose DT_RPATH or DT_RUNPATH is the rule.
  std::string of;
  std::string folder;  // or the file that is named
  // The reason why the loader passed over this place.
  std::string why;
};

// A library that a file asked for.
struct AskedObject {
  std::string name;
  // The path of the file that asked first.
  std::string by;
  std::string file;  // empty: it is not found
  Place place;
  // The places that were searched in vain.
  std::vector<Place> passed;
};

struct LoaderTrace {
  std::string root;     // of the environment
  std::string program;  // its path
  // The libraries in the loader's order. A library that is loaded already is not listed again.
  std::vector<AskedObject> asked;
  // The reason why the loader gives up; empty: it does not give up.
  std::string trouble;
  // The program is linked statically, and the loader has no part in it.
  bool linked_statically = false;

  // Returns the first library that was asked for as an NCCL, or that is preloaded and is one; null: there is none.
  const AskedObject* nccl() const;
};

// Traces the loader for PROGRAM, or for a shared library as if it were a program. It also opens the libraries `opened`,
// as a dlopen(name) by the program would. Returns InvalidArgument or System where the program cannot be examined.
Result<LoaderTrace> trace_loader(const LoaderEnvironment& environment, const std::string& program,
                                 const std::vector<std::string>& opened = {});

// The answer of Wreath's auditor where LD_AUDIT names it (empty: there is none), and the reason where it has no effect.
struct Auditor {
  std::string answer;
  std::string trouble;
};
Auditor auditor_of(const LoaderEnvironment& environment);

// Returns `path` as the process of this environment understands it.
std::string absolute_path(const LoaderEnvironment& environment, const std::string& path);

}  // namespace wreath
