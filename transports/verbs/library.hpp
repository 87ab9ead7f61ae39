// Finds the functions of libibverbs.so.1 while the program runs. Nothing links that library. Posting, polling and
// arming go through tables of the device that verbs.h itself calls.
#pragma once

#include <infiniband/verbs.h>

#include "src/base/shared_library.hpp"
#include "wreath/result.hpp"

namespace wreath {

// Lists the functions by the names of verbs.h without `ibv_`.
#define WREATH_VERBS_FUNCTIONS(EACH)                                                                               \
  EACH(fork_init)                                                                                                  \
  EACH(get_device_list)                                                                                            \
  EACH(free_device_list)                                                                                           \
  EACH(open_device)                                                                                                \
  EACH(close_device) EACH(query_device) EACH(query_gid) EACH(get_async_event) EACH(ack_async_event) EACH(alloc_pd) \
      EACH(dealloc_pd) EACH(reg_mr) EACH(dereg_mr) EACH(create_comp_channel) EACH(destroy_comp_channel)            \
          EACH(create_cq) EACH(destroy_cq) EACH(get_cq_event) EACH(ack_cq_events) EACH(create_qp) EACH(modify_qp)  \
              EACH(destroy_qp)

#define WREATH_VERBS_MEMBER(function) decltype(::ibv_##function)* function = nullptr;

struct VerbsFunctions {
  WREATH_VERBS_FUNCTIONS(WREATH_VERBS_MEMBER)
  // Older libraries lack these.
  decltype(::ibv_reg_mr_iova2)* reg_mr_iova2 = nullptr;
  decltype(::_ibv_query_gid_ex)* query_gid_ex = nullptr;
};

class VerbsLibrary : public VerbsFunctions {
 public:
  // Loads `file`. Unavailable says what is missing, and the way to install it.
  static Result<std::unique_ptr<VerbsLibrary>> load(const char* file = "libibverbs.so.1");
  // Returns the process's library, which is loaded once and stays: its drivers cannot be unloaded.
  static Result<const VerbsLibrary*> get();

 private:
  explicit VerbsLibrary(SharedLibrary library) : library_(std::move(library)) {}

  SharedLibrary library_;
};

}  // namespace wreath
