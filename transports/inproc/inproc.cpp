// The inproc transport links ranks that are threads of one process. It finds the peer's segment by its id.
#include "src/fifo/mapped_transport.hpp"

namespace wreath {

Result<std::unique_ptr<Transport>> make_inproc(const TransportContext& context) {
  return make_mapped_transport(context, SharedMemory::Process);
}

}  // namespace wreath
