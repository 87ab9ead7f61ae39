// Lists the transports that tests run over: the rows of the table that can be used on this machine. In entries of ctest
// where the tests' own library stands for adapters, an adapter's transport is one of them.
#pragma once

#include <string>
#include <vector>

#include "wreath/transport.hpp"

namespace wreath::test {

inline std::vector<std::string> usable_transports() {
  std::vector<std::string> names;
  for (const TransportRow& row : transports()) {
    if (row.usable()) names.emplace_back(row.name);
  }
  return names;
}

// Returns those of them that are wires.
inline std::vector<std::string> usable_wires() {
  std::vector<std::string> names = usable_transports();
  std::erase_if(names, [](const std::string& each) { return !find_transport(each)->is_wire(); });
  return names;
}

inline constexpr const char* kNeedsAdapters = "; run it in a guest with RDMA devices: ./run nightly rdma";

// Returns why a test over these transports ("shm,cuda_ipc") is skipped, whose first must be usable. Empty: the test can
// run here.
inline std::string why_skipped(const std::string& transports) {
  const std::string transport = transports.substr(0, transports.find(','));
  const TransportRow* const row = find_transport(transport);
  const Status usable = row != nullptr ? row->usable() : Error{ErrorCode::Unavailable, "this build has none"};
  return usable ? std::string() : transport + ": " + usable.error().message;
}

}  // namespace wreath::test
