// Names errors and their exit codes.
#include "wreath/result.hpp"

namespace wreath {

std::string_view name(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::InvalidArgument: return "invalid argument";
    case ErrorCode::InvalidUsage: return "invalid usage";
    case ErrorCode::PeerLost: return "peer lost";
    case ErrorCode::Timeout: return "timeout";
    case ErrorCode::Mismatch: return "mismatch";
    case ErrorCode::StartupFailed: return "start-up failed";
    case ErrorCode::Aborted: return "aborted";
    case ErrorCode::NotReady: return "not ready";
    case ErrorCode::Unavailable: return "unavailable";
    case ErrorCode::System: return "system";
  }
  return "unknown error";
}

int exit_code(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::InvalidArgument:
    case ErrorCode::InvalidUsage: return 2;
    case ErrorCode::PeerLost:
    case ErrorCode::Aborted: return 3;
    case ErrorCode::NotReady:
    case ErrorCode::Timeout: return 4;
    case ErrorCode::Mismatch: return 5;
    case ErrorCode::StartupFailed:
    case ErrorCode::System: return 6;
    case ErrorCode::Unavailable: return 77;
  }
  return 1;
}

}  // namespace wreath
