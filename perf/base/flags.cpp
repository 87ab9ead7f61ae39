// Checks the values of flags.
#include "perf/base/flags.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "perf/base/sizes.hpp"
#include "wreath/transport.hpp"

namespace wreath::perf {

std::string check_transport(const std::string& value) {
  const std::vector<std::string_view> known = transport_names();
  if (std::find(known.begin(), known.end(), value) != known.end()) return {};
  return fmt::format("'{}' is unknown; known are {}", value, fmt::join(known, ", "));
}

std::string check_output_file(const std::string& path) {
  const bool existed = access(path.c_str(), F_OK) == 0;
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor < 0) return fmt::format("{} cannot be written: {}", path, std::strerror(errno));
  close(descriptor);
  if (!existed) unlink(path.c_str());
  return {};
}

std::string check_size(const std::string& value) {
  if (parse_size(value)) return {};
  return fmt::format("'{}' is not a size; a size is a number and K, M, G or T, such as 64K", value);
}

}  // namespace wreath::perf
