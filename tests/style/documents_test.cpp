// The documents agree with the tree: docs/algorithms.md is the registry's table, README.md counts the rows of tables,
// and the paths that documents name exist.
#include <gmock/gmock.h>

#include <filesystem>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/style/source_tree.hpp"
#include "wreath/algorithm.hpp"
#include "wreath/plan.hpp"
#include "wreath/types.hpp"

namespace wreath {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t first = 0; first < text.size();) {
    const std::size_t end = text.find('\n', first);
    lines.push_back(text.substr(first, end - first));
    first = end == std::string::npos ? text.size() : end + 1;
  }
  return lines;
}

TEST(Documents, HaveTheAlgorithmsThatTheRegistryHas) {
  EXPECT_THAT(source_file("docs/algorithms.md").lines,
              testing::ElementsAreArray(lines_of(cost_table(TableStyle::Markdown))))
      << "write it again: cmake --build build/dev --target documents";
}

// Returns each number that README.md writes before those words.
std::vector<std::size_t> numbers_of(const std::string& words) {
  const std::regex number("(\\d+) " + words + "\\b");
  std::vector<std::size_t> numbers;
  for (const std::string& line : source_file("README.md").lines) {
    for (std::sregex_iterator found(line.begin(), line.end(), number), end; found != end; ++found) {
      numbers.push_back(std::stoul((*found)[1].str()));
    }
  }
  return numbers;
}

TEST(Documents, CountWhatTheTablesHave) {
  const auto all_are = [](std::size_t rows) { return testing::AllOf(testing::SizeIs(1), testing::Each(rows)); };
  EXPECT_THAT(numbers_of("algorithms"), all_are(algorithms().size()));
  EXPECT_THAT(numbers_of("data types"), all_are(all_dtypes().size()));
  EXPECT_THAT(numbers_of("operators"), all_are(all_ops().size()));
}

std::vector<std::string> documents() {
  const std::filesystem::path root(WREATH_SOURCE_DIR);
  std::vector<std::string> paths{"README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"};
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root / "docs")) {
    if (entry.path().extension() == ".md") paths.push_back(std::filesystem::relative(entry.path(), root).string());
  }
  return paths;
}

// Returns the files and folders of this tree in a line of text. For "tests/unit/NAME" and "docs/*.md" it returns the
// part that is a path.
std::vector<std::string> paths_in(const std::string& line) {
  static const std::regex kPath(
      "`((include|algorithms|transports|kernels|src|bindings|training|perf|tools|examples|tests|docs|cmake)/[a-z0-9_./"
      "-]*)");
  std::vector<std::string> paths;
  for (std::sregex_iterator found(line.begin(), line.end(), kPath), end; found != end; ++found) {
    const std::string path = (*found)[1].str();
    const char next = line[static_cast<std::size_t>(found->position() + found->length())];
    paths.push_back(next == '`' ? path : path.substr(0, path.rfind('/')));
  }
  return paths;
}

TEST(Documents, NamePathsThatExist) {
  std::size_t named = 0;
  for (const std::string& document : documents()) {
    const SourceFile file = source_file(document);
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      for (const std::string& path : paths_in(file.lines[i])) {
        ++named;
        EXPECT_TRUE(std::filesystem::exists(std::filesystem::path(WREATH_SOURCE_DIR) / path))
            << document << ":" << i + 1 << " names " << path;
      }
    }
  }
  EXPECT_GT(named, 50u);
}

// An entry of ctest has the name AREA_FOLDER, for the folder tests/AREA/FOLDER.
TEST(PlantedFaults, AreGivenToTestsThatExist) {
  static const std::regex kFault(R"(^ *\d+ \|.*\| ([^|]*)$)");
  std::size_t checks = 0;
  for (const std::string& line : source_file("tests/planted_faults/faults.txt").lines) {
    std::smatch row;
    if (!std::regex_match(line, row, kFault)) continue;
    std::istringstream words(row[1].str());
    for (std::string check; words >> check; ++checks) {
      std::string folder = check.substr(0, check.find(':'));
      if (const std::size_t area = folder.find('_'); area != std::string::npos) folder[area] = '/';
      EXPECT_TRUE(std::filesystem::exists(std::filesystem::path(WREATH_SOURCE_DIR) / "tests" / folder))
          << "no tests/" << folder << ": " << line;
    }
  }
  EXPECT_GE(checks, 20u);
}

}  // namespace
}  // namespace wreath
