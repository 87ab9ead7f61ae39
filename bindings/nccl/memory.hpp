// Memory that programs have allocated, registered, or made windows of.
#pragma once

#include "bindings/nccl/member.hpp"

namespace wreath::nccl {

// Ends what `member` has not deregistered; its buffers must be alive.
void release_registrations(const Member& member);

}  // namespace wreath::nccl
