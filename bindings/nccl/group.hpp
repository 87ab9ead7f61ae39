// Collects what a thread has called since its first ncclGroupStart, and runs it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "bindings/nccl/jobs.hpp"
#include "bindings/nccl/member.hpp"
#include "bindings/nccl/nccl.h"
#include "wreath/wreath.hpp"

namespace wreath::nccl {

// Ends a communicator: by finalize or destroy.
using Ending = std::function<ncclResult_t()>;

// Describes a collective, a send (call.root is the peer) or a receive.
struct Request {
  enum class Kind : std::uint8_t { Collective, Send, Receive };
  std::shared_ptr<Member> member;
  Kind kind = Kind::Collective;
  Call call;
};

bool in_group();
// Runs a job now, or first at the end of this thread's group.
ncclResult_t submit(Job job);
// Runs a call now, or after the jobs at the end of this thread's group.
ncclResult_t submit(Request request);
// Ends a communicator now, or after the calls at the end of this thread's group.
ncclResult_t submit(Ending ending);
// Notes a refused call: the group that it was in ends with this code.
ncclResult_t refused(ncclResult_t code);

}  // namespace wreath::nccl
