// What stands in the headers of a program or a shared library, and which NCCL a library is.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "wreath/result.hpp"

namespace wreath {

struct ElfFile {
  std::string interpreter;  // of programs: the loader that they name; empty: a library, or linked statically
  bool dynamic = false;     // it has what the loader reads; programs that are linked statically have not
};

// Reads PATH below `root`, a folder that is put before it. InvalidArgument, with the reason alone as message, where it
// is no program or library for this machine; System where it cannot be read.
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
