// Turns errors of C++ into codes of C: every function of the C API is one call of `guarded`.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "wreath/result.hpp"

namespace wreath::c_api {

// Keeps the error for wreath_last_error and returns its code; returns WREATH_OK for success.
int keep(const Status& status) noexcept;

// Does the same for an exception that a body threw.
int keep_exception(const std::exception* thrown) noexcept;

// Runs `body`, which returns Status; only a code leaves it.
template <typename Body>
int guarded(Body body) noexcept {
  try {
    return keep(body());
  } catch (const std::exception& thrown) {
    return keep_exception(&thrown);
  } catch (...) {
    return keep_exception(nullptr);
  }
}

// Fails with InvalidArgument where a pointer that must be given is null: "communicator = null".
Status given(const void* pointer, const char* name);

// Gives the caller a value as a new handle.
template <typename Handle, typename Value>
Status hand_over(Result<Value> value, Handle** handle) {
  if (!value) return value.error();
  *handle = new Handle{*std::move(value)};  // NOLINT(cppcoreguidelines-owning-memory)
  return {};
}

}  // namespace wreath::c_api
