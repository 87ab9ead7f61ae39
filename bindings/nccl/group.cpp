// Groups: all calls are under way before one is waited for, so that ranks of one thread meet each other.
#include "bindings/nccl/group.hpp"

#include <algorithm>
#include <map>
#include <system_error>
#include <utility>
#include <vector>

#include "bindings/nccl/errors.hpp"
#include "bindings/nccl/simulate.hpp"

namespace wreath::nccl {
namespace {

struct Collected {
  int depth = 0;
  ncclResult_t error = ncclSuccess;
  std::vector<Job> jobs;
  std::vector<Request> requests;
};

Collected& group() {
  thread_local Collected collected;
  return collected;
}

// An error before what is in progress before success.
void keep_first(ncclResult_t& result, ncclResult_t next) {
  if (result == ncclSuccess || (result == ncclInProgress && next != ncclSuccess)) result = next;
}

// ---- communicators in the making ----

void discard(const Job& job) {
  static_cast<void>(members().take(*job.target));
  *job.target = nullptr;
}

ncclResult_t ended(const Job& job, ncclResult_t result) {
  if (result != ncclSuccess) discard(job);
  return result;
}

void set_pending(const Job& job, void (Member::*step)()) {
  ((*job.made).*step)();
  if (job.parent != nullptr) ((*job.parent).*step)();
}

// Whatever becomes of the body, what was in the making is made or failed afterwards.
ncclResult_t run_body(const Job& job) {
  const ncclResult_t code = guarded(job.body);
  if (code == ncclSuccess) return code;
  static_cast<void>(job.made->joined(Error{ErrorCode::System, last_error(), -1}));
  return code;
}

// Runs on a thread of its own; `result` (null: nobody waits) gets what it came to.
std::thread begin(const Job& job, ncclResult_t* result) {
  set_pending(job, &Member::begin_pending);
  try {
    return std::thread([job, result] {
      const ncclResult_t code = run_body(job);
      if (result != nullptr) *result = code;
      set_pending(job, &Member::end_pending);
    });
  } catch (const std::system_error&) {
    set_pending(job, &Member::end_pending);
    throw;
  }
}

ncclResult_t run_jobs(const std::vector<Job>& jobs) {
  if (jobs.size() == 1 && jobs.front().blocking) return ended(jobs.front(), run_body(jobs.front()));
  std::vector<ncclResult_t> results(jobs.size(), ncclInProgress);
  std::vector<std::thread> waited(jobs.size());
  ncclResult_t result = ncclSuccess;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    try {
      std::thread helper = begin(jobs[i], jobs[i].blocking ? &results[i] : nullptr);
      if (jobs[i].blocking) {
        waited[i] = std::move(helper);
      } else {
        (jobs[i].parent != nullptr ? jobs[i].parent : jobs[i].made)->keep(std::move(helper));
      }
    } catch (const std::system_error& thrown) {
      results[i] = jobs[i].made->joined(Error{ErrorCode::System, thrown.what(), -1});
    }
  }
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (waited[i].joinable()) waited[i].join();
    if (jobs[i].blocking) static_cast<void>(ended(jobs[i], results[i]));
    if (results[i] != ncclSuccess && jobs[i].blocking)
      static_cast<void>(refuse(results[i], jobs[i].made->error_text()));
    keep_first(result, results[i]);
  }
  return result;
}

// ---- calls ----

Status run_now(Communicator& communicator, const Request& request) {
  const Call& call = request.call;
  switch (request.kind) {
    case Request::Kind::Collective: return communicator.run(call);
    case Request::Kind::Send: return communicator.send(call.input, call.count, call.dtype, call.root);
    case Request::Kind::Receive: break;
  }
  return communicator.recv(call.output, call.count, call.dtype, call.root);
}

Result<Work> start(Communicator& communicator, const Request& request) {
  const Call& call = request.call;
  switch (request.kind) {
    case Request::Kind::Collective: return communicator.start(call);
    case Request::Kind::Send:
      return communicator.send_async(call.input, call.count, call.dtype, call.root, call.stream);
    case Request::Kind::Receive: break;
  }
  return communicator.recv_async(call.output, call.count, call.dtype, call.root, call.stream);
}

// All members' calls, begun together; `uses` holds their communicators.
Result<Work> launch(const std::vector<Request>& requests, std::vector<Use>& uses) {
  Group together;
  for (const Request& request : requests) {
    Use use(request.member);
    if (use.entered() != ncclSuccess) return Error{ErrorCode::InvalidUsage, last_error(), -1};
    const auto kept = start(use->communicator(), request);
    uses.push_back(std::move(use));
    if (!kept) return kept.error();
  }
  return together.launch();
}

