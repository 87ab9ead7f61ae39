// Finds the functions of libibverbs: see library.hpp.
#include "transports/verbs/library.hpp"

#include <cstring>

#include "src/base/log.hpp"

namespace wreath {

#define WREATH_VERBS_LOOK_UP(function) library.look_up("ibv_" #function, this->function, missing);

std::string VerbsFunctions::look_up(const SharedLibrary& library) {
  std::string missing;
  std::string optional;
  WREATH_VERBS_FUNCTIONS(WREATH_VERBS_LOOK_UP)
  library.look_up("ibv_reg_mr_iova2", reg_mr_iova2, optional);
  library.look_up("ibv_reg_dmabuf_mr", reg_dmabuf_mr, optional);
  library.look_up("_ibv_query_gid_ex", query_gid_ex, optional);
  if (!missing.empty()) return missing;
  // Children of a fork then do not take pages away that an adapter uses. Kernels from 5.12 on need nothing for it.
  if (const int error = fork_init(); error != 0) {
    log_info("{}: ibv_fork_init: {}: after a fork the parent may lose messages", kNames.file, std::strerror(error));
  }
  return missing;
}

}  // namespace wreath
