// Describes the end of a stream in words.
#pragma once

#include <cerrno>
#include <system_error>

#include "src/base/invalid_argument.hpp"
#include "wreath/result.hpp"

namespace wreath {

// Returns the error for the errno of a failed send or receive. The message is the reason alone. The code is PeerLost
// where the connection is gone, and InvalidArgument where the caller's buffer is no memory of this process. Otherwise
// it is System, for this rank's own trouble.
inline Error stream_error(int error_number) {
  switch (error_number) {
    case ECONNRESET: return {ErrorCode::PeerLost, "connection reset"};
    case EPIPE: return {ErrorCode::PeerLost, "connection closed"};
    case ETIMEDOUT: return {ErrorCode::PeerLost, "connection timed out"};
    case ECONNABORTED:
    case ECONNREFUSED:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENETDOWN:
    case ENETRESET:
    case ENETUNREACH:
    case ENOTCONN: return {ErrorCode::PeerLost, std::generic_category().message(error_number)};
    case EFAULT: return {ErrorCode::InvalidArgument, std::string(kNoMemory)};
    default: return {ErrorCode::System, std::generic_category().message(error_number)};
  }
}

}  // namespace wreath
