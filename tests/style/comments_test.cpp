// Comments begin as sentences do: with a verb, or with a noun that has a verb.
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <string>
#include <vector>

#include "tests/style/source_tree.hpp"

namespace wreath {
namespace {

bool is_comment(const std::string& line) {
  static const std::regex kComment(R"(^\s*//.*)");
  return std::regex_match(line, kComment);
}

// "Of FIFOs in both directions" has no verb, and "What a call does" is half a sentence.
bool begins_as_a_fragment(const std::string& line) {
  static const std::regex kFragment(R"(^\s*//+ *(Of|What|Who|Whose|Whom|How|\.\.\.)\b.*)");
  return std::regex_match(line, kFragment);
}

// Returns the indices of the lines that begin a comment as a fragment. A later line of a comment may begin with any
// word.
std::vector<std::size_t> fragments_in(const std::vector<std::string>& lines) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const bool first = i == 0 || !is_comment(lines[i - 1]);
    if (first && begins_as_a_fragment(lines[i])) found.push_back(i);
  }
  return found;
}

TEST(Comments, BeginAsSentences) {
  std::size_t comments = 0;
  for (const SourceFile& file : source_files({".c", ".h", ".cpp", ".hpp", ".cu", ".cuh"})) {
    comments += static_cast<std::size_t>(std::count_if(file.lines.begin(), file.lines.end(), is_comment));
    for (const std::size_t i : fragments_in(file.lines))
      ADD_FAILURE() << file.path << ":" << i + 1 << ": " << file.lines[i];
  }
  EXPECT_GT(comments, 1000u);
}

TEST(Comments, ThatAreFragmentsAreFound) {
  EXPECT_EQ(fragments_in({"// Of a file.", "int a;", "// Returns what", "// Of a line.", "", "  // How it ends."}),
            (std::vector<std::size_t>{0, 5}));
  EXPECT_TRUE(begins_as_a_fragment("  // Of a thread that works()."));
  EXPECT_TRUE(begins_as_a_fragment("// What blocks reach."));
  EXPECT_FALSE(begins_as_a_fragment("// Returns what blocks reach."));
  EXPECT_FALSE(begins_as_a_fragment("// Often a peer is late."));
  EXPECT_FALSE(begins_as_a_fragment("int of = 0;  // Of no use here"));
}

}  // namespace
}  // namespace wreath
