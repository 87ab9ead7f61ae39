// PATH first, then CUDA's folders, the newest first.
#include "perf/gpu_check/find.hpp"

#include <glob.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string_view>
#include <vector>

namespace wreath::perf {
namespace {

constexpr std::array kPlaces{"/usr/local/cuda/bin/compute-sanitizer",
                             "/usr/local/cuda*/bin/compute-sanitizer",
                             "/usr/local/cuda*/compute-sanitizer/compute-sanitizer",
                             "/opt/cuda*/bin/compute-sanitizer",
                             "/opt/cuda*/extras/compute-sanitizer/compute-sanitizer",
                             "/usr/lib/nvidia-cuda-toolkit/compute-sanitizer/compute-sanitizer"};

std::vector<std::string> in_path() {
  std::vector<std::string> files;
  const char* const path = std::getenv("PATH");
  for (std::string_view rest = path == nullptr ? "" : path; !rest.empty();) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    if (end > 0) files.push_back(std::string(rest.substr(0, end)) + "/compute-sanitizer");
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return files;
}

std::vector<std::string> in_folders() {
  std::vector<std::string> files;
  for (const char* const pattern : kPlaces) {
    glob_t matches{};
    if (::glob(pattern, 0, nullptr, &matches) == 0) {
      for (std::size_t i = matches.gl_pathc; i > 0; --i) files.emplace_back(matches.gl_pathv[i - 1]);
    }
    ::globfree(&matches);
  }
  return files;
}

}  // namespace

std::string find_sanitizer(const std::string& named) {
  std::vector<std::string> files{named};
  if (named.empty()) {
    files = in_path();
    for (std::string& each : in_folders()) files.push_back(std::move(each));
  }
  for (const std::string& each : files) {
    if (::access(each.c_str(), X_OK) == 0) return each;
  }
  return {};
}

}  // namespace wreath::perf
