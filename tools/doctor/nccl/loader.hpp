// Which files the system's loader (glibc's ld.so) would load for a program, by its own rules and in its own order.
//
// Nothing is loaded and nothing runs: files are read. Left out are sub-folders for newer processors
// (glibc-hwcaps), set-user-ID programs, auditors other than Wreath's, and $LIB in paths.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/doctor/nccl/elf_file.hpp"
#include "wreath/result.hpp"

namespace wreath {

// libnccl.so, libnccl.so.2 and libnccl.so.2.28.9, in whatever folder: what Wreath's auditor answers for.
bool is_nccl_name(const std::string& file);

struct LoaderEnvironment {
  std::string root;    // a folder that stands before every path; empty: this machine
  std::string folder;  // the process's own, for paths without one
  std::vector<std::string> library_path;
  std::vector<std::string> preload;
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

struct LoadedObject {
  ElfFile file;
  Place place;
  std::vector<Place> passed;       // before it was found; of NCCL alone
  std::size_t loader = 0;          // who asked first; itself of the program
  std::vector<std::string> names;  // by which it was asked for
};

struct MissingObject {
  std::string name;
  std::size_t loader = 0;
  std::vector<Place> passed;
};

class Loader {
 public:
  explicit Loader(LoaderEnvironment environment) : environment_(std::move(environment)) {}

  // Loads a program with what it needs. InvalidArgument or System where it is none.
  Status start(const std::string& program);
  // As dlopen(name) by the object `by`, once started: its number, or nullopt, and missing() has grown.
  std::optional<std::size_t> open(const std::string& name, std::size_t by);

  const LoadedObject& object(std::size_t number) const { return objects_[number]; }
  const std::vector<LoadedObject>& objects() const { return objects_; }  // 0: the program
  const std::vector<MissingObject>& missing() const { return missing_; }
  // The first that was asked for as an NCCL; nullopt: none.
  std::optional<std::size_t> nccl() const;
  // Why Wreath's auditor, where LD_AUDIT names it, has no effect; empty: it has, or is not there.
  const std::string& audit_trouble() const { return audit_trouble_; }

 private:
  struct Request {
    const std::string& name;
    std::size_t by;
    std::vector<Place> passed;
  };

  void read_audit();
  void preload(const std::vector<std::string>& names, const std::string& rule);
  void load_needed(std::size_t first);
  std::optional<std::size_t> load(const std::string& name, std::size_t by, const std::string& rule);
  std::optional<std::size_t> loaded(const std::string& name);
  std::optional<std::pair<ElfFile, Place>> find(Request& request, const std::string& rule) const;
  std::optional<std::pair<ElfFile, Place>> search(Request& request) const;
  std::optional<std::pair<ElfFile, Place>> in_rpaths(Request& request) const;
  std::optional<std::pair<ElfFile, Place>> in_folders(const std::vector<std::string>& folders, const Place& rule,
                                                      Request& request) const;
  std::optional<std::pair<ElfFile, Place>> in_cache(Request& request) const;
  std::optional<ElfFile> attempt(const std::string& path, Place place, Request& request) const;
  std::string absolute(const std::string& path) const;
  std::string expanded(const std::string& path, std::size_t by) const;

  LoaderEnvironment environment_;
  std::string redirected_;  // of Wreath's auditor; empty: there is none
  std::string audit_trouble_;
  std::multimap<std::string, std::string> cache_;
  std::vector<LoadedObject> objects_;
  std::vector<MissingObject> missing_;
};

// /etc/ld.so.cache below `root`: names and paths, in its order. Empty where it cannot be read.
std::multimap<std::string, std::string> read_loader_cache(const std::string& root);

}  // namespace wreath
