// What became of a stream, in words.
#pragma once

#include <cerrno>
#include <system_error>

#include "wreath/result.hpp"

namespace wreath {

// PeerLost for the errno of a failed send or receive; the message is the reason alone.
inline Error stream_error(int error_number) {
  switch (error_number) {
    case ECONNRESET: return {ErrorCode::PeerLost, "connection reset"};
    case EPIPE: return {ErrorCode::PeerLost, "connection closed"};
    case ETIMEDOUT: return {ErrorCode::PeerLost, "connection timed out"};
    default: return {ErrorCode::PeerLost, std::generic_category().message(error_number)};
  }
}

}  // namespace wreath
