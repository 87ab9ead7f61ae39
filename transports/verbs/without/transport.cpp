// Stands for the verbs transport in builds without the headers of libibverbs.
#include "wreath/transport.hpp"

namespace wreath {

Status probe_verbs() {
  return Error{ErrorCode::Unavailable, "this build has no verbs: install libibverbs-dev and build again"};
}

Result<std::unique_ptr<Transport>> make_verbs(const TransportContext&) { return probe_verbs().error(); }

MessageWay explain_verbs(std::uint64_t) { return {}; }

}  // namespace wreath
