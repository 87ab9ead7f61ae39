// Runs MPI under the perf tools' own loop. Each MPI has a program of its own from this file.
// Run it as: mpirun -n 2 peer_openmpi4 all_reduce_perf --sizes 8,64K --json FILE
#include <mpi.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "perf/common/collectives.hpp"
#include "perf/common/run.hpp"

namespace wreath::perf {
namespace {

std::optional<MPI_Datatype> type_of(DataType dtype) {
  switch (dtype) {
    case DataType::Int8: return MPI_INT8_T;
    case DataType::Uint8: return MPI_UINT8_T;
    case DataType::Int32: return MPI_INT32_T;
    case DataType::Int64: return MPI_INT64_T;
    case DataType::Float32: return MPI_FLOAT;
    case DataType::Float64: return MPI_DOUBLE;
    default: return std::nullopt;
  }
}

Status check(int code, std::string_view what) {
  if (code == MPI_SUCCESS) return {};
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  return Error{ErrorCode::System, std::string(what) + ": " + std::string(text, static_cast<std::size_t>(length))};
}

class MpiMember final : public Member {
 public:
  MpiMember() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  }
  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  Status run(const Call& call) override;
  Status exchange(std::span<const Transfer> transfers, DataType dtype) override;
  std::string plan_for(Collective, std::size_t) const override {
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(text, &length);
    std::string version(text, std::strcspn(text, ",\n"));
    std::replace(version.begin(), version.end(), '\t', ' ');
    return version;
  }

 private:
  Status broadcast(const Call& call, MPI_Datatype type, int count) const;

  int rank_ = 0;
  int ranks_ = 1;
};

// Broadcasts in MPI's one buffer. The root's input is copied to its output, as the other libraries do.
Status MpiMember::broadcast(const Call& call, MPI_Datatype type, int count) const {
  if (rank_ == call.root && call.input != call.output) {
    std::memcpy(call.output, call.input, call.count * size_of(call.dtype));
  }
  return check(MPI_Bcast(call.output, count, type, call.root, MPI_COMM_WORLD), "MPI_Bcast");
}

Status MpiMember::run(const Call& call) {
  const auto type = type_of(call.dtype);
  const bool sums = call.reduction.op == ReduceOp::Sum;
  if (!type || (reduces(call.collective) && !sums)) {
    return Error{ErrorCode::Unavailable, "MPI: only sums, and of types that MPI has"};
  }
  const int count = static_cast<int>(call.count);
  const auto* own_block = call.output + static_cast<std::size_t>(rank_) * call.count * size_of(call.dtype);
  const MPI_Comm world = MPI_COMM_WORLD;
  switch (call.collective) {
    case Collective::AllReduce: {
      const void* from = call.input == call.output ? MPI_IN_PLACE : call.input;
      return check(MPI_Allreduce(from, call.output, count, *type, MPI_SUM, world), "MPI_Allreduce");
    }
    case Collective::ReduceScatter:
      return check(MPI_Reduce_scatter_block(call.input, call.output, count, *type, MPI_SUM, world),
                   "MPI_Reduce_scatter_block");
    case Collective::AllGather: {
      const void* from = call.input == own_block ? MPI_IN_PLACE : call.input;
      return check(MPI_Allgather(from, count, *type, call.output, count, *type, world), "MPI_Allgather");
    }
    case Collective::Broadcast: return broadcast(call, *type, count);
    case Collective::AllToAll:
      return check(MPI_Alltoall(call.input, count, *type, call.output, count, *type, world), "MPI_Alltoall");
    case Collective::Barrier: return check(MPI_Barrier(world), "MPI_Barrier");
    default: return Error{ErrorCode::Unavailable, "MPI: this collective is not compared"};
  }
}

Status MpiMember::exchange(std::span<const Transfer> transfers, DataType dtype) {
  const auto type = type_of(dtype);
  if (!type || transfers.size() != 2) return Error{ErrorCode::Unavailable, "MPI: only one send with one recv"};
  const Transfer& send = transfers[0];
  const Transfer& receive = transfers[1];
  return check(MPI_Sendrecv(send.data, static_cast<int>(send.count), *type, send.to, 0, receive.data,
                            static_cast<int>(receive.count), *type, receive.from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
               "MPI_Sendrecv");
}

}  // namespace
}  // namespace wreath::perf

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int code = 2;
  if (argc >= 2) {
    wreath::perf::MpiMember member;
    code = wreath::perf::run_peer(member, "MPI", std::vector<std::string>(argv + 1, argv + argc));
  }
  if (code != 0) MPI_Abort(MPI_COMM_WORLD, code);
  MPI_Finalize();
  return code;
}
