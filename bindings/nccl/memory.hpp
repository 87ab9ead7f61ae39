// Manages memory that programs have allocated, registered, or made windows of.
#pragma once

#include "bindings/nccl/member.hpp"

namespace wreath::nccl {

// Ends the registrations that `member` still has; its buffers must be alive.
void release_registrations(const Member& member);

}  // namespace wreath::nccl
