// Finds the functions of libfabric: see library.hpp.
#include "transports/ofi/library.hpp"

#include <fmt/format.h>

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

}  // namespace wreath
