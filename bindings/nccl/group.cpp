// Runs groups: all calls are under way before one is waited for, so that ranks of one thread meet each other.
#include "bindings/nccl/group.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <thread>
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
  std::vector<Ending> endings;
};

Collected& group() {
  thread_local Collected collected;
  return collected;
}

// ---- calls ----

bool is_in_stream(const Request& request) { return request.call.stream != nullptr; }

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

// Holds calls that begin together, and the communicators that are theirs from the call on.
struct Launch {
  std::vector<Request> requests;
  std::vector<Use> uses = {};  // by request
  // Holds turns of non-blocking communicators, where jobs may be under way.
  std::vector<Turn> turns = {};
};

ncclResult_t enter(Launch& launch) {
  launch.uses.reserve(launch.requests.size());
  for (const Request& request : launch.requests) {
    launch.uses.emplace_back(request.member);
    if (launch.uses.back().entered() != ncclSuccess) return launch.uses.back().entered();
  }
  return ncclSuccess;
}

Result<Work> begin(const Launch& launch) {
  if (launch.requests.size() == 1) return start(launch.uses.front()->communicator(), launch.requests.front());
  Group together;
  for (std::size_t i = 0; i < launch.requests.size(); ++i) {
    const auto kept = start(launch.uses[i]->communicator(), launch.requests[i]);
    if (!kept) return kept.error();
  }
  return together.launch();
}

ncclResult_t note_all(const std::vector<Use>& uses, const Status& status) {
  if (status) return ncclSuccess;
  if (uses.size() == 1) return uses.front()->note(status);
  ncclResult_t result = ncclSuccess;
  for (const Use& use : uses) keep_first(result, use->note_own_error());
  const ncclResult_t code = code_of(status.error(), uses.front()->rank());
  return refuse(result == ncclSuccess ? code : result, status.error().message);
}

// Keeps the work of calls that have begun, for the ends of their communicators.
void keep(const Launch& launch, Work work) {
  const auto shared = std::make_shared<Work>(std::move(work));
  const bool in_stream = is_in_stream(launch.requests.front());
  for (const Use& use : launch.uses) in_stream ? use->keep_in_stream(shared) : use->keep(shared);
}

// Begins the calls and keeps their work. The communicators are non-blocking, and it is the turn of all calls.
ncclResult_t begin_and_keep(const Launch& launch) {
  Result<Work> work = begin(launch);
  if (!work) return note_all(launch.uses, work.error());
  keep(launch, *std::move(work));
  return is_in_stream(launch.requests.front()) ? ncclSuccess : ncclInProgress;
}

// Begins calls once it is their turn. Only ncclCommGetAsyncError tells how they ended.
void begin_late(Launch& launch) {
  for (const Turn& turn : launch.turns) turn.wait();
  const ncclResult_t code = guarded([&] { return begin_and_keep(launch); });
  for (const Use& use : launch.uses) {
    if (code != ncclSuccess && code != ncclInProgress)
      static_cast<void>(use->note(Error{ErrorCode::InvalidUsage, last_error(), -1}));
  }
  launch.uses.clear();
  launch.turns.clear();
}

// Begins calls at once where no job is before them, else on a helper.
ncclResult_t begin_in_turn(Launch launch) {
  std::set<std::shared_ptr<Member>> taken;
  for (const Request& request : launch.requests) taken.insert(request.member);
  launch.turns = take_turns(taken);
  if (std::all_of(launch.turns.begin(), launch.turns.end(), [](const Turn& turn) { return turn.is_next(); }))
    return begin_and_keep(launch);
  const auto shared = std::make_shared<Launch>(std::move(launch));
  try {
    shared->requests.front().member->keep(std::thread([shared] { begin_late(*shared); }));
  } catch (const std::system_error& thrown) {
    const Error error{ErrorCode::System, std::string("cannot start a thread for a call: ") + thrown.what(), -1};
    for (const Use& use : shared->uses) static_cast<void>(use->fail(error));
    return refuse(ncclSystemError, error.message);
  }
  return ncclInProgress;
}

// Chooses the streams of calls without elements. These may name no memory, and so no device, and go with the others.
ncclResult_t choose_streams_of_empty_calls(std::vector<Request>& requests) {
  if (std::none_of(requests.begin(), requests.end(), is_in_stream)) return ncclSuccess;
  for (Request& request : requests) {
    if (is_in_stream(request) || request.call.count > 0) continue;
    const auto goes_with = [&](const Request& other) {
      const bool alike = (other.kind == Request::Kind::Collective) == (request.kind == Request::Kind::Collective);
      return is_in_stream(other) && other.member == request.member && alike;
    };
    const auto other = std::find_if(requests.begin(), requests.end(), goes_with);
    Device* const device = request.member->cuda();
    if (other != requests.end()) {
      request.call.stream = other->call.stream;
    } else if (device != nullptr) {
      const auto stream = request.member->stream(*device, nullptr);
      if (!stream) return refuse(code_of(stream.error(), request.member->rank()), stream.error().message);
      request.call.stream = *stream;
    }
  }
  return ncclSuccess;
}

