// The documents agree with the tree: docs/algorithms.md is the registry's table, README.md counts the rows of tables,
// and the paths that documents name exist.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
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

// A row of tests/planted_faults/faults.txt. Its checks are ENTRY or ENTRY:FILTER.
struct PlantedFault {
  std::string number;
  std::string file;
  std::vector<std::string> checks;
};

std::vector<PlantedFault> planted_faults() {
  static const std::regex kRow(R"(^ *(\d+) \| *\w+ *\| *(\S+) *\|.*\| ([^|]*)$)");
  std::vector<PlantedFault> faults;
  for (const std::string& line : source_file("tests/planted_faults/faults.txt").lines) {
    std::smatch row;
    if (!std::regex_match(line, row, kRow)) continue;
    std::istringstream words(row[3].str());
    faults.push_back({row[1].str(), row[2].str(), {std::istream_iterator<std::string>(words), {}}});
  }
  return faults;
}

// Returns the names of the tests of a folder, as SUITE.TEST, and the words that may name a parameter: words in quotes,
// and the table of algorithms.
std::vector<std::string> tests_in(const std::string& folder) {
  static const std::regex kTest(R"(TEST(?:_F|_P)?\((\w+), (\w+)\))");
  static const std::regex kWord("\"(\\w+)\"");
  std::vector<std::string> names;
  for (const SourceFile& file : source_files({".cpp"})) {
    if (!file.path.starts_with(folder + "/")) continue;
    for (const std::string& line : file.lines) {
      std::smatch found;
      if (std::regex_search(line, found, kTest)) names.push_back(found[1].str() + "." + found[2].str());
      if (std::regex_search(line, found, kWord)) names.push_back(found[1].str());
    }
  }
  for (const Algorithm& row : algorithms()) names.emplace_back(row.name);
  return names;
}

// Returns whether a name has the text of a pattern such as *Agreement* or Checkpoint.*.
bool names_a_test(std::string pattern, const std::vector<std::string>& names) {
  std::erase(pattern, '*');
  return std::ranges::any_of(names, [&](const std::string& name) { return name.find(pattern) != std::string::npos; });
}

// An entry of ctest has the name AREA_FOLDER, for the folder tests/AREA/FOLDER.
TEST(PlantedFaults, AreGivenToTestsThatExist) {
  std::size_t checks = 0;
  for (const PlantedFault& fault : planted_faults()) {
    for (const std::string& check : fault.checks) {
      ++checks;
      std::istringstream parts(check);
      std::string folder;
      std::getline(parts, folder, ':');
      if (const std::size_t area = folder.find('_'); area != std::string::npos) folder[area] = '/';
      folder = "tests/" + folder;
      EXPECT_TRUE(std::filesystem::exists(std::filesystem::path(WREATH_SOURCE_DIR) / folder))
          << "fault " << fault.number << ": no " << folder;
      const std::vector<std::string> names = tests_in(folder);
      for (std::string pattern; std::getline(parts, pattern, ':');) {
        EXPECT_TRUE(names_a_test(pattern, names))
            << "fault " << fault.number << ": " << folder << " has no " << pattern;
      }
    }
  }
  EXPECT_GE(checks, 20u);
}

TEST(PlantedFaults, StandInTheFilesThatTheTableNames) {
  const std::vector<PlantedFault> faults = planted_faults();
  for (const PlantedFault& fault : faults) {
    const std::string planted = "planted_fault(" + fault.number + ")";
    const std::vector<std::string> lines = source_file(fault.file).lines;
    EXPECT_TRUE(
        std::ranges::any_of(lines, [&](const std::string& line) { return line.find(planted) != std::string::npos; }))
        << fault.file << " has no " << planted;
  }
  EXPECT_GE(faults.size(), 20u);
}

}  // namespace
}  // namespace wreath
