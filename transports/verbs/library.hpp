// Lists the functions of libibverbs.so.1 that are found while the program runs. Nothing links that library. Posting,
// polling and arming go through tables of the device that verbs.h itself calls.
#pragma once

#include <infiniband/verbs.h>

#include <string>

#include "src/base/loaded_library.hpp"

namespace wreath {

// These macros list the functions by the names of verbs.h without `ibv_`.
#define WREATH_VERBS_DEVICES(EACH) \
  EACH(fork_init) EACH(get_device_list) EACH(free_device_list) EACH(open_device) EACH(close_device) EACH(query_device)
#define WREATH_VERBS_DOMAINS(EACH) \
  EACH(query_gid)                  \
  EACH(get_async_event) EACH(ack_async_event) EACH(alloc_pd) EACH(dealloc_pd) EACH(reg_mr) EACH(dereg_mr)
#define WREATH_VERBS_CHANNELS(EACH) EACH(create_comp_channel) EACH(destroy_comp_channel) EACH(get_cq_event)
#define WREATH_VERBS_QUEUES(EACH) \
  EACH(create_cq) EACH(destroy_cq) EACH(ack_cq_events) EACH(create_qp) EACH(modify_qp) EACH(destroy_qp)
#define WREATH_VERBS_FUNCTIONS(EACH) \
  WREATH_VERBS_DEVICES(EACH) WREATH_VERBS_DOMAINS(EACH) WREATH_VERBS_CHANNELS(EACH) WREATH_VERBS_QUEUES(EACH)

#define WREATH_VERBS_MEMBER(function) decltype(::ibv_##function)* function = nullptr;

struct VerbsFunctions {
  static constexpr LibraryNames kNames{"libibverbs.so.1", "libibverbs1 and ibverbs-providers (rdma-core)",
                                       "rdma-core 17 or later"};
  WREATH_VERBS_FUNCTIONS(WREATH_VERBS_MEMBER)
  // Older libraries lack these.
  decltype(::ibv_reg_mr_iova2)* reg_mr_iova2 = nullptr;
  decltype(::ibv_reg_dmabuf_mr)* reg_dmabuf_mr = nullptr;
  decltype(::_ibv_query_gid_ex)* query_gid_ex = nullptr;

  // A symbol's version is the library's default: 1.0 for completion channels, 1.1 or later for the others.
  std::string look_up(const SharedLibrary& library);
};

using VerbsLibrary = LoadedLibrary<VerbsFunctions>;

}  // namespace wreath
