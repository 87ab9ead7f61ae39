// An outline in a terminal: labels as a tree, their texts in one column beside it.
#pragma once

#include <string>
#include <vector>

namespace wreath {

struct Branch {
  std::string label;
  std::string text;
  std::vector<Branch> branches = {};
};

// Characters on a screen, not bytes.
std::size_t width_of(const std::string& utf8);

// A line for each branch. `lines`: drawn with line characters, else with ASCII.
std::string outline(const std::vector<Branch>& roots, bool lines);

// Whether the terminal's language has line characters.
bool can_draw_lines();

}  // namespace wreath
