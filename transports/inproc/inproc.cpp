// Ranks that are threads of one process: the peer's segment is found by its id.
#include "src/fifo/mapped_transport.hpp"
#include "transports/transports.hpp"

namespace wreath {

Result<std::unique_ptr<Transport>> make_inproc(const TransportContext& context) {
  static constexpr MappedReach kReach{"inproc", true, "is in another process"};
  return make_mapped_transport(context, kReach);
}

}  // namespace wreath
