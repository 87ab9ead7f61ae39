// What a thread has called since its first ncclGroupStart, and how it runs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "bindings/nccl/jobs.hpp"
#include "bindings/nccl/member.hpp"
#include "bindings/nccl/nccl.h"
#include "wreath/wreath.hpp"

namespace wreath::nccl {

// The end of a communicator: finalize or destroy.
using Ending = std::function<ncclResult_t()>;

// A collective, a send (call.root is the peer) or a receive.
struct Request {
  enum class Kind : std::uint8_t { Collective, Send, Receive };
  std::shared_ptr<Member> member;
  Kind kind = Kind::Collective;
  Call call;
};

bool in_group();
// Now, or at the end of this thread's group: its jobs, then its calls, then what ends communicators.
ncclResult_t submit(Job job);
ncclResult_t submit(Request request);
ncclResult_t submit(Ending ending);
// A refused call: the group that it was in ends with this code.
ncclResult_t refused(ncclResult_t code);

}  // namespace wreath::nccl