ncclResult_t note_all(const std::vector<Use>& uses, const Status& status) {
  if (status) return ncclSuccess;
  ncclResult_t result = ncclSuccess;
  for (const Use& use : uses) keep_first(result, use->note_own_error());
  const ncclResult_t code = code_of(status.error(), uses.empty() ? -1 : uses.front()->rank());
  return refuse(result == ncclSuccess ? code : result, status.error().message);
}

ncclResult_t run_requests(const std::vector<Request>& requests) {
  if (requests.empty()) return ncclSuccess;
  const bool blocking = requests.front().member->blocking();
  if (std::any_of(requests.begin(), requests.end(), [&](const Request& r) { return r.member->blocking() != blocking; }))
    return refuse(ncclInvalidUsage, "ncclGroupEnd: a group over blocking and non-blocking communicators");
  const bool in_streams = requests.front().call.stream != nullptr;
  if (std::any_of(requests.begin(), requests.end(),
                  [&](const Request& r) { return (r.call.stream != nullptr) != in_streams; }))
    return refuse(ncclInvalidUsage, "ncclGroupEnd: a group of calls on host memory alone and of calls in streams");
  std::vector<Use> uses;
  uses.reserve(requests.size());
  Result<Work> work = launch(requests, uses);
  if (!work) return note_all(uses, work.error());
  if (in_streams) return ncclSuccess;
  if (blocking) return note_all(uses, work->wait());
  const auto shared = std::make_shared<Work>(std::move(*work));
  for (const Use& use : uses) use->keep(shared);
  return ncclInProgress;
}

ncclResult_t run_alone(const Request& request) {
  const Use use(request.member);
  if (use.entered() != ncclSuccess) return use.entered();
  if (request.call.stream != nullptr) {
    const Result<Work> queued = start(use->communicator(), request);
    return use->note(queued ? Status() : Status(queued.error()));
  }
  if (use->blocking()) return use->note(run_now(use->communicator(), request));
  Result<Work> work = start(use->communicator(), request);
  if (!work) return use->note(work.error());
  use->keep(std::make_shared<Work>(std::move(*work)));
  return ncclInProgress;
}

// The outermost end: what was collected, and no group any more. nullopt: groups around it are still open.
std::optional<Collected> end_group() {
  Collected& open = group();
  if (--open.depth > 0) return std::nullopt;
  return std::exchange(open, Collected{});
}

ncclResult_t run(const Collected& ended) {
  if (ended.error != ncclSuccess) {
    for (const Job& job : ended.jobs) discard(job);
    return ended.error;
  }
  ncclResult_t result = run_jobs(ended.jobs);
  if (result == ncclSuccess || result == ncclInProgress) keep_first(result, run_requests(ended.requests));
  return result;
}

}  // namespace

bool in_group() { return group().depth > 0; }

ncclResult_t submit(Job job) {
  if (!in_group()) return run_jobs({std::move(job)});
  group().jobs.push_back(std::move(job));
  return ncclSuccess;
}

ncclResult_t submit(Request request) {
  if (!in_group()) return run_alone(request);
  group().requests.push_back(std::move(request));
  return ncclSuccess;
}

ncclResult_t refused(ncclResult_t code) {
  if (in_group() && group().error == ncclSuccess) group().error = code;
  return code;
}

}  // namespace wreath::nccl

using namespace wreath::nccl;  // NOLINT(google-build-using-namespace)

extern "C" {

ncclResult_t pncclGroupStart() {
  return guarded([] {
    ++group().depth;
    return ncclSuccess;
  });
}

ncclResult_t pncclGroupEnd() {
  return guarded([] {
    if (!in_group()) return refuse(ncclInvalidUsage, "ncclGroupEnd: no group was started");
    const auto ended = end_group();
    return ended ? run(*ended) : ncclSuccess;
  });
}

ncclResult_t pncclGroupSimulateEnd(ncclSimInfo_t* info) {
  return guarded([&] {
    if (!in_group()) return refuse(ncclInvalidUsage, "ncclGroupSimulateEnd: no group was started");
    const auto ended = end_group();
    if (!ended) return ncclSuccess;
    for (const Job& job : ended->jobs) discard(job);
    if (ended->error != ncclSuccess) return ended->error;
    if (!ended->jobs.empty())
      return refuse(ncclInvalidUsage, "ncclGroupSimulateEnd: making communicators cannot be simulated");
    return estimate(ended->requests, info);
  });
}
}

WREATH_NCCL_EXPORT(GroupStart);
WREATH_NCCL_EXPORT(GroupEnd);
WREATH_NCCL_EXPORT(GroupSimulateEnd);
