// Runs the jobs of a group, which make communicators.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "bindings/nccl/member.hpp"
#include "bindings/nccl/nccl.h"

namespace wreath::nccl {

// Describes a communicator in the making.
struct Job {
  std::shared_ptr<Member> made;
  // Is set at once, and is null again where a blocking job fails.
  ncclComm_t* target;
  // Is the parent of a split or shrink, which has the parent to itself meanwhile.
  std::shared_ptr<Member> parent;
  bool blocking;
  std::function<ncclResult_t()> body;
};

// Runs jobs. Jobs of one parent run one after the other in their order, which is alike on all ranks. The others run
// beside them, for one thread may drive several ranks.
ncclResult_t run_jobs(std::vector<Job> jobs);

// Takes the handle back that the program was given.
void discard(const Job& job);

}  // namespace wreath::nccl
