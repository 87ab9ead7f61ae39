// Reads the source tree, and blanks everything that is not code.
#include "tests/style/source_tree.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace wreath {
namespace {

constexpr const char* kFolders[] = {"include",  "algorithms", "transports", "kernels", "src",  "training",
                                    "bindings", "examples",   "perf",       "tools",   "tests"};

// The part of a file that is being read.
enum class State { Code, LineComment, BlockComment, String, Character, RawString };

struct Blanker {
  State state = State::Code;
  std::string raw_end;  // ")delimiter\""

  std::string line(const std::string& text) {
    std::string out(text.size(), ' ');
    if (state == State::LineComment) state = State::Code;
    for (std::size_t i = 0; i < text.size(); ++i) i = step(text, i, out);
    return out;
  }

  // Handles the character at `i`, and returns the index of the last one that it has used.
  std::size_t step(const std::string& text, std::size_t i, std::string& out) {
    switch (state) {
      case State::Code: return code(text, i, out);
      case State::LineComment: return text.size();
      case State::BlockComment: return ends(text, i, "*/");
      case State::RawString: return ends(text, i, raw_end);
      case State::String: return quoted(text, i, '"');
      case State::Character: return quoted(text, i, '\'');
    }
    return i;
  }

  std::size_t ends(const std::string& text, std::size_t i, const std::string& end) {
    if (text.compare(i, end.size(), end) != 0) return i;
    const std::size_t used = end.size() - 1;
    state = State::Code;
    return i + used;
  }

  std::size_t quoted(const std::string& text, std::size_t i, char end) {
    if (text[i] == '\\') return i + 1;
    if (text[i] == end) state = State::Code;
    return i;
  }

  std::size_t code(const std::string& text, std::size_t i, std::string& out) {
    if (text.compare(i, 2, "//") == 0) {
      state = State::LineComment;
      return text.size();
    }
    if (text.compare(i, 2, "/*") == 0) {
      state = State::BlockComment;
      return i + 1;
    }
    if (text.compare(i, 2, "R\"") == 0) {
      const std::size_t open = text.find('(', i);
      raw_end = ")" + text.substr(i + 2, open - i - 2) + "\"";
      state = State::RawString;
      return open;
    }
    const bool digit_separator = text[i] == '\'' && i > 0 && std::isalnum(static_cast<unsigned char>(text[i - 1])) != 0;
    if (text[i] == '"') {
      state = State::String;
    } else if (text[i] == '\'' && !digit_separator) {
      state = State::Character;
    } else {
      out[i] = text[i];
    }
    return i;
  }
};

}  // namespace

SourceFile source_file(const std::string& path) {
  SourceFile file{path, {}};
  std::ifstream stream(std::string(WREATH_SOURCE_DIR) + "/" + path);
  EXPECT_TRUE(stream) << path << " cannot be read";
  for (std::string line; std::getline(stream, line);) file.lines.push_back(line);
  return file;
}

std::vector<SourceFile> source_files(const std::vector<std::string>& endings) {
  const std::filesystem::path root(WREATH_SOURCE_DIR);
  std::vector<std::string> paths;
  for (const char* folder : kFolders) {
    if (!std::filesystem::is_directory(root / folder)) continue;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
      const std::string path = std::filesystem::relative(entry.path(), root).string();
      const bool wanted =
          std::any_of(endings.begin(), endings.end(), [&](const std::string& e) { return path.ends_with(e); });
      if (wanted && entry.is_regular_file()) paths.push_back(path);
    }
  }
  std::sort(paths.begin(), paths.end());
  std::vector<SourceFile> files;
  for (const std::string& path : paths) files.push_back(source_file(path));
  return files;
}

std::vector<std::string> code_of(const SourceFile& file) {
  Blanker blanker;
  std::vector<std::string> code;
  for (const std::string& line : file.lines) code.push_back(blanker.line(line));
  return code;
}

}  // namespace wreath
