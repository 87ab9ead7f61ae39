// Reads the headers of a program or a shared library, and identifies the NCCL that a library is.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "wreath/result.hpp"

namespace wreath {

struct ElfFile {
  // The loader that a program names; empty: a library, or a program that is linked statically.
  std::string interpreter;
  // The file has a section for the loader. Programs that are linked statically have none.
  bool dynamic = false;
};

// Reads PATH below the folder `root`. InvalidArgument, with the reason alone as its message, means that it is no
// program or library for this machine. System means that it cannot be read.
Result<ElfFile> read_elf(const std::string& root, const std::string& path);

// Splits a text at the separators. An empty part is the present folder.
std::vector<std::string> split_path(const std::string& text, std::string_view separators);

// The NCCL that a file is, by the text that NVIDIA's library and Wreath's library hold.
struct NcclIdentity {
  std::string library;  // "NCCL", "Wreath" or "unknown"
  // The version, such as "2.28.9"; empty: unknown. Wreath's library has the version of the NCCL interface that it
  // offers.
  std::string version;
};
NcclIdentity identify_nccl(const std::string& file);

}  // namespace wreath
