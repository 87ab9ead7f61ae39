// This file checks whether the hosts of a run have the memory that it needs.
#pragma once

#include "examples/train_gpt/train/memory_need.hpp"
#include "training/checkpoint/agreement.hpp"
#include "wreath/result.hpp"

namespace wreath::gpt {

// Checks the hosts; every rank calls it with its own need. The error is System, on all ranks. It names a host whose
// ranks need more than is available there, and both sizes.
Status check_hosts(training::Agreement& ranks, const MemoryNeed& mine);

}  // namespace wreath::gpt
