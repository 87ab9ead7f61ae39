// Draws an outline: first the labels with their branches, then all texts to the right of the longest label.
#include "tools/topo/outline.hpp"

#include <fmt/format.h>
#include <langinfo.h>

#include <algorithm>
#include <clocale>
#include <string_view>

namespace wreath {
namespace {

struct Pens {
  const char* middle;
  const char* last;
  const char* down;
};
constexpr Pens kLines{"├─ ", "└─ ", "│  "};
constexpr Pens kPlain{"|- ", "`- ", "|  "};

struct Row {
  std::string label;
  std::string text;
};

void add_rows(const std::vector<Branch>& branches, const std::string& indent, const Pens& pens,
              std::vector<Row>& rows) {
  for (const Branch& branch : branches) {
    const bool last = &branch == &branches.back();
    rows.push_back({indent + (last ? pens.last : pens.middle) + branch.label, branch.text});
    add_rows(branch.branches, indent + (last ? "   " : pens.down), pens, rows);
  }
}

}  // namespace

std::size_t width_of(const std::string& utf8) {
  return static_cast<std::size_t>(
      std::count_if(utf8.begin(), utf8.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string outline(const std::vector<Branch>& roots, bool lines) {
  std::vector<Row> rows;
  for (const Branch& root : roots) {
    rows.push_back({root.label, root.text});
    add_rows(root.branches, "", lines ? kLines : kPlain, rows);
  }
  std::size_t widest = 0;
  for (const Row& row : rows) widest = std::max(widest, row.text.empty() ? 0 : width_of(row.label));
  std::string text;
  for (const Row& row : rows) {
    const std::size_t gap = row.text.empty() ? 0 : widest + 2 - width_of(row.label);
    text += fmt::format("{}{}{}\n", row.label, std::string(gap, ' '), row.text);
  }
  return text;
}

bool can_draw_lines() {
  std::setlocale(LC_CTYPE, "");
  const bool can = std::string_view(::nl_langinfo(CODESET)) == "UTF-8";
  std::setlocale(LC_CTYPE, "C");
  return can;
}

}  // namespace wreath
