// The shm transport links ranks on one host. The peer's segment is a memfd that came over the control connection. Ranks
// that are threads of this process are found by id and share one mapping.
#include "src/fifo/mapped_transport.hpp"

namespace wreath {

Result<std::unique_ptr<Transport>> make_shm(const TransportContext& context) {
  return make_mapped_transport(context, SharedMemory::Host);
}

}  // namespace wreath
