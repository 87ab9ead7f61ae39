// The project's own text, as the style tests read it.
#pragma once

#include <string>
#include <vector>

namespace wreath {

struct SourceFile {
  std::string path;  // relative to the project's root
  std::vector<std::string> lines;
};

// All files below the folders that hold our code with one of these endings (".hpp"), by path.
std::vector<SourceFile> source_files(const std::vector<std::string>& endings);

// One file; fails the test when it cannot be read.
SourceFile source_file(const std::string& path);

// Lines with comments, string and character literals blanked, so that braces and words in them do not count.
std::vector<std::string> code_of(const SourceFile& file);

}  // namespace wreath
