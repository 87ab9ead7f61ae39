// Prints the ranks of a job as tables: the cores that each rank would get, and the links between ranks with their
// reasons.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tools/topo/show.hpp"
#include "wreath/transport.hpp"

namespace wreath {
namespace {

char letter(int number) { return number < 0 ? '.' : static_cast<char>('a' + number % 26); }

// Calls `print` for each run of ranks with equal values, with the numbers ("0-3" or "5") and the value.
template <typename Values, typename Print>
void for_runs(const Values& values, Print print) {
  for (std::size_t first = 0; first < values.size();) {
    std::size_t last = first;
    while (last + 1 < values.size() && values[last + 1] == values[first]) ++last;
    print(first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last), values[first]);
    first = last + 1;
  }
}

std::string preference() {
  std::string text;
  for (const TransportRow& row : transports()) {
    if (row.usable()) text += fmt::format("{}{}", text.empty() ? "" : ", ", row.name);
  }
  return text;
}

std::string classes_table(const RankLinks& links) {
  constexpr std::array<std::string_view, 3> kHeads{"links", "transport", "why none before it"};
  const int all = links.ranks() * (links.ranks() - 1);
  std::vector<std::array<std::string, 3>> rows;
  for (const LinkClass& each : links.classes) {
    const bool sole = each.links == all;
    const std::string count =
        sole ? fmt::format("all {}", all) : fmt::format("{} {}", letter(static_cast<int>(rows.size())), each.links);
    rows.push_back({count, each.transport, each.refused.empty() ? "it is the first that is allowed" : each.refused});
  }
  std::array<std::size_t, 2> widths{kHeads[0].size(), kHeads[1].size()};
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text = fmt::format("{:<{}}  {:<{}}  {}\n", kHeads[0], widths[0], kHeads[1], widths[1], kHeads[2]);
  for (const auto& row : rows)
    text += fmt::format("{:<{}}  {:<{}}  {}\n", row[0], widths[0], row[1], widths[1], row[2]);
  return text;
}

// Returns a matrix of letters. Row a, column b has the class of the link by which rank a reaches rank b.
std::string matrix(const RankLinks& links) {
  const int ranks = links.ranks();
  std::string text = "\n    ";
  for (int peer = 0; peer < ranks; ++peer) text += fmt::format("{:>3}", peer);
  for (int rank = 0; rank < ranks; ++rank) {
    text += fmt::format("\n{:>4}", rank);
    for (int peer = 0; peer < ranks; ++peer) {
      text += fmt::format("{:>3}", letter(links.class_of[static_cast<std::size_t>(rank * ranks + peer)]));
    }
  }
  return text + "\n";
}

}  // namespace

std::string ranks_table(const RanksShown& ranks) {
  const RankLinks& links = ranks.links;
  std::string text = fmt::format("{:<8} {}\n", "ranks", "host");
  for_runs(links.hosts,
           [&](const std::string& run, const std::string& host) { text += fmt::format("{:<8} {}\n", run, host); });
  if (!ranks.cores.empty()) text += fmt::format("\n{:<8} {}\n", "ranks", "cores that `wreath run` gives them");
  for_runs(ranks.cores, [&](const std::string& run, const std::vector<int>& cores) {
    text += fmt::format("{:<8} {}\n", run, format_list(cores));
  });
  if (links.ranks() < 2) return text;
  text += fmt::format("\n{}", classes_table(links));
  if (links.classes.size() > 1 && links.ranks() <= kLargestMatrix) text += matrix(links);
  return text + fmt::format("\nA pair takes the first transport of {} that is allowed and that both ends reach.\n",
                            preference());
}

Json ranks_json(const RanksShown& ranks) {
  const RankLinks& links = ranks.links;
  Json list = Json::array();
  for (int rank = 0; rank < links.ranks(); ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    Json one{{"rank", rank}, {"host", links.hosts[at]}, {"processors", nullptr}, {"links", Json::array()}};
    if (at < ranks.cores.size()) one["processors"] = ranks.cores[at];
    for (int peer = 0; peer < links.ranks(); ++peer) {
      const int number = links.class_of[at * links.hosts.size() + static_cast<std::size_t>(peer)];
      if (number < 0) continue;
      const LinkClass& link = links.classes[static_cast<std::size_t>(number)];
      one["links"].push_back({{"rank", peer}, {"transport", link.transport}, {"refused", link.refused}});
    }
    list.push_back(std::move(one));
  }
  return list;
}

}  // namespace wreath
