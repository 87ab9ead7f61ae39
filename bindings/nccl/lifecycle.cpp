// Makes communicators, answers questions about them, and ends them.
#include <algorithm>
#include <cstring>
#include <set>

#include "bindings/nccl/config.hpp"
#include "bindings/nccl/errors.hpp"
#include "bindings/nccl/group.hpp"
#include "bindings/nccl/memory.hpp"
#include "bindings/nccl/settings.hpp"
#include "src/base/config.hpp"

namespace wreath::nccl {
namespace {

// Returns the device as an option of communicators; empty where the choice is their own.
std::string device_text(const Device* device) { return device == nullptr ? "" : std::string(device->name()); }

ncclResult_t refuse_error(const Error& error, const char* function) {
  return refused(refuse(code_of(error, -1), std::string(function) + ": " + error.message));
}

// Makes one rank, which meets the others through an id.
ncclResult_t init(const char* function, ncclComm_t* comm, Member::Identity identity, const ncclUniqueId* id,
                  const ncclConfig_t* config) {
  if (comm == nullptr) return refused(bad_argument(function, "comm = null"));
  *comm = nullptr;
  if (id == nullptr) return refused(bad_argument(function, "commIds = null"));
  if (identity.ranks < 1) return refused(bad_argument(function, "nranks = " + std::to_string(identity.ranks)));
  if (identity.rank < 0 || identity.rank >= identity.ranks) {
    return refused(bad_argument(
        function, "rank = " + std::to_string(identity.rank) + " of nranks = " + std::to_string(identity.ranks)));
  }
  const auto wanted = read_config(config);
  if (!wanted) return refuse_error(wanted.error(), function);
  if (const ncclResult_t applied = apply_settings(); applied != ncclSuccess) return refused(applied);
  identity.blocking = wanted->blocking;
  identity.name = wanted->name;
  identity.cuda = current_cuda_device();
  identity.device = number_of(identity.cuda);
  UniqueId own;
  std::memcpy(own.bytes.data(), id->internal, sizeof id->internal);
  const auto member = std::make_shared<Member>(std::move(identity));
  *comm = members().add(member);
  // This may run on a thread where another device is current.
  const auto join = [member, own] {
    CommunicatorOptions options;
    options.device = device_text(member->cuda());
    return member->joined(Communicator::create(own, member->rank(), member->ranks(), options, member->interrupt()));
  };
  return submit(Job{member, comm, nullptr, member->blocking(), join});
}

Status check_devices(const int* devices, int count) {
  std::set<int> seen;
  for (int i = 0; devices != nullptr && i < count; ++i) {
    const std::string text = "devlist[" + std::to_string(i) + "] = " + std::to_string(devices[i]);
    if (devices[i] < 0) return Error{ErrorCode::InvalidArgument, text, -1};
    if (!seen.insert(devices[i]).second) return Error{ErrorCode::InvalidUsage, text + " comes twice", -1};
  }
  return {};
}

ncclResult_t init_all(ncclComm_t* comm, int ranks, const int* devices) {
  constexpr const char* kName = "ncclCommInitAll";
  if (comm == nullptr) return bad_argument(kName, "comm = null");
  if (ranks < 1) return bad_argument(kName, "ndev = " + std::to_string(ranks));
  if (const Status checked = check_devices(devices, ranks); !checked) return refuse_error(checked.error(), kName);
  if (const ncclResult_t applied = apply_settings(); applied != ncclSuccess) return applied;
  std::vector<Device*> cuda(static_cast<std::size_t>(ranks), nullptr);
  const bool uses_cuda = current_cuda_device() != nullptr;
  for (int rank = 0; uses_cuda && rank < ranks; ++rank) {
    const auto device = cuda_device(devices == nullptr ? rank : devices[rank]);
    if (!device) return refuse_error(device.error(), kName);
    cuda[static_cast<std::size_t>(rank)] = *device;
  }
  CommunicatorOptions options;
  for (const Device* const each : cuda) {
    if (each == nullptr) continue;
    if (!options.device.empty()) options.device += ',';
    options.device += device_text(each);
  }
  auto made = Communicator::create_local(ranks, options);
  if (!made) return refuse_error(made.error(), kName);
  for (int rank = 0; rank < ranks; ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    Member::Identity identity{rank, ranks, devices == nullptr ? rank : devices[index], true, {}, cuda[index]};
    const auto member = std::make_shared<Member>(std::move(identity));
    static_cast<void>(member->joined(std::move((*made)[index])));
    comm[index] = members().add(member);
  }
  return ncclSuccess;
}

// Answers a question about a communicator that is there.
ncclResult_t tell(const char* function, ncclComm_t comm, int* answer, int (Member::*ask)() const) {
  return with_member(function, comm, [&](const std::shared_ptr<Member>& member) {
    if (answer == nullptr) return bad_argument(function, "nowhere to put the answer: null");
    if (member->ranks() == 0)
      return refuse(ncclInvalidUsage, std::string(function) + ": the communicator is still being made");
    *answer = ((*member).*ask)();
    return ncclSuccess;
  });
}

ncclResult_t finalize(const std::shared_ptr<Member>& member) {
  {
    const Use use(member);
    if (use.entered() != ncclSuccess) return use.entered();
  }
  if (!member->begin_finalizing()) return refuse(ncclInvalidUsage, "ncclCommFinalize: it was called before");
  const auto finish = [member] {
    member->wait_for_streams();
    const ncclResult_t result = member->wait_for_works();
    member->end();
    return result;
  };
  if (member->blocking()) return finish();
  try {
    member->keep(std::thread([turn = Turn(member), finish] {
      turn.wait();
      static_cast<void>(guarded(finish));
    }));
  } catch (const std::system_error& thrown) {
    return refuse(ncclSystemError, thrown.what());
  }
  return ncclInProgress;
}

// Takes the handle from the program, and ends what stood behind it.
ncclResult_t finish(const char* function, ncclComm_t comm, ncclResult_t (*end)(Member&)) {
  return guarded([&] {
    const std::shared_ptr<Member> member = members().take(comm);
    if (member == nullptr) return bad_argument(function, "comm is no communicator, or no longer one");
    const ncclResult_t result = end(*member);
    release_registrations(*member);
    return result;
  });
}

}  // namespace
}  // namespace wreath::nccl

