// Reads and replaces small files as a whole.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "wreath/result.hpp"

namespace wreath {

// Returns the text of `path`: at most `maximum_bytes` and one byte more, so that the caller sees a text that is too
// long. Never waits. Fails with System where the file cannot be opened or read, and with InvalidArgument where it is no
// regular file.
Result<std::string> read_file(const std::string& path, std::size_t maximum_bytes);

// Makes `path` hold `text`, mode 0644. It writes PATH.DRAFT.tmp and renames it, so that readers see the old text or the
// new one. `draft` is a name that no other writer uses.
Status replace_file(const std::string& path, std::string_view draft, std::string_view text);

// Does the same with a file that the user named, for one writer of the process. It replaces the file that a symbolic
// link leads to, not the link. It writes to a file that is not regular (/dev/null, a FIFO). Where the disk is full the
// old file stays.
Status write_output(const std::string& path, std::string_view text);

}  // namespace wreath
