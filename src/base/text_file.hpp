// Small files, read and replaced as a whole.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "wreath/result.hpp"

namespace wreath {

// What `path` holds, at most `maximum_bytes` and one byte more, so that the caller sees what is too long. Never waits.
// System where it cannot be opened or read, InvalidArgument where it is no regular file.
Result<std::string> read_file(const std::string& path, std::size_t maximum_bytes);

// Makes `path` hold `text`, mode 0644: written as PATH.DRAFT.tmp and renamed, so that readers see the old text or the
// new one. `draft`: a name that no other writer uses.
Status replace_file(const std::string& path, std::string_view draft, std::string_view text);

// The same of a file that the user named, by one writer of the process: what a symbolic link leads to is replaced, not
// the link, and what is no regular file (/dev/null, a FIFO) is written to. Where the disk is full the old file stays.
Status write_output(const std::string& path, std::string_view text);

}  // namespace wreath
