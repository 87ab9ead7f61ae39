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

}  // namespace wreath
