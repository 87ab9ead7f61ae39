// Flushes what peers have put into memory of a device, by an RDMA read of it through a queue pair that is connected
// with itself. NCCL does so, too (src/transport/net_ib of github.com/NVIDIA/nccl, and its issue 683).
//
// An adapter's writes are posted: a completion, which is in memory of the host, does not say that the device has them.
// On PCIe a read does not pass the writes that its requester has posted before it, unless they are of different
// requesters (PCI Express Base Specification, 2.4.1). All queue pairs of an adapter's function are one requester. So
// the device has the writes of all of them when the answer of a later read is here, and those of no other adapter.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "src/base/clock.hpp"
#include "src/base/region.hpp"
#include "src/put/adapter.hpp"
#include "transports/verbs/queue_pair.hpp"

namespace wreath {

class ReadFlush {
 public:
  // Makes nothing before the first flush.
  explicit ReadFlush(VerbsAdapter& adapter);

  // Reads a byte at this address, which was registered with IBV_ACCESS_REMOTE_READ, and returns when it has come. A
  // read that fails is tried once more by a new queue pair, and again while the port is down, for a limited time.
  Status flush(const RemoteMemory& memory);

 private:
  // Both return Unavailable where the port is down, or was meanwhile.
  Status prepare();
  Status read(const RemoteMemory& memory, const Deadline& deadline);

  VerbsAdapter& adapter_;
  const std::int64_t most_ms_;  // that a flush may take
  std::shared_ptr<Region> target_;
  VerbsHandle<ibv_mr> target_memory_;
  // Nothing that the pump polls completes here.
  VerbsHandle<ibv_cq> queue_;
  std::optional<QueuePair> pair_;
};

}  // namespace wreath
