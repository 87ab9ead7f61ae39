// Implements codes, and the last error of a thread.
#include "bindings/c/status.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <string_view>

#include "wreath/wreath.h"

namespace wreath::c_api {
namespace {

constexpr int code_of(ErrorCode code) { return static_cast<int>(code) + 1; }

static_assert(code_of(ErrorCode::InvalidArgument) == WREATH_INVALID_ARGUMENT);
static_assert(code_of(ErrorCode::InvalidUsage) == WREATH_INVALID_USAGE);
static_assert(code_of(ErrorCode::PeerLost) == WREATH_PEER_LOST);
static_assert(code_of(ErrorCode::Timeout) == WREATH_TIMEOUT);
static_assert(code_of(ErrorCode::Mismatch) == WREATH_MISMATCH);
static_assert(code_of(ErrorCode::StartupFailed) == WREATH_STARTUP_FAILED);
static_assert(code_of(ErrorCode::Aborted) == WREATH_ABORTED);
static_assert(code_of(ErrorCode::NotReady) == WREATH_NOT_READY);
static_assert(code_of(ErrorCode::Unavailable) == WREATH_UNAVAILABLE);
static_assert(code_of(ErrorCode::System) == WREATH_SYSTEM);

bool is_error(int code) { return code > WREATH_OK && code <= WREATH_SYSTEM; }
ErrorCode error_code(int code) { return static_cast<ErrorCode>(code - 1); }

// Holds an error in plain memory: nothing is allocated to keep it, and nothing runs at a thread's end.
struct LastError {
  std::array<char, 2048> text;
  int rank;
};
thread_local LastError t_last_error{{}, -1};

int keep_text(std::string_view text, int rank, ErrorCode code) noexcept {
  const std::size_t bytes = std::min(text.size(), t_last_error.text.size() - 1);
  std::memcpy(t_last_error.text.data(), text.data(), bytes);
  t_last_error.text[bytes] = '\0';
  t_last_error.rank = rank;
  return code_of(code);
}

}  // namespace

int keep(const Status& status) noexcept {
  if (status) return WREATH_OK;
  return keep_text(status.error().message, status.error().failed_rank, status.error().code);
}

int keep_exception(const std::exception* thrown) noexcept {
  if (dynamic_cast<const std::bad_alloc*>(thrown) != nullptr) return keep_text("out of memory", -1, ErrorCode::System);
  return keep_text(thrown != nullptr ? thrown->what() : "an unknown exception", -1, ErrorCode::System);
}

Status given(const void* pointer, const char* name) {
  if (pointer != nullptr) return {};
  return Error{ErrorCode::InvalidArgument, std::string(name) + " = null", -1};
}

}  // namespace wreath::c_api

using namespace wreath::c_api;

extern "C" {

const char* wreath_version(void) { return WREATH_VERSION; }
const char* wreath_last_error(void) { return t_last_error.text.data(); }
int wreath_last_error_rank(void) { return t_last_error.rank; }

const char* wreath_code_name(int code) {
  if (code == WREATH_OK) return "ok";
  return is_error(code) ? wreath::name(error_code(code)).data() : "unknown code";
}

int wreath_code_exit(int code) {
  if (code == WREATH_OK) return 0;
  return is_error(code) ? wreath::exit_code(error_code(code)) : 1;
}
}
