// Gathers the links of a job. Each rank sends rank 0 text: its host, and a line for each peer with the link between
// them.
#include "tools/topo/links.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <sstream>
#include <utility>

#include "tools/topo/local_ranks.hpp"

namespace wreath {
namespace {

std::string host_name() {
  std::array<char, 256> text{};
  return ::gethostname(text.data(), text.size() - 1) == 0 ? text.data() : "unknown";
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) {
    const char next = text[std::min(at + what.size(), text.size() - 1)];
    if (at + what.size() == text.size() || next < '0' || next > '9') text.replace(at, what.size(), by);
  }
  return text;
}

// Returns the lines without the numbers of the two ranks, so that links can be compared.
std::string lines_of(const Communicator& communicator) {
  std::string lines = host_name() + "\n";
  for (int peer = 0; peer < communicator.ranks(); ++peer) {
    std::string text = replaced(communicator.transport_to(peer), fmt::format("rank {}", peer), "the other");
    lines += replaced(std::move(text), fmt::format("rank {}", communicator.rank()), "one of them") + "\n";
  }
  return lines;
}

// Splits a text such as "tcp over eth0 (shm: the other is on another host)" into its two parts.
LinkClass class_of(const std::string& text) {
  const std::size_t open = text.find(" (");
  if (open == std::string::npos || !text.ends_with(")")) return {text, "", 0};
  return {text.substr(0, open), text.substr(open + 2, text.size() - open - 3), 0};
}

void add_rank(RankLinks& links, std::vector<std::string>& texts, int rank, const std::string& lines) {
  std::istringstream words(lines);
  std::getline(words, links.hosts[static_cast<std::size_t>(rank)]);
  int peer = 0;
  for (std::string text; std::getline(words, text) && peer < links.ranks(); ++peer) {
    if (peer == rank) continue;
    auto known = std::find(texts.begin(), texts.end(), text);
    if (known == texts.end()) {
      known = texts.insert(texts.end(), text);
      links.classes.push_back(class_of(text));
    }
    const auto number = static_cast<int>(known - texts.begin());
    links.class_of[static_cast<std::size_t>(rank * links.ranks() + peer)] = number;
    ++links.classes[static_cast<std::size_t>(number)].links;
  }
}

void sort_classes(RankLinks& links) {
  std::vector<int> order(links.classes.size());
  std::iota(order.begin(), order.end(), 0);
  const auto count = [&](int number) { return links.classes[static_cast<std::size_t>(number)].links; };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return count(a) > count(b); });
  std::vector<LinkClass> sorted;
  std::vector<int> place(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    sorted.push_back(links.classes[static_cast<std::size_t>(order[i])]);
    place[static_cast<std::size_t>(order[i])] = static_cast<int>(i);
  }
  links.classes = std::move(sorted);
  for (int& number : links.class_of) number = number < 0 ? number : place[static_cast<std::size_t>(number)];
}

}  // namespace

Result<RankLinks> gather_links(Communicator& communicator) {
  const auto ranks = static_cast<std::size_t>(communicator.ranks());
  const std::string own = lines_of(communicator);
  const std::uint64_t bytes = own.size();
  std::vector<std::uint64_t> sizes(ranks);
  WREATH_TRY(communicator.all_gather(&bytes, sizes.data(), 1, DataType::Uint64));
  const std::vector<std::size_t> counts(sizes.begin(), sizes.end());
  std::string all(std::accumulate(counts.begin(), counts.end(), std::size_t{0}), '\0');
  WREATH_TRY(communicator.gather_v(own.data(), all.data(), {counts}, DataType::Uint8, 0));
  RankLinks links;
  links.hosts.resize(ranks);
  links.class_of.assign(ranks * ranks, -1);
  std::vector<std::string> texts;
  std::size_t at = 0;
  for (std::size_t rank = 0; rank < ranks && communicator.rank() == 0; at += counts[rank++]) {
    add_rank(links, texts, static_cast<int>(rank), all.substr(at, counts[rank]));
  }
  sort_classes(links);
  return links;
}

Result<RankLinks> link_local_ranks(int ranks) {
  const auto join = [ranks](const UniqueId& id, Rank rank) -> Result<RankLinks> {
    auto communicator = Communicator::create(id, rank, ranks);
    if (!communicator) return communicator.error();
    return gather_links(*communicator);
  };
  auto others = LocalRanks::start(1, ranks, [&](const UniqueId& id, Rank rank) {
    const auto linked = join(id, rank);
    return linked ? 0 : exit_code(linked.error().code);
  });
  if (!others) return others.error();
  auto links = join(others->id(), 0);
  if (!links) return links;
  WREATH_TRY(others->wait());
  return links;
}

}  // namespace wreath
