// Prints the registry as a table, for `wreath plan table`.
#include <fmt/format.h>

#include <array>
#include <string>

#include "wreath/plan.hpp"

namespace wreath {
namespace {

constexpr std::array kRanks{8, 6};

constexpr std::string_view kHead =
    "# Algorithms\n\n"
    "Every row of the registry (algorithms/registry.cpp), written by `wreath plan table --markdown`. Each row's paper "
    "and formula stand on top of its file; `wreath plan verify --all` proves them all, and tests hold the costs below "
    "to what `wreath plan simulate` counts.\n\n"
    "- *order*: how a floating-point sum is formed. All canonical rows give the same bits; others are taken only where "
    "reproducible is off or a caller names them.\n"
    "- *steps*: messages on the longest chain of messages that wait for each other.\n"
    "- *bytes*: sent by the rank that sends most, in units of the vector, or of all ranks' blocks together (of one "
    "rank's input, for all_to_all).\n"
    "- *v*: blocks may differ in size.\n\n";

struct TableCells {
  std::string collective, algorithm, order, varies;
  std::array<std::string, kRanks.size()> steps, bytes;
};

TableCells cells_of(const Algorithm& row) {
  TableCells cells{.collective = std::string(name(row.collective)),
                   .algorithm = std::string(row.name),
                   .order = std::string(name(row.order)),
                   .varies = (row.traits & kVarying) != 0 ? "v" : "",
                   .steps = {},
                   .bytes = {}};
  for (std::size_t i = 0; i < kRanks.size(); ++i) {
    const Problem problem{.collective = row.collective, .ranks = kRanks[i]};
    const bool supported = row.supports(problem);
    const Cost cost = supported ? row.cost(problem) : Cost{};
    cells.steps[i] = supported ? std::to_string(cost.steps) : "-";
    cells.bytes[i] = supported ? fmt::format("{:.3g}", cost.bytes) : "-";
  }
  return cells;
}

std::string line_of(const TableCells& c, TableStyle style) {
  constexpr std::string_view kText = "{:<14} {:<18} {:<9} {:<2} {:>9} {:>9} {:>9} {:>9}\n";
  constexpr std::string_view kMarkdown = "| {} | {} | {} | {} | {} | {} | {} | {} |\n";
  return fmt::format(fmt::runtime(style == TableStyle::Text ? kText : kMarkdown), c.collective, c.algorithm, c.order,
                     c.varies, c.steps[0], c.bytes[0], c.steps[1], c.bytes[1]);
}

}  // namespace

std::string cost_table(TableStyle style) {
  std::string text(style == TableStyle::Markdown ? kHead : "");
  const auto on = [](std::string_view what, int ranks) { return fmt::format("{} n={}", what, ranks); };
  text += line_of({.collective = "collective",
                   .algorithm = "algorithm",
                   .order = "order",
                   .varies = "v",
                   .steps = {on("steps", kRanks[0]), on("steps", kRanks[1])},
                   .bytes = {on("bytes", kRanks[0]), on("bytes", kRanks[1])}},
                  style);
  if (style == TableStyle::Markdown) text += "|---|---|---|---|--:|--:|--:|--:|\n";
  for (const Algorithm& row : algorithms()) text += line_of(cells_of(row), style);
  return text;
}

}  // namespace wreath
