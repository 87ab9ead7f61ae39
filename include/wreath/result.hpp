// Defines errors as values: Status and Result<T>, named after std::expected.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace wreath {

enum class ErrorCode {
  // The caller's value is wrong; the message names the argument and its value.
  InvalidArgument,
  // The call is not allowed now (two at once, after destroy, after fork).
  InvalidUsage,
  // A rank's process or host is gone.
  PeerLost,
  // A clock ran out: start-up, arrival or stall.
  Timeout,
  // The ranks disagree on a call.
  Mismatch,
  // The ranks could not meet at start-up.
  StartupFailed,
  // The function abort() was called, here or on another rank.
  Aborted,
  // A wait ended before the work did; nothing is lost.
  NotReady,
  // This machine or build lacks what the call needs.
  Unavailable,
  // The operating system refused a resource (memory, descriptors).
  System,
};

// Returns the words that a message uses for a code: "peer lost", "timeout", ...
std::string_view name(ErrorCode code) noexcept;

// Returns the process exit code of a tool that ends with this error (docs/formats.md).
int exit_code(ErrorCode code) noexcept;

struct Error {
  ErrorCode code;
  // Says in one sentence where the error happened and what it is.
  std::string message;
  // Names the rank that is at fault, where one is known; else -1.
  int failed_rank = -1;
};

// Result::value() throws this. It serves tests, examples and programs without a recovery path.
class Exception : public std::runtime_error {
 public:
  explicit Exception(Error error) : std::runtime_error(error.message), error_(std::move(error)) {}
  const Error& error() const noexcept { return error_; }

 private:
  Error error_;
};

// Holds a value or the error that prevented it.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::move(error)) {}  // NOLINT(google-explicit-constructor)
  explicit operator bool() const noexcept { return state_.index() == 0; }
  T& operator*() & { return std::get<0>(state_); }
  const T& operator*() const& { return std::get<0>(state_); }
  T&& operator*() && { return std::get<0>(std::move(state_)); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }
  const Error& error() const { return std::get<1>(state_); }
  // Returns the value, or throws Exception.
  T& value() & {
    if (!*this) throw Exception(error());
    return **this;
  }
  T&& value() && {
    if (!*this) throw Exception(error());
    return std::get<0>(std::move(state_));
  }

 private:
  std::variant<T, Error> state_;
};

// Holds success or an error.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)
  explicit operator bool() const noexcept { return !error_; }
  // Returns an error without a message where there is none.
  const Error& error() const { return error_ ? *error_ : no_error(); }
  void value() const {
    if (error_) throw Exception(*error_);
  }

 private:
  static const Error& no_error() {
    static const Error none{ErrorCode::System, {}, -1};
    return none;
  }

  std::optional<Error> error_;
};

using Status = Result<void>;

// Returns the error of `expression` from the calling function.
#define WREATH_TRY(expression)                                                                       \
  do {                                                                                               \
    if (auto wreath_try_status = (expression); !wreath_try_status) return wreath_try_status.error(); \
  } while (false)

}  // namespace wreath
