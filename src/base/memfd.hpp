// Makes memory that has a descriptor. It is asked for as a whole, so that running out of it is an error where it is
// made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "src/base/fd.hpp"
#include "wreath/result.hpp"

namespace wreath {

// Returns a System error for the errno value `code` of `call`: "cannot get 4096 bytes of staging memory: mmap: ...".
Error memory_refused(std::string_view what, std::size_t bytes, std::string_view call, int code);

// Fails with System where so much memory would make the kernel kill a process of its choice.
Status check_available(std::size_t bytes, std::string_view what);

// Fails with System where files, and with them descriptors' memory, may not be so large: the kernel would send a
// signal.
Status check_file_limit(std::size_t bytes, std::string_view what);

// Makes `bytes` of zeros, whole pages; /proc shows them as memfd:`name`. All but the last `later` bytes are present.
// `what` names the memory in errors. It can be sealed. Signals do not disturb the call, however often they come.
Result<Fd> make_memfd(const char* name, std::size_t bytes, std::string_view what, std::size_t later = 0);

// Makes the bytes [begin, end) of such memory present. Fails with System where the kernel refuses.
Status make_present(int descriptor, std::size_t begin, std::size_t end, std::string_view what);

// Fixes the memory's size: no process can change it from now on.
Status seal_size(int descriptor, std::size_t bytes, std::string_view what);

// Checks a descriptor that came from elsewhere. Fails with Mismatch unless it has exactly so many bytes and cannot
// shrink under its readers. `what` names it: "a peer's region".
Status check_sealed(int descriptor, std::uint64_t bytes, std::string_view what);

}  // namespace wreath
