// Implements codes and texts of errors, and the version.
#include "bindings/nccl/errors.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>

#include "bindings/nccl/member.hpp"
#include "bindings/nccl/settings.hpp"

namespace wreath::nccl {
namespace {

constexpr std::size_t kTextBytes = 2048;
using Text = std::array<char, kTextBytes>;

void copy_text(std::string_view from, Text& to) {
  const std::size_t bytes = std::min(from.size(), to.size() - 1);
  std::memcpy(to.data(), from.data(), bytes);
  to[bytes] = '\0';
}

// Returns plain memory: nothing is allocated to keep an error, and nothing runs at a thread's end.
Text& thread_text() {
  thread_local Text text{};
  return text;
}

struct ProcessText {
  std::mutex mutex;
  Text text{};
};

ProcessText& process_text() {
  static ProcessText last;
  return last;
}

}  // namespace

ncclResult_t code_of(const Error& error, int rank) noexcept {
  switch (error.code) {
    case ErrorCode::InvalidArgument:
    case ErrorCode::Mismatch: return ncclInvalidArgument;
    case ErrorCode::InvalidUsage: return ncclInvalidUsage;
    case ErrorCode::PeerLost: return ncclRemoteError;
    case ErrorCode::Aborted: return error.failed_rank == rank ? ncclInternalError : ncclRemoteError;
    case ErrorCode::NotReady: return ncclInProgress;
    case ErrorCode::Timeout:
    case ErrorCode::StartupFailed:
    case ErrorCode::Unavailable:
    case ErrorCode::System: return ncclSystemError;
  }
  return ncclInternalError;
}

ncclResult_t refuse(ncclResult_t code, std::string_view text) noexcept {
  copy_text(text, thread_text());
  const std::lock_guard lock(process_text().mutex);
  copy_text(text, process_text().text);
  return code;
}

ncclResult_t bad_argument(std::string_view function, std::string_view text) noexcept {
  Text whole{};
  copy_text(function, whole);
  const std::size_t used = std::min(function.size(), whole.size() - 3);
  std::memcpy(whole.data() + used, ": ", 2);
  const std::size_t rest = std::min(text.size(), whole.size() - used - 3);
  std::memcpy(whole.data() + used + 2, text.data(), rest);
  return refuse(ncclInvalidArgument, {whole.data(), used + 2 + rest});
}

std::string last_error() {
  if (thread_text()[0] != '\0') return thread_text().data();
  const std::lock_guard lock(process_text().mutex);
  return process_text().text.data();
}

}  // namespace wreath::nccl

using namespace wreath::nccl;  // NOLINT(google-build-using-namespace)

extern "C" {

ncclResult_t pncclGetVersion(int* version) {
  return guarded([&] {
    if (version == nullptr) return bad_argument("ncclGetVersion", "version = null");
    // Inits say what is wrong with the settings.
    static_cast<void>(apply_settings());
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
  });
}

const char* pncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "a call of CUDA failed";
    case ncclSystemError: return "the system refused something, or a clock ran out: ncclGetLastError says more";
    case ncclInternalError: return "an error within the library, or the communicator was aborted";
    case ncclInvalidArgument: return "invalid argument: ncclGetLastError says which";
    case ncclInvalidUsage: return "invalid usage: ncclGetLastError says why";
    case ncclRemoteError: return "another rank has ended, failed or aborted, or the way to it is broken";
    case ncclInProgress: return "operation in progress";
    case ncclNumResults: break;
  }
  return "unknown result code";
}

const char* pncclGetLastError(ncclComm_t comm) {
  thread_local Text shown{};
  static_cast<void>(guarded([&] {
    const std::shared_ptr<Member> member = comm == nullptr ? nullptr : members().find(comm);
    std::string text = member == nullptr ? std::string() : member->error_text();
    copy_text(text.empty() ? last_error() : text, shown);
    return ncclSuccess;
  }));
  return shown.data();
}

void pncclResetDebugInit() {
  static_cast<void>(guarded([] { return read_debug_again(); }));
}

// Serves the name that the deprecated one was built on; it has no second name of its own.
// NOLINTNEXTLINE(readability-identifier-naming)
void ncclResetDebugInitInternal() {
  static_cast<void>(guarded([] { return read_debug_again(); }));
}
}

WREATH_NCCL_EXPORT(GetVersion);
WREATH_NCCL_EXPORT(GetErrorString);
WREATH_NCCL_EXPORT(GetLastError);
extern "C" __attribute__((weak, alias("pncclResetDebugInit"))) void ncclResetDebugInit();
