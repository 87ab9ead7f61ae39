// The few functions of NCCL that a comparison calls. The library is found while the program runs.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "wreath/result.hpp"
#include "wreath/types.hpp"

namespace wreath::perf {

struct NcclId {
  char internal[128];
};

class Nccl {
 public:
  // Finds the library `named`, or where that is empty the first one of the usual places. Unavailable says what was
  // found instead: nothing, a version that allows only one rank for each GPU, or this project's own libnccl.so.2.
  static Result<std::unique_ptr<Nccl>> find(const std::string& named);
  Nccl(const Nccl&) = delete;
  Nccl& operator=(const Nccl&) = delete;
  ~Nccl() = default;  // the library stays loaded

  const std::string& path() const { return path_; }
  std::string version() const;  // "2.30.7"

  Result<NcclId> make_id() const;
  // Creates a communicator. All ranks call it, each in a thread with a current context. The result is for all_reduce
  // and destroy.
  Result<void*> join(int ranks, const NcclId& id, int rank) const;
  Status all_reduce(const void* input, void* output, std::size_t count, DataType dtype, void* communicator,
                    void* stream) const;
  void destroy(void* communicator) const;

 private:
  Nccl() = default;
  static Result<std::unique_ptr<Nccl>> open(const std::string& path);
  Status check(const char* call, int code) const;

  std::string path_;
  int version_ = 0;
  int (*get_version_)(int*) = nullptr;
  int (*get_unique_id_)(NcclId*) = nullptr;
  int (*comm_init_rank_)(void**, int, NcclId, int) = nullptr;
  int (*comm_destroy_)(void*) = nullptr;
  int (*all_reduce_)(const void*, void*, std::size_t, int dtype, int op, void*, void*) = nullptr;
  const char* (*get_error_string_)(int) = nullptr;
};

}  // namespace wreath::perf
