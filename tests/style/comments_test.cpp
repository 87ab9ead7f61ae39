// Comments begin as sentences do: with a verb, or with a noun that has a verb.
#include <gtest/gtest.h>

#include <regex>
#include <string>

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

TEST(Comments, BeginAsSentences) {
  for (const SourceFile& file : source_files({".c", ".h", ".cpp", ".hpp", ".cu", ".cuh"})) {
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      const bool first = i == 0 || !is_comment(file.lines[i - 1]);
      EXPECT_FALSE(first && begins_as_a_fragment(file.lines[i])) << file.path << ":" << i + 1 << ": " << file.lines[i];
    }
  }
}

TEST(Comments, ThatAreFragmentsAreFound) {
  EXPECT_TRUE(begins_as_a_fragment("  // Of a thread that works()."));
  EXPECT_TRUE(begins_as_a_fragment("// What blocks reach."));
  EXPECT_FALSE(begins_as_a_fragment("// Returns what blocks reach."));
  EXPECT_FALSE(begins_as_a_fragment("// Often a peer is late."));
  EXPECT_FALSE(begins_as_a_fragment("int of = 0;  // Of no use here"));
}

}  // namespace
}  // namespace wreath
