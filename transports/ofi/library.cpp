// Loads libfabric: see library.hpp.
#include "transports/ofi/library.hpp"

#include <fmt/format.h>

namespace wreath {
namespace {

#define WREATH_OFI_LOOK_UP(function) library.look_up("fi_" #function, functions.function, missing);

// Returns the name of the first function that the library lacks.
std::string look_up_all(const SharedLibrary& library, OfiFunctions& functions) {
  std::string missing;
  WREATH_OFI_FUNCTIONS(WREATH_OFI_LOOK_UP)
  return missing;
}

}  // namespace

Result<std::unique_ptr<OfiLibrary>> OfiLibrary::load(const char* file) {
  auto library = SharedLibrary::open(file);
  if (!library) {
    return Error{ErrorCode::Unavailable,
                 library.error().message + "; install libfabric1, or on AWS the EFA installer's libfabric"};
  }
  std::unique_ptr<OfiLibrary> made(new OfiLibrary(*std::move(library)));
  if (const std::string missing = look_up_all(made->library_, *made); !missing.empty()) {
    return Error{ErrorCode::Unavailable, fmt::format("{} has no {}; install another libfabric", file, missing)};
  }
  return made;
}

std::string OfiLibrary::explain(std::string_view call, std::int64_t returned) const {
  return fmt::format("{}: {}", call, strerror(static_cast<int>(-returned)));
}

}  // namespace wreath
