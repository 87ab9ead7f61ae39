// Implements collectives and messages. Arguments are checked here, so that a mistake harms its own call alone.
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "bindings/nccl/errors.hpp"
#include "bindings/nccl/group.hpp"

namespace wreath::nccl {
namespace {

struct Arguments {
  const char* function;
  const void* input;
  void* output;
  std::size_t count;
  ncclDataType_t datatype;
  ncclComm_t comm;
  cudaStream_t stream;
  std::optional<ncclRedOp_t> op = {};
  // Holds the root, or the peer of a message.
  std::optional<int> root = {};
};

Error invalid(std::string text) { return {ErrorCode::InvalidArgument, std::move(text), -1}; }

// Says whether this rank reads the input, and whether it writes the output.
struct Uses {
  bool input = true;
  bool output = true;
};

Uses uses_of(const Request& request) {
  if (request.kind == Request::Kind::Send) return {true, false};
  if (request.kind == Request::Kind::Receive) return {false, true};
  const bool at_root = request.call.root == request.member->rank();
  switch (request.call.collective) {
    case Collective::Broadcast:
    case Collective::Scatter: return {at_root, true};
    case Collective::Reduce:
    case Collective::Gather: return {true, at_root};
    default: return {};
  }
}

Status check_buffers(const Request& request, const Uses& uses) {
  const Call& call = request.call;
  const auto ranks = static_cast<std::size_t>(request.member->ranks());
  if (call.count > std::numeric_limits<std::size_t>::max() / size_of(call.dtype) / ranks)
    return invalid("count = " + std::to_string(call.count));
  if (call.count > 0 && uses.input && call.input == nullptr) return invalid("sendbuff = null");
  if (call.count > 0 && uses.output && call.output == nullptr) return invalid("recvbuff = null");
  const bool in_place = call.input == call.output && call.count > 0;
  if (call.collective == Collective::AllToAll && in_place && ranks > 1) return invalid("sendbuff = recvbuff");
  return {};
}

// Chooses a call's stream. Calls on a device's memory, or with a stream, are of that stream. Calls on host memory with
// a null stream are done on return.
Status choose_stream(Request& request, const Arguments& arguments) {
  Call& call = request.call;
  Device* device = device_of_memory(call.input);
  if (device == nullptr) device = device_of_memory(call.output);
  if (device == nullptr && arguments.stream == nullptr) return {};
  if (device == nullptr) device = request.member->cuda();
  if (device == nullptr) return invalid("stream is not null, but this rank has no CUDA device");
  const auto stream = request.member->stream(*device, arguments.stream);
  if (!stream) return stream.error();
  call.stream = *stream;
  return {};
}

Status fill(Request& request, const Arguments& arguments) {
  Call& call = request.call;
  const auto dtype = dtype_of(arguments.datatype);
  if (!dtype) return invalid("datatype = " + std::to_string(arguments.datatype));
  call.dtype = *dtype;
  call.count = arguments.count;
  call.root = arguments.root.value_or(0);
  if (call.root < 0 || call.root >= request.member->ranks())
    return invalid((request.kind == Request::Kind::Collective ? "root = " : "peer = ") + std::to_string(call.root));
  if (arguments.op) {
    const auto reduction = request.member->operators().reduction(*arguments.op, call.dtype);
    if (!reduction) return reduction.error();
    call.reduction = *reduction;
  }
  call.input = static_cast<const std::byte*>(arguments.input);
  call.output = static_cast<std::byte*>(arguments.output);
  const Uses uses = uses_of(request);
  WREATH_TRY(check_buffers(request, uses));
  if (!uses.input) call.input = nullptr;
  if (!uses.output) call.output = nullptr;
  return choose_stream(request, arguments);
}

ncclResult_t run(const Arguments& arguments, Request::Kind kind, Collective collective) noexcept {
  return guarded([&]() -> ncclResult_t {
    if (arguments.comm == nullptr) return refused(bad_argument(arguments.function, "comm = null"));
    Request request{members().find(arguments.comm), kind, {}};
    if (request.member == nullptr)
      return refused(bad_argument(arguments.function, "comm is no communicator, or no longer one"));
    if (request.member->ranks() == 0) return refused(refuse(ncclInvalidUsage, "the communicator is still being made"));
    request.call.collective = collective;
    if (const Status filled = fill(request, arguments); !filled)
      return refused(bad_argument(arguments.function, filled.error().message));
    if (kind != Request::Kind::Collective && request.call.root == request.member->rank() && !in_group())
      return refuse(ncclInvalidUsage,
                    std::string(arguments.function) + ": to and from itself a rank moves data in a group");
    return submit(std::move(request));
  });
}

ncclResult_t run(const Arguments& arguments, Collective collective) noexcept {
  return run(arguments, Request::Kind::Collective, collective);
}

}  // namespace
}  // namespace wreath::nccl

