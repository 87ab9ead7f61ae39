// Turns errors into NCCL's codes, and keeps the texts behind ncclGetLastError.
#pragma once

#include <exception>
#include <string>
#include <string_view>

#include "bindings/nccl/nccl.h"
#include "wreath/result.hpp"

namespace wreath::nccl {

// Returns the code of an error. `rank` is the rank whose communicator it is, or -1. An abort that this rank called
// itself is no other rank's fault.
ncclResult_t code_of(const Error& error, int rank) noexcept;

// Keeps `text` as this thread's last error, and returns `code`.
ncclResult_t refuse(ncclResult_t code, std::string_view text) noexcept;
// Does the same for an argument: "FUNCTION: TEXT".
ncclResult_t bad_argument(std::string_view function, std::string_view text) noexcept;

// Returns this thread's last error, else the process's; empty where there was none.
std::string last_error();

// Keeps the first of several codes: an error goes before what is in progress, and that before success. Returns whether
// `next` is the result now.
inline bool keep_first(ncclResult_t& result, ncclResult_t next) noexcept {
  const bool counts = next != ncclSuccess && (result == ncclSuccess || (result == ncclInProgress && next != result));
  if (counts) result = next;
  return counts;
}

// Runs `body`, which returns a code; no exception leaves it.
template <typename Body>
ncclResult_t guarded(Body&& body) noexcept {
  try {
    return body();
  } catch (const std::exception& thrown) {
    return refuse(ncclSystemError, thrown.what());
  } catch (...) {
    return refuse(ncclInternalError, "an unknown exception");
  }
}

}  // namespace wreath::nccl

// Gives pncclX, which this file defines, its weak name ncclX.
#define WREATH_NCCL_EXPORT(name) extern "C" __attribute__((weak, alias("pnccl" #name))) decltype(pnccl##name) nccl##name
