// Loads libibverbs: see library.hpp.
#include "transports/verbs/library.hpp"

#include <fmt/format.h>

#include <cstring>
#include <mutex>
#include <string>

#include "src/base/log.hpp"

namespace wreath {
namespace {

// A symbol's version is the library's default: 1.0 for completion channels, 1.1 or later for the others.
template <typename Function>
void look_up(const SharedLibrary& library, const char* name, Function*& function, std::string& missing) {
  function = library.find<Function>(name);
  if (function == nullptr && missing.empty()) missing = name;
}

#define WREATH_VERBS_LOOK_UP(function) look_up(library, "ibv_" #function, functions.function, missing);

// Returns the name of the first function that the library lacks.
std::string look_up_all(const SharedLibrary& library, VerbsFunctions& functions) {
  std::string missing;
  std::string optional;
  WREATH_VERBS_FUNCTIONS(WREATH_VERBS_LOOK_UP)
  look_up(library, "ibv_reg_mr_iova2", functions.reg_mr_iova2, optional);
  look_up(library, "_ibv_query_gid_ex", functions.query_gid_ex, optional);
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

Result<const VerbsLibrary*> VerbsLibrary::get() {
  static std::mutex mutex;
  static const VerbsLibrary* loaded = nullptr;
  const std::lock_guard lock(mutex);
  if (loaded == nullptr) {
    auto library = load();
    if (!library) return library.error();
    loaded = library->release();
  }
  return loaded;
}

}  // namespace wreath