using namespace wreath;        // NOLINT(google-build-using-namespace)
using namespace wreath::nccl;  // NOLINT(google-build-using-namespace)

// NOLINTBEGIN(readability-function-size): the parameters are NCCL's.
extern "C" {

ncclResult_t pncclAllReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                            ncclComm_t comm, cudaStream_t stream) {
  return run({"ncclAllReduce", sendbuff, recvbuff, count, datatype, comm, stream, op}, Collective::AllReduce);
}

ncclResult_t pncclReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                         int root, ncclComm_t comm, cudaStream_t stream) {
  return run({"ncclReduce", sendbuff, recvbuff, count, datatype, comm, stream, op, root}, Collective::Reduce);
}

ncclResult_t pncclBroadcast(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                            ncclComm_t comm, cudaStream_t stream) {
  return run({"ncclBroadcast", sendbuff, recvbuff, count, datatype, comm, stream, {}, root}, Collective::Broadcast);
}

ncclResult_t pncclBcast(void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                        cudaStream_t stream) {
  return run({"ncclBcast", buff, buff, count, datatype, comm, stream, {}, root}, Collective::Broadcast);
}

ncclResult_t pncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype,
                                ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return run({"ncclReduceScatter", sendbuff, recvbuff, recvcount, datatype, comm, stream, op},
             Collective::ReduceScatter);
}

ncclResult_t pncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype,
                            ncclComm_t comm, cudaStream_t stream) {
  return run({"ncclAllGather", sendbuff, recvbuff, sendcount, datatype, comm, stream}, Collective::AllGather);
}

ncclResult_t pncclAlltoAll(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclComm_t comm,
                           cudaStream_t stream) {
  return run({"ncclAlltoAll", sendbuff, recvbuff, count, datatype, comm, stream}, Collective::AllToAll);
}

ncclResult_t pncclGather(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                         ncclComm_t comm, cudaStream_t stream) {
  return run({"ncclGather", sendbuff, recvbuff, count, datatype, comm, stream, {}, root}, Collective::Gather);
}

ncclResult_t pncclScatter(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                          ncclComm_t comm, cudaStream_t stream) {
  return run({"ncclScatter", sendbuff, recvbuff, count, datatype, comm, stream, {}, root}, Collective::Scatter);
}

ncclResult_t pncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                       cudaStream_t stream) {
  return run({"ncclSend", sendbuff, nullptr, count, datatype, comm, stream, {}, peer}, Request::Kind::Send,
             Collective::Exchange);
}

ncclResult_t pncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                       cudaStream_t stream) {
  return run({"ncclRecv", nullptr, recvbuff, count, datatype, comm, stream, {}, peer}, Request::Kind::Receive,
             Collective::Exchange);
}
}
// NOLINTEND(readability-function-size)

WREATH_NCCL_EXPORT(AllReduce);
WREATH_NCCL_EXPORT(Reduce);
WREATH_NCCL_EXPORT(Broadcast);
WREATH_NCCL_EXPORT(Bcast);
WREATH_NCCL_EXPORT(ReduceScatter);
WREATH_NCCL_EXPORT(AllGather);
WREATH_NCCL_EXPORT(AlltoAll);
WREATH_NCCL_EXPORT(Gather);
WREATH_NCCL_EXPORT(Scatter);
WREATH_NCCL_EXPORT(Send);
WREATH_NCCL_EXPORT(Recv);
