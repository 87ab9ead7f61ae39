// Finds the functions of libfabric: see library.hpp.
#include "transports/ofi/library.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "transports/ofi/newer.hpp"

namespace wreath {

#define WREATH_OFI_LOOK_UP(function) library.look_up("fi_" #function, this->function, missing);

std::string OfiFunctions::look_up(const SharedLibrary& library) {
  std::string missing;
  WREATH_OFI_FUNCTIONS(WREATH_OFI_LOOK_UP)
  return missing;
}

std::string OfiFunctions::explain(std::string_view call, std::int64_t returned) const {
  return fmt::format("{}: {}", call, strerror(static_cast<int>(-returned)));
}

bool is_gone(std::int64_t returned) {
  constexpr std::array<std::int64_t, 4> kGone{FI_EIO, FI_ENODEV, FI_ENETDOWN, FI_EOPBADSTATE};
  return std::ranges::find(kGone, -returned) != kGone.end();
}

Status forbid_cuda(const OfiLibrary& library, fid_ep& endpoint) {
  const bool permitted = false;
  const int rc = fi_setopt(&endpoint.fid, FI_OPT_ENDPOINT, kOfiCudaApiPermitted, &permitted, sizeof permitted);
  if (rc == 0) return {};
  return Error{ErrorCode::Unavailable,
               fmt::format("its endpoint would call CUDA: {}", library.explain("fi_setopt", rc))};
}

}  // namespace wreath