// Checks that the calls of one group are of one kind.
ncclResult_t check_alike(const std::vector<Request>& requests) {
  const auto blocking = [](const Request& request) { return request.member->blocking(); };
  const auto mixed = [&](auto kind) {
    return std::any_of(requests.begin(), requests.end(), kind) && !std::all_of(requests.begin(), requests.end(), kind);
  };
  if (mixed(blocking))
    return refuse(ncclInvalidUsage, "ncclGroupEnd: a group over blocking and non-blocking communicators");
  if (mixed(is_in_stream))
    return refuse(ncclInvalidUsage, "ncclGroupEnd: a group of calls on host memory alone and of calls in streams");
  return ncclSuccess;
}

ncclResult_t run_requests(std::vector<Request> requests) {
  if (requests.empty()) return ncclSuccess;
  Launch launch{std::move(requests)};
  const Request& first = launch.requests.front();
  if (const ncclResult_t entered = enter(launch); entered != ncclSuccess) return entered;
  if (!first.member->blocking()) return begin_in_turn(std::move(launch));
  Result<Work> work = begin(launch);
  if (!work) return note_all(launch.uses, work.error());
  if (!is_in_stream(first)) return note_all(launch.uses, work->wait());
  keep(launch, *std::move(work));
  return ncclSuccess;
}

ncclResult_t run_alone(Request request) {
  if (!request.member->blocking()) return run_requests({std::move(request)});
  const Use use(request.member);
  if (use.entered() != ncclSuccess) return use.entered();
  if (!is_in_stream(request)) return use->note(run_now(use->communicator(), request));
  Result<Work> queued = start(use->communicator(), request);
  if (!queued) return use->note(queued.error());
  use->keep_in_stream(std::make_shared<Work>(*std::move(queued)));
  return ncclSuccess;
}

// Ends the outermost group: returns what was collected, so that there is no group any more. Returns nullopt where
// groups around it are still open.
std::optional<Collected> end_group() {
  Collected& open = group();
  if (--open.depth > 0) return std::nullopt;
  return std::exchange(open, Collected{});
}

ncclResult_t run(Collected ended) {
  if (ended.error == ncclSuccess) ended.error = choose_streams_of_empty_calls(ended.requests);
  if (ended.error == ncclSuccess) ended.error = check_alike(ended.requests);
  if (ended.error != ncclSuccess) {
    for (const Job& job : ended.jobs) discard(job);
    return ended.error;
  }
  ncclResult_t result = run_jobs(std::move(ended.jobs));
  if (result == ncclSuccess || result == ncclInProgress) keep_first(result, run_requests(std::move(ended.requests)));
  for (const Ending& ending : ended.endings) {
    const std::string before = last_error();
    const ncclResult_t code = ending();
    if (!keep_first(result, code) && code != ncclSuccess && code != result) static_cast<void>(refuse(result, before));
  }
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
  if (!in_group()) return run_alone(std::move(request));
  group().requests.push_back(std::move(request));
  return ncclSuccess;
}

ncclResult_t submit(Ending ending) {
  if (!in_group()) return ending();
  group().endings.push_back(std::move(ending));
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
    auto ended = end_group();
    return ended ? run(*std::move(ended)) : ncclSuccess;
  });
}

ncclResult_t pncclGroupSimulateEnd(ncclSimInfo_t* info) {
  return guarded([&] {
    if (!in_group()) return refuse(ncclInvalidUsage, "ncclGroupSimulateEnd: no group was started");
    const auto ended = end_group();
    if (!ended) return ncclSuccess;
    for (const Job& job : ended->jobs) discard(job);
    if (ended->error != ncclSuccess) return ended->error;
    if (!ended->jobs.empty() || !ended->endings.empty())
      return refuse(ncclInvalidUsage, "ncclGroupSimulateEnd: making and ending communicators cannot be simulated");
    return estimate(ended->requests, info);
  });
}
}

WREATH_NCCL_EXPORT(GroupStart);
WREATH_NCCL_EXPORT(GroupEnd);
WREATH_NCCL_EXPORT(GroupSimulateEnd);
