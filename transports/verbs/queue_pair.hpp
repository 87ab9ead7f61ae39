// A reliable connected queue pair, and the steps by which it gets to know the one at its other end.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>

#include "transports/verbs/address.hpp"
#include "transports/verbs/device.hpp"

namespace wreath {

class VerbsAdapter;

class QueuePair {
 public:
  explicit QueuePair(VerbsAdapter& adapter);

  // Makes it without state. Its requests complete in `queue`.
  Status make(ibv_cq& queue, const ibv_qp_cap& room);
  // Takes a queue pair without state to where it waits for its other end, which may do what `access` says. Its address
  // is new.
  Status prepare(unsigned access);
  // Links it with its other end. Unavailable says that a port is down.
  Status connect(const VerbsAddress& theirs);
  // Takes it to a state, with those attributes that `mask` names.
  Status modify(ibv_qp_state state, const char* what, ibv_qp_attr attributes = {}, int mask = 0);
  void destroy() { pair_.reset(); }

  ibv_qp* get() const { return pair_.get(); }
  const VerbsAddress& address() const { return own_; }
  // Returns whether the port was down, or got another address, since connect(). It waits for such news for 0.2 s: a
  // kernel may fail requests on a card that goes down before it says so.
  bool was_disturbed() const;
  std::string describe() const;  // "mlx5_0 port 1 gid 3"
  // Names both ends before the words.
  Error explain(ErrorCode code, const std::string& words) const;

 private:
  Status begin_to_receive(const VerbsAddress& theirs);
  Status begin_to_send();

  VerbsAdapter& adapter_;
  VerbsHandle<ibv_qp> pair_;
  VerbsAddress own_;
  std::string peer_;                // for people
  std::uint32_t disturbances_ = 0;  // of the port, when it was connected
};

}  // namespace wreath
