// Stands for the ofi transport in builds without the headers of libfabric.
#include "wreath/transport.hpp"

namespace wreath {

Status probe_ofi() {
  return Error{ErrorCode::Unavailable, "this build has no ofi: install libfabric-dev and build again"};
}

Result<std::unique_ptr<Transport>> make_ofi(const TransportContext&) { return probe_ofi().error(); }

MessageWay explain_ofi(std::uint64_t) { return {}; }

}  // namespace wreath
