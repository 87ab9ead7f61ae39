// Ranks on one host: the peer's segment is a memfd that came over the control connection. Ranks that are
// threads of this process are found by id and share one mapping.
#include "src/fifo/mapped_transport.hpp"
#include "transports/transports.hpp"

namespace wreath {

Result<std::unique_ptr<Transport>> make_shm(const TransportContext& context) {
  static constexpr MappedReach kReach{"shm", false, "is on another host"};
  return make_mapped_transport(context, kReach);
}

}  // namespace wreath
