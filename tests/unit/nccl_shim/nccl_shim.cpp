// NCCL's calls in terms of include/wreath alone: proof that the public API carries a drop-in.
//
// A blocking init of several ranks from one thread becomes a thread per rank; calls of a group are all started
// before one is waited for. Everything else is a translation of arguments and errors.
#include "tests/unit/nccl_shim/nccl_shim.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "wreath/wreath.hpp"

namespace wreath::shim {
namespace {

// One rank of a communicator. Shared with the thread that brings it up, which may outlive the handle.
struct Member {
  enum class State { Joining, Ready, Failed, Finalized };

  int rank = -1;
  int ranks = 0;
  bool blocking = true;

  std::mutex mutex;  // of all below but `communicator`
  std::condition_variable changed;
  State state = State::Joining;
  bool abandoned = false;  // aborted while joining
  int inside = 0;          // threads that use `communicator`
  ncclResult_t result = ncclSuccess;
  std::string text;         // of the last error
  std::vector<Work> works;  // started, not waited for
  Communicator communicator;
};

ncclResult_t result_of(const Error& error, int rank) {
  switch (error.code) {
    case ErrorCode::InvalidArgument:
    case ErrorCode::Mismatch: return ncclInvalidArgument;
    case ErrorCode::InvalidUsage: return ncclInvalidUsage;
    case ErrorCode::PeerLost: return ncclRemoteError;
    case ErrorCode::Aborted: return error.failed_rank == rank ? ncclInternalError : ncclRemoteError;
    case ErrorCode::NotReady: return ncclInProgress;
    case ErrorCode::Timeout:
    case ErrorCode::StartupFailed:
    case ErrorCode::Unavailable:
    case ErrorCode::System: return ncclSystemError;
  }
  return ncclInternalError;
}

std::string& thread_error() {
  thread_local std::string text;
  return text;
}

ncclResult_t refuse(ncclResult_t result, std::string text) {
  thread_error() = std::move(text);
  return result;
}

// Notes the outcome of an operation, the first error for good.
ncclResult_t note(Member& member, const Status& status) {
  if (status) return ncclSuccess;
  const ncclResult_t result = result_of(status.error(), member.rank);
  if (result == ncclInProgress) return result;
  const std::lock_guard lock(member.mutex);
  member.text = status.error().message;
  if (member.result == ncclSuccess) member.result = result;
  return refuse(result, status.error().message);
}

// No exception leaves the C interface.
template <typename Body>
ncclResult_t guard(Body&& body) noexcept {
  try {
    return body();
  } catch (const std::exception&) {
    return ncclSystemError;
  }
}

// Keeps a Ready member's communicator from being destroyed while it is used.
class Use {
 public:
  explicit Use(std::shared_ptr<Member> member) : member_(std::move(member)) {
    const std::lock_guard lock(member_->mutex);
    if (member_->state != Member::State::Ready) return;
    ++member_->inside;
    entered_ = true;
  }
  Use(Use&& other) noexcept : member_(std::move(other.member_)), entered_(std::exchange(other.entered_, false)) {}
  Use& operator=(Use&&) = delete;
  ~Use() {
    if (!entered_) return;
    const std::lock_guard lock(member_->mutex);
    --member_->inside;
    member_->changed.notify_all();
  }
  bool entered() const { return entered_; }
  Member& operator*() const { return *member_; }
  Member* operator->() const { return member_.get(); }

