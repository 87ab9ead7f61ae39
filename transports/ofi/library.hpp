// Lists the functions of libfabric.so.1 that are found while the program runs. Nothing links that library. All others
// are reached through tables of the objects, by inline functions of its headers.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include <string>
#include <string_view>

#include "src/base/loaded_library.hpp"

namespace wreath {

// Lists the functions by the names of fabric.h without `fi_`.
#define WREATH_OFI_FUNCTIONS(EACH) EACH(version) EACH(getinfo) EACH(freeinfo) EACH(dupinfo) EACH(fabric) EACH(strerror)

#define WREATH_OFI_MEMBER(function) decltype(::fi_##function)* function = nullptr;

struct OfiFunctions {
  static constexpr LibraryNames kNames{"libfabric.so.1", "libfabric1, or on AWS the EFA installer's libfabric",
                                       "another libfabric"};
  WREATH_OFI_FUNCTIONS(WREATH_OFI_MEMBER)

  std::string look_up(const SharedLibrary& library);
  // Explains what a call returned, which is below 0: "fi_enable: No data available".
  std::string explain(std::string_view call, std::int64_t returned) const;
};

// Returns whether a call failed because the adapter is gone.
bool is_gone(std::int64_t returned);

using OfiLibrary = LoadedLibrary<OfiFunctions>;

// Keeps an endpoint from calling CUDA, which may wait for a kernel that waits for a message. Returns why it cannot.
Status forbid_cuda(const OfiLibrary& library, fid_ep& endpoint);

}  // namespace wreath
