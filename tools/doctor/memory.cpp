// Prints the memory of ranks: as it is predicted, and as processes of this host really hold it.
#include "tools/doctor/memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "src/json/value.hpp"
#include "tools/doctor/ranks.hpp"
#include "wreath/memory_budget.hpp"

namespace wreath {
namespace {

std::string mib(double bytes) { return fmt::format("{:.2f} MiB", bytes / (1 << 20)); }
std::string mib_of(std::size_t bytes) { return mib(static_cast<double>(bytes)); }

// A line of the table of budgets. Most lines are about one rank at most, and one is about all ranks of a host.
struct MemoryLine {
  const char* name;
  std::string (*text)(const MemoryBudget& budget);
};

const MemoryLine kLines[] = {
    {"slot", [](const MemoryBudget& b) { return fmt::format("{} KiB", b.slot_bytes / 1024); }},
    {"slot of sends", [](const MemoryBudget& b) { return fmt::format("{} KiB", b.exchange_slot_bytes / 1024); }},
    {"slots of a FIFO x lanes", [](const MemoryBudget& b) { return fmt::format("{} x {}", b.slot_count, b.lanes); }},
    {"slot headers, counters", [](const MemoryBudget& b) { return mib_of(b.headers); }},
    {"small messages", [](const MemoryBudget& b) { return mib_of(b.small_area); }},
    {"staging, at most", [](const MemoryBudget& b) { return mib_of(b.staging); }},
    {"flight recorder", [](const MemoryBudget& b) { return mib_of(b.recorder); }},
    {"links, plans, stack", [](const MemoryBudget& b) { return mib_of(b.bookkeeping); }},
    {"one rank", [](const MemoryBudget& b) { return mib_of(b.bytes()); }},
    {"all ranks of a host",
     [](const MemoryBudget& b) { return mib(static_cast<double>(b.bytes()) * static_cast<double>(b.ranks)); }},
    {"descriptors of a rank", [](const MemoryBudget& b) { return fmt::format("{}", b.descriptors); }},
    {"threads of a rank", [](const MemoryBudget& b) { return fmt::format("{}", b.threads); }},
};

void print_budgets(const std::vector<MemoryBudget>& budgets) {
  fmt::print("Memory of a communicator, its ranks processes of one host:\n\n{:<24}", "");
  for (const MemoryBudget& budget : budgets) fmt::print("{:>14}", fmt::format("{} ranks", budget.ranks));
  for (const MemoryLine& line : kLines) {
    fmt::print("\n{:<24}", line.name);
    for (const MemoryBudget& budget : budgets) fmt::print("{:>14}", line.text(budget));
  }
  fmt::print("\n");
}

// The values of all ranks: the most that one rank holds, and the bytes that all hold together.
struct Totals {
  std::int64_t most_bytes = 0;
  std::int64_t bytes = 0;
  std::int64_t descriptors = 0;
  std::int64_t threads = 0;
  std::int64_t start_us = 0;
};

Totals totals_of(const std::vector<RankHeld>& ranks) {
  Totals totals;
  for (const RankHeld& rank : ranks) {
    const std::int64_t bytes = rank.used.resident_bytes - rank.before.resident_bytes;
    totals.bytes += bytes;
    totals.most_bytes = std::max(totals.most_bytes, bytes);
    totals.descriptors = std::max(totals.descriptors, rank.used.descriptors - rank.before.descriptors);
    totals.threads = std::max(totals.threads, rank.used.threads - rank.before.threads);
    totals.start_us = std::max(totals.start_us, rank.start_us);
  }
  return totals;
}

void print_held(const MemoryBudget& budget, const Totals& held) {
  const auto line = [](const char* name, const std::string& is, const std::string& allowed) {
    fmt::print("{:<24}{:>14}{:>14}\n", name, is, allowed);
  };
  fmt::print("\n{} ranks were started and used it; what they held, shared memory counted once:\n\n", budget.ranks);
  line("", "held", "budget");
  line("one rank, at most", mib(static_cast<double>(held.most_bytes)), mib_of(budget.bytes()));
  line("all ranks", mib(static_cast<double>(held.bytes)),
       mib(static_cast<double>(budget.bytes()) * static_cast<double>(budget.ranks)));
  line("descriptors of a rank", fmt::format("{}", held.descriptors), fmt::format("{}", budget.descriptors));
  line("threads of a rank", fmt::format("{}", held.threads), fmt::format("{}", budget.threads));
  fmt::print("{:<24}{:>14}\n", "first result after",
             fmt::format("{:.1f} ms", static_cast<double>(held.start_us) / 1000));
}

Json json_of(const MemoryBudget& budget) {
  return {{"ranks", budget.ranks},
          {"slot_bytes", budget.slot_bytes},
          {"exchange_slot_bytes", budget.exchange_slot_bytes},
          {"slot_count", budget.slot_count},
          {"lanes", budget.lanes},
          {"header_bytes", budget.headers},
          {"small_area_bytes", budget.small_area},
          {"staging_bytes", budget.staging},
          {"recorder_bytes", budget.recorder},
          {"bookkeeping_bytes", budget.bookkeeping},
          {"rank_bytes", budget.bytes()},
          {"host_bytes", budget.bytes() * static_cast<std::size_t>(budget.ranks)},
          {"descriptors", budget.descriptors},
          {"threads", budget.threads}};
}

Json json_of(int ranks, const Totals& held) {
  return {{"ranks", ranks},           {"rank_bytes", held.most_bytes},
          {"host_bytes", held.bytes}, {"descriptors", held.descriptors},
          {"threads", held.threads},  {"start_us", held.start_us}};
}

}  // namespace

Status report_memory(int ranks_here, bool as_json) {
  std::vector<MemoryBudget> budgets;
  for (const int ranks : {2, 16, 256, ranks_here}) {
    const auto budget = memory_budget(ranks);
    if (!budget) return budget.error();
    budgets.push_back(*budget);
  }
  const MemoryBudget own = budgets.back();
  budgets.pop_back();
  if (!as_json) print_budgets(budgets);
  const auto ranks = hold_ranks(ranks_here);
  if (!ranks) return ranks.error();
  const Totals held = totals_of(*ranks);
  if (!as_json) {
    print_held(own, held);
    return {};
  }
  Json json{{"budgets", Json::array()}};
  for (const MemoryBudget& budget : budgets) json["budgets"].push_back(json_of(budget));
  json["budget"] = json_of(own);
  json["held"] = json_of(own.ranks, held);
  fmt::print("{}\n", json.dump({.indent = 1, .sorted = true}));
  return {};
}

}  // namespace wreath