using namespace wreath;        // NOLINT(google-build-using-namespace)
using namespace wreath::nccl;  // NOLINT(google-build-using-namespace)

extern "C" {

ncclResult_t pncclGetUniqueId(ncclUniqueId* unique_id) {
  constexpr const char* kName = "ncclGetUniqueId";
  return guarded([&] {
    if (unique_id == nullptr) return bad_argument(kName, "uniqueId = null");
    if (const ncclResult_t applied = apply_settings(); applied != ncclSuccess) return applied;
    if (is_set(Setting::NcclCommId)) {
      return refuse(ncclInvalidUsage, "NCCL_COMM_ID=" + setting_text(Setting::NcclCommId) +
                                          ": ids of Wreath hold a secret, which an address has not: unset it and send "
                                          "the id of one rank to the others");
    }
    const auto made = UniqueId::create_for_hosts();
    if (!made) return refuse_error(made.error(), kName);
    std::memcpy(unique_id->internal, made->bytes.data(), sizeof unique_id->internal);
    return ncclSuccess;
  });
}

ncclResult_t pncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId comm_id, int rank) {
  return guarded([&] { return init("ncclCommInitRank", comm, {rank, nranks, -1, true, {}}, &comm_id, nullptr); });
}

ncclResult_t pncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId comm_id, int rank,
                                     ncclConfig_t* config) {
  return guarded([&] { return init("ncclCommInitRankConfig", comm, {rank, nranks, -1, true, {}}, &comm_id, config); });
}

ncclResult_t pncclCommInitRankScalable(ncclComm_t* newcomm, int nranks, int myrank, int id_count,
                                       ncclUniqueId* comm_ids, ncclConfig_t* config) {
  constexpr const char* kName = "ncclCommInitRankScalable";
  return guarded([&] {
    if (id_count < 1 || id_count > nranks) return refused(bad_argument(kName, "nId = " + std::to_string(id_count)));
    return init(kName, newcomm, {myrank, nranks, -1, true, {}}, comm_ids, config);
  });
}

ncclResult_t pncclCommInitAll(ncclComm_t* comm, int ndev, const int* devlist) {
  return guarded([&] { return refused(init_all(comm, ndev, devlist)); });
}

ncclResult_t pncclCommFinalize(ncclComm_t comm) {
  const auto body = [](const std::shared_ptr<Member>& member) { return submit([member] { return finalize(member); }); };
  return refused(with_member("ncclCommFinalize", comm, body));
}

ncclResult_t pncclCommDestroy(ncclComm_t comm) {
  constexpr const char* kName = "ncclCommDestroy";
  if (comm == nullptr) return ncclSuccess;
  const auto end = [comm] {
    return finish(kName, comm, [](Member& member) {
      const ncclResult_t result = member.settle();
      member.end();
      return result;
    });
  };
  return refused(with_member(kName, comm, [&](const std::shared_ptr<Member>&) { return submit(end); }));
}

// Aborts at once, in a group too: what it ends may be what the group would wait for.
ncclResult_t pncclCommAbort(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  return finish("ncclCommAbort", comm, [](Member& member) { return member.abort(); });
}

ncclResult_t pncclCommRevoke(ncclComm_t comm, int revoke_flags) {
  constexpr const char* kName = "ncclCommRevoke";
  return with_member(kName, comm, [&](const std::shared_ptr<Member>& member) {
    if (revoke_flags != NCCL_REVOKE_DEFAULT)
      return bad_argument(kName, "revokeFlags = " + std::to_string(revoke_flags));
    const Use use(member);
    return use.entered() == ncclSuccess ? use->revoke() : use.entered();
  });
}

ncclResult_t pncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* async_error) {
  constexpr const char* kName = "ncclCommGetAsyncError";
  return with_member(kName, comm, [&](const std::shared_ptr<Member>& member) {
    if (async_error == nullptr) return bad_argument(kName, "asyncError = null");
    *async_error = member->asynchronous();
    return ncclSuccess;
  });
}

ncclResult_t pncclCommCount(ncclComm_t comm, int* count) { return tell("ncclCommCount", comm, count, &Member::ranks); }

ncclResult_t pncclCommCuDevice(ncclComm_t comm, int* device) {
  return tell("ncclCommCuDevice", comm, device, &Member::device);
}

ncclResult_t pncclCommUserRank(ncclComm_t comm, int* rank) {
  return tell("ncclCommUserRank", comm, rank, &Member::rank);
}
}

WREATH_NCCL_EXPORT(GetUniqueId);
WREATH_NCCL_EXPORT(CommInitRank);
WREATH_NCCL_EXPORT(CommInitRankConfig);
WREATH_NCCL_EXPORT(CommInitRankScalable);
WREATH_NCCL_EXPORT(CommInitAll);
WREATH_NCCL_EXPORT(CommFinalize);
WREATH_NCCL_EXPORT(CommDestroy);
WREATH_NCCL_EXPORT(CommAbort);
WREATH_NCCL_EXPORT(CommRevoke);
WREATH_NCCL_EXPORT(CommGetAsyncError);
WREATH_NCCL_EXPORT(CommCount);
WREATH_NCCL_EXPORT(CommCuDevice);
WREATH_NCCL_EXPORT(CommUserRank);
