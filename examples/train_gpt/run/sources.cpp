// This file reads the project's sources as one text.
#include "examples/train_gpt/run/sources.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

namespace wreath::gpt {

Result<std::string> project_sources(const std::string& folder) {
  std::vector<std::filesystem::path> paths;
  for (const char* part : {"include", "algorithms", "src", "transports"}) {
    std::error_code failed;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder + "/" + part, failed)) {
      const std::string ending = entry.path().extension().string();
      if (ending == ".cpp" || ending == ".hpp") paths.push_back(entry.path());
    }
  }
  if (paths.empty()) {
    return Error{ErrorCode::Unavailable,
                 folder + ": the sources to train on are not there any more; give a text by --data FILE"};
  }
  std::sort(paths.begin(), paths.end());
  std::string text;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    text.append(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return text;
}

}  // namespace wreath::gpt
