// A dtype stands in few places: the library's table, and one table of each binding.
#include <gmock/gmock.h>

#include <algorithm>
#include <cctype>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "tests/style/source_tree.hpp"
#include "wreath/types.hpp"

namespace wreath {
namespace {

// The tables of the library and of the bindings for C, Python and torch, which have every dtype.
const std::vector<std::string> kTables = {"include/wreath/dtypes.hpp", "include/wreath/wreath.h",
                                          "bindings/python/wreath/_dtypes.py", "bindings/torch/elements.cpp"};
// These files may name a dtype: the tables of NCCL's binding have those that NCCL has, and some files compute with
// dtypes that they choose.
const std::vector<std::string> kMayName = {"bindings/nccl/nccl.h", "bindings/nccl/operators.cpp",
                                           "training/tensor_parallel/linear.cpp"};

std::string plain(std::string_view text) {
  std::string plain;
  for (const char c : text) {
    if (c != '_') plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return plain;
}

// Returns whether a plain line has the whole word, or the word behind a prefix of the names of C, NCCL or constants:
// uint16 and int16t are other words than int16, and wreathint16 is the same.
bool has_word(const std::string& line, const std::string& word) {
  const auto is_part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  for (std::size_t at = line.find(word); at != std::string::npos; at = line.find(word, at + 1)) {
    std::size_t begin = at;
    while (begin > 0 && is_part(line[begin - 1])) --begin;
    const std::string prefix = line.substr(begin, at - begin);
    const bool begins = prefix.empty() || prefix == "wreath" || prefix == "nccl" || prefix == "k";
    const std::size_t end = at + word.size();
    if (begins && (end == line.size() || !is_part(line[end]))) return true;
  }
  return false;
}

// Returns the files of the product that name the dtype, in any spelling.
std::vector<std::string> files_that_name(DataType dtype) {
  const std::string wanted = plain(name(dtype));
  std::vector<std::string> found;
  for (const SourceFile& file : source_files({".c", ".h", ".cpp", ".hpp", ".cu", ".cuh", ".py"})) {
    if (file.path.starts_with("tests/")) continue;
    const bool names = std::any_of(file.lines.begin(), file.lines.end(),
                                   [&](const std::string& line) { return has_word(plain(line), wanted); });
    if (names) found.push_back(file.path);
  }
  return found;
}

TEST(Dtypes, AreFoundAsWholeWords) {
  for (const char* line :
       {"int16", "DataType::Int16,", "  WREATH_INT16,", "ncclInt16 = 3", "kInt16{", "uint16 or int_16"}) {
    EXPECT_TRUE(has_word(plain(line), "int16")) << line;
  }
  for (const char* line : {"uint16", "std::int16_t", "int160", "rint16", "int 16"}) {
    EXPECT_FALSE(has_word(plain(line), "int16")) << line;
  }
}

TEST(Dtypes, TheNewestStandsInTablesAlone) {
  std::vector<std::string> may = kTables;
  may.insert(may.end(), kMayName.begin(), kMayName.end());
  const std::vector<std::string> found = files_that_name(all_dtypes().back());
  EXPECT_THAT(found, testing::IsSubsetOf(may)) << "see docs/adding-a-dtype.md";
  EXPECT_THAT(found, testing::IsSupersetOf(kTables));
}

// Returns the first group of each match of `row`. The lines searched begin after the one that holds `begin`, and end
// before the next that begins with `end`.
std::vector<std::string> rows_of(const std::string& path, std::string_view begin, char end, const std::regex& row) {
  std::vector<std::string> rows;
  bool inside = false;
  for (const std::string& line : source_file(path).lines) {
    std::smatch match;
    if (inside && line.starts_with(end)) break;
    if (inside && std::regex_search(line, match, row)) rows.push_back(match[1].str());
    inside = inside || line.find(begin) != std::string::npos;
  }
  return rows;
}

TEST(Dtypes, OfCAreThoseOfTheLibraryInItsOrder) {
  static const std::regex kEnumerator("WREATH_([A-Z0-9_]+)");
  std::vector<std::string> names;
  for (const DataType dtype : all_dtypes()) names.push_back(plain(name(dtype)));
  names.emplace_back("dtypecount");
  std::vector<std::string> rows = rows_of("include/wreath/wreath.h", "enum wreath_dtype {", '}', kEnumerator);
  std::transform(rows.begin(), rows.end(), rows.begin(), plain);
  EXPECT_EQ(rows, names);
}

// Python has numpy's names, which are the library's or longer: float8_e4m3fn.
TEST(Dtypes, OfPythonAreThoseOfTheLibraryInItsOrder) {
  static const std::regex kRow("\\(\"([a-z0-9_]+)\", ");
  const std::vector<std::string> rows = rows_of("bindings/python/wreath/_dtypes.py", "_ROWS = (", ')', kRow);
  ASSERT_EQ(rows.size(), all_dtypes().size());
  for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_TRUE(rows[i].starts_with(name(all_dtypes()[i]))) << rows[i];
}

}  // namespace
}  // namespace wreath
