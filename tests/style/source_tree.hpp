// Reads the project's own text for the style tests.
#pragma once

#include <string>
#include <vector>

namespace wreath {

struct SourceFile {
  std::string path;  // relative to the project's root
  std::vector<std::string> lines;
};

// Returns all files with one of these endings (".hpp") below the folders that hold code, by path.
std::vector<SourceFile> source_files(const std::vector<std::string>& endings);

// Returns one file. Fails the test if the file cannot be read.
SourceFile source_file(const std::string& path);

// Returns the lines with comments, string and character literals blanked, so that braces and words in them do not
// count.
std::vector<std::string> code_of(const SourceFile& file);

}  // namespace wreath
