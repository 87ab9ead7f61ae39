// Returns the version of the project.
#include "src/base/version.hpp"

namespace wreath {

std::string_view library_version() { return WREATH_VERSION; }

}  // namespace wreath
