// The table of transports, in order of preference: a pair of ranks takes the first that both ends reach.
#include "transports/transports.hpp"

namespace wreath {
namespace {

constexpr TransportRow kRows[] = {
    {"inproc", &make_inproc},
    {"shm", &make_shm},
    {"tcp", &make_tcp},
};

constexpr DecoratorRow kDecorators[] = {
    {"faulty", &TransportContext::faults, &check_faults, &make_faulty},
};

}  // namespace

std::span<const TransportRow> transports() noexcept { return kRows; }

std::span<const DecoratorRow> transport_decorators() noexcept { return kDecorators; }

const TransportRow* find_transport(std::string_view name) noexcept {
  for (const TransportRow& row : kRows) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

std::vector<std::string_view> transport_names() {
  std::vector<std::string_view> names;
  for (const TransportRow& row : kRows) names.push_back(row.name);
  names.push_back(kDeviceReach);
  return names;
}

}  // namespace wreath