 private:
  std::shared_ptr<Member> member_;
  bool entered_ = false;
};

// ---- bringing a rank up ----

void join(const std::shared_ptr<Member>& member, const UniqueId& id) {
  Result<Communicator> made = Communicator::create(id, member->rank, member->ranks);
  const Status status = made ? Status() : Status(made.error());
  static_cast<void>(note(*member, status));
  const std::lock_guard lock(member->mutex);
  if (made && !member->abandoned) member->communicator = std::move(*made);
  member->state = made ? Member::State::Ready : Member::State::Failed;
  member->changed.notify_all();
}

ncclResult_t await_joined(Member& member) {
  std::unique_lock lock(member.mutex);
  member.changed.wait(lock, [&] { return member.state != Member::State::Joining; });
  if (member.result != ncclSuccess) thread_error() = member.text;
  return member.result;
}

// ---- groups ----

struct GroupCall {
  std::shared_ptr<Member> member;
  std::function<void()> join;                  // an init
  std::function<Result<Work>(Member&)> start;  // or a collective
};

// What a thread has collected since its first ncclGroupStart.
struct Collected {
  int depth = 0;
  ncclResult_t error = ncclSuccess;
  std::vector<GroupCall> calls;
};

Collected& group() {
  thread_local Collected collected;
  return collected;
}

ncclResult_t start_works(const std::vector<GroupCall>& calls, std::vector<std::pair<Use, Work>>& waited) {
  ncclResult_t result = ncclSuccess;
  for (const GroupCall& call : calls) {
    if (!call.start) continue;
    Use use(call.member);
    if (!use.entered()) return refuse(ncclInvalidArgument, "the communicator is not ready");
    Result<Work> work = call.start(*use);
    if (!work) return note(*use, work.error());
    if (use->blocking) {
      waited.emplace_back(std::move(use), std::move(*work));
      continue;
    }
    const std::lock_guard lock(use->mutex);
    use->works.push_back(std::move(*work));
    result = ncclInProgress;
  }
  return result;
}

// All are under way before one is waited for, so that ranks of one thread meet each other.
ncclResult_t run_calls(const std::vector<GroupCall>& calls) {
  ncclResult_t result = ncclSuccess;
  const auto keep_first = [&](ncclResult_t next) {
    if (result == ncclSuccess || (result == ncclInProgress && next != ncclSuccess)) result = next;
  };
  for (const GroupCall& call : calls) {
    if (call.join) std::thread(call.join).detach();
  }
  for (const GroupCall& call : calls) {
    if (call.join) keep_first(call.member->blocking ? await_joined(*call.member) : ncclInProgress);
  }
  std::vector<std::pair<Use, Work>> waited;
  keep_first(start_works(calls, waited));
  for (auto& [use, work] : waited) keep_first(note(*use, work.wait()));
  return result;
}

ncclResult_t submit(GroupCall call) {
  Collected& open = group();
  if (open.depth > 0) {
    open.calls.push_back(std::move(call));
    return ncclSuccess;
  }
  return run_calls({std::move(call)});
}

ncclResult_t refuse_in_group(ncclResult_t result, std::string text) {
  if (group().depth > 0 && group().error == ncclSuccess) group().error = result;
  return refuse(result, std::move(text));
}

// ---- ending ----

ncclResult_t wait_for_works(Member& member) {
  std::vector<Work> works;
  {
    const std::lock_guard lock(member.mutex);
    works.swap(member.works);
  }
  ncclResult_t result = ncclSuccess;
  for (Work& work : works) {
    const ncclResult_t next = note(member, work.wait());
    if (result == ncclSuccess) result = next;
  }
  return result;
}

// Once no thread is inside; the communicator says goodbye to its peers.
void end(Member& member) {
  Communicator ending;
  std::unique_lock lock(member.mutex);
  member.changed.wait(lock, [&] { return member.inside == 0; });
  ending = std::move(member.communicator);
  member.state = Member::State::Finalized;
  lock.unlock();
}

// What has ended since the last poll; whether all has.
bool collect_works(Member& member) {
  std::vector<Work> over;
  bool all = true;
  {
    const std::lock_guard lock(member.mutex);
    std::vector<Work> running;
    for (Work& work : member.works) (work.done() ? over : running).push_back(std::move(work));
    member.works = std::move(running);
    all = member.works.empty();
  }
  for (Work& work : over) static_cast<void>(note(member, work.wait()));
  return all;
}

std::optional<DataType> dtype_of_nccl(ncclDataType_t dtype) {
  if (dtype == ncclInt32) return DataType::Int32;
  if (dtype == ncclFloat32) return DataType::Float32;
  return std::nullopt;
}

}  // namespace
}  // namespace wreath::shim

// NOLINTBEGIN(readability-identifier-naming, cppcoreguidelines-owning-memory): C handles with NCCL's names.
struct ncclComm {
  std::shared_ptr<wreath::shim::Member> member;
  bool finalizing = false;
};

