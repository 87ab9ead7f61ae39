// Sets up the surroundings of a test and removes them at its end: a folder, environment variables.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace wreath::test {

// A folder that is removed at the end.
class Folder {
 public:
  Folder() : Folder((std::filesystem::temp_directory_path() / "wreath-test-").string()) {}
  // Makes a folder whose path begins with `stem`.
  explicit Folder(const std::string& stem) {
    std::string pattern = stem + "XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no folder can be made of " + pattern);
    path_ = pattern;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Sets environment variables (empty: unsets them) and puts the old ones back.
class Environment {
 public:
  explicit Environment(const std::vector<std::pair<std::string, std::string>>& variables) {
    for (const auto& [name, value] : variables) {
      const char* old = ::getenv(name.c_str());
      old_.emplace_back(name, old == nullptr ? std::string() : std::string(old));
      set(name, value);
    }
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment() {
    for (auto it = old_.rbegin(); it != old_.rend(); ++it) set(it->first, it->second);
  }

 private:
  static void set(const std::string& name, const std::string& value) {
    if (value.empty()) {
      ::unsetenv(name.c_str());
    } else {
      ::setenv(name.c_str(), value.c_str(), 1);
    }
  }
  std::vector<std::pair<std::string, std::string>> old_;
};

// Keeps recordings of communicators that fail in a folder of their own.
struct RecordingsFolder {
  Folder folder;
  Environment environment{{{"WREATH_RECORDER_DIR", folder.path()}}};
};

}  // namespace wreath::test
