// AdapterAccess lets the adapters of wires read and write the buffers of a grid's operation where they are, in memory
// of a device (GPUDirect RDMA). They read messages that blocks name, and put peers' messages to the places where steps
// want them. The host posts these places, and blocks find the messages there.
#pragma once

#include <cstdint>
#include <vector>

#include "src/executor/host.hpp"
#include "src/fifo/access.hpp"
#include "src/membership/links.hpp"
#include "wreath/link.hpp"

namespace wreath {

// Returns the allocation that `data` is in. Unavailable says why adapters must not reach it: it is no device's, or it
// is not exportable, so that nobody would announce its release.
Result<DeviceRange> range_of(const void* data);

// Only the driver uses it, for one operation after the other.
class AdapterAccess {
 public:
  explicit AdapterAccess(const Links& links) : links_(links) {}

  // Begins an operation that `lanes` was started with. `memory` has the allocations of its buffers; it is empty where
  // adapters must not reach them.
  void begin(const LaneScheduler& lanes, const Plan& plan, std::vector<DeviceRange> memory);
  // Returns whether the adapters of the wire to a peer read and write all buffers.
  bool reach(Rank peer) const;
  // Posts the places of the next messages, as far as blocks have consumed the earlier ones. Places that no adapter
  // reaches are posted, too, so that peers need not wait for their names.
  void post_places();
  // Returns whether a message has come to the place where its step wants it.
  static bool has_landed(const RecvFifo& source, const SlotHeader& slot, const Located& located);

 private:
  const Links& links_;
  const LaneScheduler* lanes_ = nullptr;
  const Plan* plan_ = nullptr;
  std::vector<DeviceRange> memory_;
  std::vector<LaneState> posted_;    // says how far, by lane; empty where no message lands
  std::vector<std::uint32_t> next_;  // the next message whose place will be posted, by source; empty before the first
};

}  // namespace wreath
