// Communicators in the making: how the jobs of a group run.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "bindings/nccl/member.hpp"
#include "bindings/nccl/nccl.h"

namespace wreath::nccl {

// A communicator in the making.
struct Job {
  std::shared_ptr<Member> made;
  ncclComm_t* target;              // set at once, and null again where a blocking job fails
  std::shared_ptr<Member> parent;  // of a split or shrink, which has it to itself meanwhile
  bool blocking;
  std::function<ncclResult_t()> body;
};

// Those of one parent one after the other in their order, which is alike on all ranks; the others beside them, for one
// thread may drive several ranks.
ncclResult_t run_jobs(std::vector<Job> jobs);

// Takes back what the program was given.
void discard(const Job& job);

}  // namespace wreath::nccl
