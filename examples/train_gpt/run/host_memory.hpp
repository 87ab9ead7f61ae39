// Whether the hosts of a run have the memory that it takes.
#pragma once

#include "examples/train_gpt/train/memory_need.hpp"
#include "training/checkpoint/agreement.hpp"
#include "wreath/result.hpp"

namespace wreath::gpt {

// Every rank calls it with its own need. System, on all ranks: names a host whose ranks need more than is available
// there, and how much.
Status check_hosts(training::Agreement& ranks, const MemoryNeed& mine);

}  // namespace wreath::gpt
