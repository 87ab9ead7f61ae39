// What the system's loader reads of a program or a shared library before it loads it.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "wreath/result.hpp"

namespace wreath {

struct ElfFile {
  std::string path;         // as it was found
  std::string interpreter;  // of programs: the loader that they name; empty: a library, or linked statically
  std::string soname;
  std::vector<std::string> needed;
  std::vector<std::string> rpath;  // folders as written; empty where there is a DT_RUNPATH, which then counts alone
  std::vector<std::string> runpath;
  bool has_runpath = false;
  bool dynamic = false;
  bool default_folders = true;  // false: linked with -z nodefaultlib
  dev_t device = 0;             // with `inode`: which file it is, whatever its path
  ino_t inode = 0;
};

// Reads PATH, which is named in the result without `root`, a folder that is put before it. InvalidArgument, with the
// reason alone as message, where it is no program or library for this machine; System where it cannot be read.
Result<ElfFile> read_elf(const std::string& root, const std::string& path);

// Texts between colons; an empty one is the present folder.
std::vector<std::string> split_path(const std::string& text, std::string_view separators);

// What NCCL a file is, by the text that NVIDIA's library and Wreath's hold.
struct NcclIdentity {
  std::string library;  // "NCCL", "Wreath", or "unknown"
  std::string version;  // "2.28.9"; of Wreath the NCCL version whose interface it has; empty: unknown
};
NcclIdentity identify_nccl(const std::string& file);

}  // namespace wreath