using namespace wreath;        // NOLINT(google-build-using-namespace)
using namespace wreath::shim;  // NOLINT(google-build-using-namespace)

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) noexcept {
  return guard([&] {
    if (id == nullptr) return refuse(ncclInvalidArgument, "ncclGetUniqueId: id = null");
    const Result<UniqueId> made = UniqueId::create();
    if (!made) return refuse(result_of(made.error(), -1), made.error().message);
    std::memcpy(id->internal, made->bytes.data(), sizeof id->internal);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) noexcept {
  ncclConfig_t config;
  return ncclCommInitRankConfig(comm, ranks, id, rank, &config);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) noexcept {
  return guard([&] {
    ncclConfig_t known;
    if (comm == nullptr) return refuse_in_group(ncclInvalidArgument, "ncclCommInitRankConfig: comm = null");
    *comm = nullptr;
    if (config != nullptr) {
      if (config->magic != known.magic) return refuse_in_group(ncclInvalidArgument, "ncclConfig_t was not initialized");
      std::memcpy(&known, config, std::min(config->size, sizeof known));
    }
    if (known.blocking != NCCL_CONFIG_UNDEF_INT && known.blocking != 0 && known.blocking != 1) {
      return refuse_in_group(ncclInvalidArgument, "ncclConfig_t::blocking must be 0 or 1");
    }
    if (ranks < 1 || rank < 0 || rank >= ranks)
      return refuse_in_group(ncclInvalidArgument, "rank is not 0 .. ranks - 1");
    auto member = std::make_shared<Member>();
    member->rank = rank;
    member->ranks = ranks;
    member->blocking = known.blocking != 0;
    UniqueId unique;
    std::memcpy(unique.bytes.data(), id.internal, sizeof id.internal);
    *comm = new ncclComm{member};
    return submit({member, [member, unique] { join(member, unique); }, nullptr});
  });
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) noexcept {
  return guard([&] {
    if (comm == nullptr) return refuse(ncclInvalidArgument, "ncclCommFinalize: comm = null");
    Member& member = *comm->member;
    comm->finalizing = true;
    if (!member.blocking && !collect_works(member)) return ncclInProgress;
    const ncclResult_t result = wait_for_works(member);
    end(member);
    return result;
  });
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) noexcept {
  return guard([&] {
    if (comm == nullptr) return ncclSuccess;
    const std::unique_ptr<ncclComm> owned(comm);
    static_cast<void>(await_joined(*comm->member));
    const ncclResult_t result = wait_for_works(*comm->member);
    end(*comm->member);
    return result;
  });
}

ncclResult_t ncclCommAbort(ncclComm_t comm) noexcept {
  return guard([&] {
    if (comm == nullptr) return ncclSuccess;
    const std::unique_ptr<ncclComm> owned(comm);
    Member& member = *comm->member;
    {
      const std::lock_guard lock(member.mutex);
      member.abandoned = true;
      if (member.state == Member::State::Joining) return ncclSuccess;
      if (member.state != Member::State::Ready) return ncclSuccess;
    }
    const Status aborted = member.communicator.abort();
    end(member);
    return aborted ? ncclSuccess : refuse(result_of(aborted.error(), -1), aborted.error().message);
  });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* result) noexcept {
  return guard([&] {
    if (comm == nullptr || result == nullptr) return refuse(ncclInvalidArgument, "ncclCommGetAsyncError: null");
    Member& member = *comm->member;
    const bool idle = collect_works(member);
    if (Use use(comm->member); use.entered()) static_cast<void>(note(member, member.communicator.error()));
    {
      const std::lock_guard lock(member.mutex);
      const bool busy = member.state == Member::State::Joining || !idle;
      *result = member.result != ncclSuccess ? member.result : busy ? ncclInProgress : ncclSuccess;
      if (!idle || !comm->finalizing || member.state != Member::State::Ready) return ncclSuccess;
    }
    end(member);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommCount(ncclComm_t comm, int* count) noexcept {
  if (comm == nullptr || count == nullptr) return ncclInvalidArgument;
  *count = comm->member->ranks;
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank) noexcept {
  if (comm == nullptr || rank == nullptr) return ncclInvalidArgument;
  *rank = comm->member->rank;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) noexcept {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error";
    case ncclSystemError: return "unhandled system error";
    case ncclInternalError: return "internal error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
  }
  return "unknown result code";
}

const char* ncclGetLastError(ncclComm_t comm) noexcept {
  static_cast<void>(guard([&] {
    if (comm == nullptr) return ncclSuccess;
    const std::lock_guard lock(comm->member->mutex);
    if (!comm->member->text.empty()) thread_error() = comm->member->text;
    return ncclSuccess;
  }));
  return thread_error().c_str();
}

ncclResult_t ncclAllReduce(const void* input, void* output, std::size_t count, ncclDataType_t dtype, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t) noexcept {
  return guard([&] {
    if (comm == nullptr) return refuse_in_group(ncclInvalidArgument, "ncclAllReduce: comm = null");
    const std::optional<DataType> type = dtype_of_nccl(dtype);
    if (!type || op != ncclSum) return refuse_in_group(ncclInvalidArgument, "ncclAllReduce: no such dtype or op yet");
    return submit({comm->member, nullptr, [=, type = *type](Member& member) {
                     return member.communicator.all_reduce_async(input, output, count, type, ReduceOp::Sum);
                   }});
  });
}

ncclResult_t ncclGroupStart() noexcept {
  return guard([] {
    ++group().depth;
    return ncclSuccess;
  });
}

ncclResult_t ncclGroupEnd() noexcept {
  return guard([] {
    Collected& open = group();
    if (open.depth == 0) return refuse(ncclInvalidUsage, "ncclGroupEnd: not in a group");
    if (--open.depth > 0) return ncclSuccess;
    const Collected ended = std::exchange(open, Collected{});
    return ended.error != ncclSuccess ? ended.error : run_calls(ended.calls);
  });
}
// NOLINTEND(readability-identifier-naming, cppcoreguidelines-owning-memory)
