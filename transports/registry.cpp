// The table of transports, in order of preference: a pair of ranks takes the first that both ends reach.
#include <algorithm>
#include <iterator>

#include "transports/transports.hpp"

namespace wreath {
namespace {

constexpr TransportRow kRows[] = {
    {"inproc", FifoMemory::Host, &make_inproc},
    {"shm", FifoMemory::Host, &make_shm},
    {"tcp", FifoMemory::Host, &make_tcp},
    {"cuda_ipc", FifoMemory::Device, &make_cuda_ipc},
};

constexpr DecoratorRow kDecorators[] = {
    {"faulty", &TransportContext::faults, &check_faults, &make_faulty},
};

}  // namespace

std::span<const TransportRow> transports() noexcept { return kRows; }

std::span<const TransportRow> transports(FifoMemory fifos) noexcept {
  const auto is_of = [fifos](const TransportRow& row) { return row.fifos == fifos; };
  const auto* const first = std::find_if(std::begin(kRows), std::end(kRows), is_of);
  return {first, std::find_if_not(first, std::end(kRows), is_of)};
}

std::span<const DecoratorRow> transport_decorators() noexcept { return kDecorators; }

const TransportRow* find_transport(std::string_view name) noexcept {
  for (const TransportRow& row : kRows) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

}  // namespace wreath
