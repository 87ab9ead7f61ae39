// Every algorithm that a file defines has its row in the registry.
#include <gmock/gmock.h>

#include <regex>
#include <string>

#include "tests/style/source_tree.hpp"
#include "wreath/algorithm.hpp"

namespace wreath {
namespace {

bool registry_has(const std::string& row) {
  const std::regex named("ROW\\(" + row + "\\)");
  for (const std::string& line : source_file("algorithms/registry.cpp").lines) {
    if (std::regex_search(line, named)) return true;
  }
  return false;
}

TEST(Algorithms, ThatAreDefinedHaveTheirRows) {
  static const std::regex kDefinition(R"(extern constexpr Algorithm (k\w+))");
  std::size_t defined = 0;
  for (const SourceFile& file : source_files({".cpp"})) {
    if (!file.path.starts_with("algorithms/")) continue;
    for (const std::string& line : file.lines) {
      std::smatch row;
      if (!std::regex_search(line, row, kDefinition)) continue;
      ++defined;
      EXPECT_TRUE(registry_has(row[1].str())) << file.path << ": algorithms/registry.cpp has no ROW(" << row[1] << ")";
    }
  }
  EXPECT_EQ(defined, algorithms().size());
}

}  // namespace
}  // namespace wreath
