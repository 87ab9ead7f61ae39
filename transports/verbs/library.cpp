// Loads libibverbs: see library.hpp.
#include "transports/verbs/library.hpp"

#include <fmt/format.h>

#include <cstring>
#include <string>

#include "src/base/log.hpp"

namespace wreath {
namespace {

#define WREATH_VERBS_LOOK_UP(function) library.look_up("ibv_" #function, functions.function, missing);

// Returns the name of the first function that the library lacks. A symbol's version is the library's default: 1.0 for
// completion channels, 1.1 or later for the others.
std::string look_up_all(const SharedLibrary& library, VerbsFunctions& functions) {
  std::string missing;
  std::string optional;
  WREATH_VERBS_FUNCTIONS(WREATH_VERBS_LOOK_UP)
  library.look_up("ibv_reg_mr_iova2", functions.reg_mr_iova2, optional);
  library.look_up("_ibv_query_gid_ex", functions.query_gid_ex, optional);
  return missing;
}

}  // namespace

Result<std::unique_ptr<VerbsLibrary>> VerbsLibrary::load(const char* file) {
  auto library = SharedLibrary::open(file);
  if (!library) {
    return Error{ErrorCode::Unavailable,
                 library.error().message + "; install libibverbs1 and ibverbs-providers (rdma-core)"};
  }
  std::unique_ptr<VerbsLibrary> made(new VerbsLibrary(*std::move(library)));
  if (const std::string missing = look_up_all(made->library_, *made); !missing.empty()) {
    return Error{ErrorCode::Unavailable, fmt::format("{} has no {}; install rdma-core 17 or later", file, missing)};
  }
  // Children of a fork then do not take pages away that an adapter uses. Kernels from 5.12 on need nothing for it.
  if (const int error = made->fork_init(); error != 0) {
    log_info("{}: ibv_fork_init: {}: after a fork the parent may lose messages", file, std::strerror(error));
  }
  return made;
}

Result<const VerbsLibrary*> VerbsLibrary::get() { return loaded_once<VerbsLibrary>(); }

}  // namespace wreath
