// Ranks that are threads of one process: the peer's segment is found by its id.
#include "src/fifo/mapped_transport.hpp"

namespace wreath {

Result<std::unique_ptr<Transport>> make_inproc(const TransportContext& context) {
  return make_mapped_transport(context, SharedMemory::Process);
}

}  // namespace wreath
