// Says whether a transport can be used here, for tests of transports that not every machine has.
#pragma once

#include <string>

#include "wreath/transport.hpp"

namespace wreath::test {

// Returns why a test over these transports ("shm,cuda_ipc") is skipped, and where it runs. The first must be usable.
// Empty: the test can run here.
inline std::string why_skipped(const std::string& transports) {
  const std::string transport = transports.substr(0, transports.find(','));
  const TransportRow* const row = find_transport(transport);
  const Status usable = row != nullptr ? row->usable() : Error{ErrorCode::Unavailable, "this build has none"};
  if (usable) return {};
  return transport + ": " + usable.error().message + "; ./run nightly rdma runs it in a guest with RDMA devices";
}

}  // namespace wreath::test
