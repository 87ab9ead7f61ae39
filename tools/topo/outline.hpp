// An outline for a terminal: labels as a tree, and their texts in one column to the right.
#pragma once

#include <string>
#include <vector>

namespace wreath {

struct Branch {
  std::string label;
  std::string text;
  std::vector<Branch> branches = {};
};

// Returns the width on a screen in characters, which is no count of bytes.
std::size_t width_of(const std::string& utf8);

// Returns a line for each branch. `lines` draws with line characters instead of ASCII.
std::string outline(const std::vector<Branch>& roots, bool lines);

// Returns whether the language of the terminal has line characters.
bool can_draw_lines();

}  // namespace wreath
