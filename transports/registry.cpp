// The table of transports is in order of preference: a pair of ranks takes the first that both ends reach.
#include "wreath/transport.hpp"

namespace wreath {

// Each folder here defines one of these.
Result<std::unique_ptr<Transport>> make_inproc(const TransportContext& context);
Result<std::unique_ptr<Transport>> make_shm(const TransportContext& context);
Result<std::unique_ptr<Transport>> make_verbs(const TransportContext& context);
Result<std::unique_ptr<Transport>> make_ofi(const TransportContext& context);
Result<std::unique_ptr<Transport>> make_tcp(const TransportContext& context);

Status probe_verbs();
Status probe_ofi();
MessageWay explain_verbs(std::uint64_t bytes);
MessageWay explain_ofi(std::uint64_t bytes);

Result<std::unique_ptr<Transport>> make_faulty(std::unique_ptr<Transport> inner, const TransportContext& context);
Status check_faults(std::string_view faults);

namespace {

constexpr TransportRow kRows[] = {
    {"inproc", SharedMemory::Process, false, &make_inproc},
    {"shm", SharedMemory::Host, false, &make_shm},
    {"verbs", SharedMemory::None, false, &make_verbs, &probe_verbs, &explain_verbs},
    {"ofi", SharedMemory::None, false, &make_ofi, &probe_ofi, &explain_ofi},
    {"tcp", SharedMemory::None, true, &make_tcp},
};

constexpr DecoratorRow kDecorators[] = {
    {"faulty", &TransportContext::faults, &check_faults, &make_faulty},
};

}  // namespace

std::span<const TransportRow> transports() noexcept { return kRows; }

std::span<const DecoratorRow> transport_decorators() noexcept { return kDecorators; }

}  // namespace wreath
