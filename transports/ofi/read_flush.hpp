// Flushes what peers have put into memory of a device, by a read of it through an endpoint that is its own peer. See
// transports/verbs/read_flush.hpp for why that is enough. The endpoint is apart from that of the peers: the read is
// awaited by its own queue, and goes on while the other endpoint is opened anew.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>

#include <memory>

#include "src/base/clock.hpp"
#include "src/base/region.hpp"
#include "src/put/adapter.hpp"
#include "transports/ofi/handle.hpp"
#include "transports/ofi/provider.hpp"

namespace wreath {

class OfiReadFlush {
 public:
  // Makes nothing before the first flush. The domain is open until this is destroyed.
  OfiReadFlush(const OfiProvider& provider, fid_domain& domain) : provider_(provider), domain_(domain) {}

  // Returns why memory cannot be flushed by reads; empty where it may be.
  static std::string obstacle(const fi_info& info);
  // Reads a byte at this address, which was registered with FI_REMOTE_READ, and returns when it has come. A read that
  // fails is tried once more by a new endpoint. After one that does not end there is no other, whose end it might seem.
  Status flush(const RemoteMemory& memory);

 private:
  Status prepare();
  Status enable();
  Status read(const RemoteMemory& memory);
  Status wait_for(const fi_msg_rma& message);
  std::string failure();
  Error failed(const char* call, std::int64_t returned) const;

  const OfiProvider& provider_;
  fid_domain& domain_;
  std::shared_ptr<Region> target_;
  OfiHandle<fid_mr> target_memory_;
  OfiHandle<fid_cq> queue_;
  OfiHandle<fid_av> peers_;
  OfiHandle<fid_ep> endpoint_;
  fi_addr_t self_ = FI_ADDR_UNSPEC;
  Status stalled_;       // the error of a read that the provider still has
  fi_context2 notes_{};  // of the provider, about the read
};

}  // namespace wreath
