// Runs jobs. Jobs of one parent share a thread: ranks that ran them in different orders would link with each other's
// children.
#include "bindings/nccl/jobs.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "bindings/nccl/errors.hpp"

namespace wreath::nccl {
namespace {

struct Step {
  Job job;
  // Is held until the communicator is made or failed: its end waits for that.
  std::optional<Turn> made;
  ncclResult_t result = ncclInProgress;
};

// Holds jobs that run one after the other: all of one parent, or one that has none. The parent is theirs from the call
// on, so that the program's next calls come after them.
struct Chain {
  std::shared_ptr<Member> parent;
  // Says that run_jobs() waits for the chain's end.
  bool awaited;
  std::optional<Turn> turn = {};
  std::optional<Use> use = {};
  // Says why the parent could not be entered.
  std::string refusal = {};
  std::vector<Step> steps = {};

  bool usable() const { return !use || use->entered() == ncclSuccess; }
};

std::vector<std::shared_ptr<Chain>> chains_of(std::vector<Job> jobs) {
  std::vector<std::shared_ptr<Chain>> chains;
  for (Job& job : jobs) {
    const auto of_parent = std::find_if(chains.begin(), chains.end(), [&](const auto& chain) {
      return job.parent != nullptr && chain->parent == job.parent;
    });
    const auto chain =
        of_parent != chains.end() ? *of_parent : std::make_shared<Chain>(Chain{job.parent, job.blocking});
    if (of_parent == chains.end()) chains.push_back(chain);
    Turn made(job.made);
    chain->steps.push_back({std::move(job), std::move(made)});
  }
  for (const auto& chain : chains) {
    if (chain->parent == nullptr) continue;
    chain->turn.emplace(chain->parent);
    chain->use.emplace(chain->parent, true);
    if (!chain->usable()) chain->refusal = last_error();
  }
  return chains;
}

// Runs a job's body. Whatever becomes of it, the communicator in the making is made or failed afterwards.
ncclResult_t run_body(const Job& job) {
  const ncclResult_t code = guarded(job.body);
  if (code == ncclSuccess) return code;
  static_cast<void>(job.made->joined(Error{ErrorCode::System, last_error(), -1}));
  return code;
}

void run(Chain& chain) {
  if (chain.turn) chain.turn->wait();
  for (Step& step : chain.steps) {
    step.result =
        chain.usable() ? run_body(step.job) : step.job.made->joined(Error{ErrorCode::InvalidUsage, chain.refusal, -1});
    step.made.reset();
  }
  chain.use.reset();
  chain.turn.reset();
}

// Fails a chain that has no thread. None of its jobs runs here, and the parent fails on all ranks. Else other ranks
// would take this rank's next job for the one that they are in.
void fail(Chain& chain, const std::string& reason) {
  const Error error{ErrorCode::System, "cannot start a thread that makes communicators: " + reason, -1};
  for (Step& step : chain.steps) step.result = step.job.made->joined(error);
  if (chain.use && chain.usable()) static_cast<void>((*chain.use)->fail(error));
}

// Runs the chain on a thread of its own, which is returned where the caller waits for it.
std::thread begin(const std::shared_ptr<Chain>& chain) {
  try {
    std::thread helper([chain] { run(*chain); });
    if (chain->awaited) return helper;
    (chain->parent != nullptr ? chain->parent : chain->steps.front().job.made)->keep(std::move(helper));
  } catch (const std::system_error& thrown) {
    fail(*chain, thrown.what());
    // The chain is over then.
    chain->awaited = true;
  }
  return {};
}

}  // namespace

void discard(const Job& job) {
  static_cast<void>(members().take(job.made.get()));
  if (*job.target == reinterpret_cast<ncclComm_t>(job.made.get())) *job.target = nullptr;
}

ncclResult_t run_jobs(std::vector<Job> jobs) {
  const auto chains = chains_of(std::move(jobs));
  std::vector<std::thread> helpers;
  helpers.reserve(chains.size());
  if (chains.size() == 1 && chains.front()->awaited) {
    run(*chains.front());
  } else {
    for (const auto& chain : chains) helpers.push_back(begin(chain));
  }
  for (std::thread& helper : helpers) {
    if (helper.joinable()) helper.join();
  }
  ncclResult_t result = ncclSuccess;
  for (const auto& chain : chains) {
    if (!chain->awaited) keep_first(result, ncclInProgress);
    for (std::size_t i = 0; chain->awaited && i < chain->steps.size(); ++i) {
      const Step& step = chain->steps[i];
      if (step.result == ncclSuccess) continue;
      discard(step.job);
      if (keep_first(result, step.result)) static_cast<void>(refuse(step.result, step.job.made->error_text()));
    }
  }
  return result;
}

}  // namespace wreath::nccl
