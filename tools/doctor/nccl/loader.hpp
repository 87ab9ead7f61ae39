// Which files the system's loader (glibc's ld.so) would load for a program. The loader itself is asked, in its tracing
// mode, and what it tells of its search is read: it maps files, and runs no code of theirs.
//
// Left out are set-user-ID programs, auditors other than Wreath's, and programs of another C library. Names that are to
// be opened may hold no blank and no colon, since the loader gets them as a list.
#pragma once

#include <string>
#include <vector>

#include "tools/doctor/nccl/elf_file.hpp"
#include "wreath/result.hpp"

namespace wreath {

// libnccl.so, libnccl.so.2 and libnccl.so.2.28.9, in whatever folder: what Wreath's auditor answers for.
bool is_nccl_name(const std::string& file);

struct LoaderEnvironment {
  std::string root;    // a folder that stands before every path; empty: this machine
  std::string folder;  // the process's own, for paths without one
  std::string library_path;
  std::string preload;
  std::vector<std::string> audit;
  std::string nccl_library;  // WREATH_NCCL_LIBRARY
};

// `variables`: NAME=value, as in /proc/PID/environ.
LoaderEnvironment loader_environment(const std::vector<std::string>& variables);

// The rule that a file was found by, or that found none in a place.
struct Place {
  std::string rule;    // LD_PRELOAD, /etc/ld.so.preload, LD_AUDIT, path, DT_RPATH, LD_LIBRARY_PATH, DT_RUNPATH,
                       // /etc/ld.so.cache, default folder
  std::string of;      // whose DT_RPATH or DT_RUNPATH
  std::string folder;  // or the file that is named
  std::string why;     // of a place that was passed
};

// A library that something asked for.
struct AskedObject {
  std::string name;
  std::string by;    // the path of who asked first
  std::string file;  // empty: it is not found
  Place place;
  std::vector<Place> passed;  // before it was found
};

struct LoaderTrace {
  std::string root;                // of the environment
  std::string program;             // its path
  std::vector<AskedObject> asked;  // in the loader's order; what is loaded already is not asked for again
  std::string trouble;             // why the loader gives up; empty: it does not
  bool linked_statically = false;  // the loader has no part in it

  // The first that was asked for as an NCCL, or that is preloaded and is one; null: there is none.
  const AskedObject* nccl() const;
};

// What the loader does for PROGRAM, or for a shared library as if it were one, when it also opens `opened`, as
// dlopen(name) by the program does. InvalidArgument or System where it cannot be looked at.
Result<LoaderTrace> trace_loader(const LoaderEnvironment& environment, const std::string& program,
                                 const std::vector<std::string>& opened = {});

// What Wreath's auditor, where LD_AUDIT names it, answers with (empty: it is not there), and why it has no effect.
struct Auditor {
  std::string answer;
  std::string trouble;
};
Auditor auditor_of(const LoaderEnvironment& environment);

// `path` as the process of the environment means it.
std::string absolute_path(const LoaderEnvironment& environment, const std::string& path);

}  // namespace wreath
