// What a thread has called since its first ncclGroupStart, and how it runs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "bindings/nccl/member.hpp"
#include "bindings/nccl/nccl.h"
#include "wreath/wreath.hpp"

namespace wreath::nccl {

// A communicator in the making.
struct Job {
  std::shared_ptr<Member> made;
  ncclComm_t* target;              // set at once, and null again where a blocking job fails
  std::shared_ptr<Member> parent;  // of a split or shrink; busy meanwhile
  bool blocking;
  std::function<ncclResult_t()> body;
};

// A collective, a send (call.root is the peer) or a receive.
struct Request {
  enum class Kind : std::uint8_t { Collective, Send, Receive };
  std::shared_ptr<Member> member;
  Kind kind = Kind::Collective;
  Call call;
};

bool in_group();
// Now, or with the group of this thread.
ncclResult_t submit(Job job);
ncclResult_t submit(Request request);
// A refused call: the group that it was in ends with this code.
ncclResult_t refused(ncclResult_t code);

}  // namespace wreath::nccl
