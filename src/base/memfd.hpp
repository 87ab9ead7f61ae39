// Memory that has a descriptor: asked for as a whole, so that running out of it is an error where it is made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "src/base/fd.hpp"
#include "wreath/result.hpp"

namespace wreath {

// System: "cannot get 4096 bytes of staging memory: mmap: ...", for the errno value `code` of `call`.
Error memory_refused(std::string_view what, std::size_t bytes, std::string_view call, int code);

// System where so much would make the kernel kill a process of its choice.
Status check_available(std::size_t bytes, std::string_view what);

// System where files, and with them descriptors' memory, may not be so large: the kernel would send a signal.
Status check_file_limit(std::size_t bytes, std::string_view what);

// `bytes` of zeros, whole pages, all present; /proc shows it as memfd:`name`. `what` names it in errors. It can be
// sealed. Signals do not disturb it, however often they come.
Result<Fd> make_memfd(const char* name, std::size_t bytes, std::string_view what);

// Nobody can change its size from now on.
Status seal_size(int descriptor, std::size_t bytes, std::string_view what);

// Mismatch unless the descriptor came from elsewhere with exactly so many bytes and cannot shrink under its readers.
// `what` names it: "a peer's region".
Status check_sealed(int descriptor, std::uint64_t bytes, std::string_view what);

}  // namespace wreath
