// docs/formats.md and src/base/config.hpp agree about every environment variable.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "src/base/config.hpp"
#include "tests/style/source_tree.hpp"

namespace wreath {
namespace {

std::string row_text(const SettingRow& row) {
  return fmt::format("| `{}` | {} | {} |", row.name, row.fallback.empty() ? "" : fmt::format("`{}`", row.fallback),
                     row.meaning);
}

TEST(Settings, StandInTheDocumentsWordForWord) {
  const SourceFile formats = source_file("docs/formats.md");
  for (const SettingRow& row : kSettings) {
    EXPECT_NE(std::find(formats.lines.begin(), formats.lines.end(), row_text(row)), formats.lines.end())
        << "docs/formats.md lacks the line\n"
        << row_text(row);
  }
}

TEST(Settings, AreAllThatTheDocumentsName) {
  std::set<std::string> known;
  for (const SettingRow& row : kSettings) known.insert(fmt::format("| `{}` ", row.name));
  for (const std::string& line : source_file("docs/formats.md").lines) {
    if (!line.starts_with("| `WREATH_")) continue;
    EXPECT_TRUE(known.contains(line.substr(0, line.find('|', 2)))) << line;
  }
}

TEST(Settings, AreNamedOnceAndMeantInOneLine) {
  std::set<std::string_view> names;
  for (const SettingRow& row : kSettings) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_FALSE(row.meaning.empty()) << row.name;
    EXPECT_EQ(row.meaning.find('\n'), std::string_view::npos) << row.name;
  }
}

}  // namespace
}  // namespace wreath
