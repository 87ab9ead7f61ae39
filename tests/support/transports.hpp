// The transports that tests run over: the rows of the table that can be used on this machine. An adapter's transport is
// one of them in entries of ctest where the tests' own library stands for its adapters.
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

}  // namespace wreath::test
