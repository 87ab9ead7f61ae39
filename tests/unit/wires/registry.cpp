// This table is linked in place of transports/registry.cpp. The double is its only row.
#include "tests/unit/wires/double.hpp"

namespace wreath {
namespace {

constexpr TransportRow kDoubleRows[] = {{"double", SharedMemory::None, true, &test::make_double}};

}  // namespace

std::span<const TransportRow> transports() noexcept { return kDoubleRows; }

std::span<const DecoratorRow> transport_decorators() noexcept { return {}; }

}  // namespace wreath
