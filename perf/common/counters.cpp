// Counts of several ranks and looks become one.
#include "perf/common/counters.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cassert>

#include "src/command_line/numbers.hpp"
#include "wreath/transport.hpp"

namespace wreath::perf {
namespace {

constexpr std::size_t kNumbersOfAnEntry = 1 + kMostWireCounts;

WireCounts* entry_of(Counters& counters, std::string_view transport) {
  const auto found = std::ranges::find(counters, transport, &WireCounts::transport);
  return found == counters.end() ? nullptr : &*found;
}

}  // namespace

void add_counters(Counters& sum, const Counters& more, std::int64_t times) {
  const auto factor = static_cast<std::uint64_t>(times);  // a difference is right modulo 2^64
  for (const WireCounts& each : more) {
    WireCounts* entry = entry_of(sum, each.transport);
    if (entry == nullptr) {
      entry = &sum.emplace_back(each);
      entry->bytes = 0;
      for (WireCounts::Count& count : entry->counts) count.number = 0;
    }
    entry->bytes += factor * each.bytes;
    for (std::size_t i = 0; i < each.counts.size(); ++i) entry->counts[i].number += factor * each.counts[i].number;
  }
}

std::size_t numbers_of_counters() { return transports().size() * kNumbersOfAnEntry; }

std::vector<double> numbers_of(const Counters& counters) {
  std::vector<double> numbers;
  for (const TransportRow& row : transports()) {
    const auto entry = std::ranges::find(counters, row.name, &WireCounts::transport);
    const std::size_t end = numbers.size() + kNumbersOfAnEntry;
    if (entry != counters.end()) {
      assert(entry->counts.size() <= kMostWireCounts);
      numbers.push_back(static_cast<double>(entry->bytes));
      for (const WireCounts::Count& count : entry->counts) numbers.push_back(static_cast<double>(count.number));
    }
    numbers.resize(end);
  }
  return numbers;
}

void add_numbers(Counters& sum, std::span<const double> numbers) {
  for (const TransportRow& row : transports()) {
    const auto of_row = numbers.first(kNumbersOfAnEntry);
    numbers = numbers.subspan(kNumbersOfAnEntry);
    WireCounts* const entry = entry_of(sum, row.name);
    if (entry == nullptr) continue;
    entry->bytes += static_cast<std::uint64_t>(of_row[0]);
    for (std::size_t i = 0; i < entry->counts.size(); ++i) {
      entry->counts[i].number += static_cast<std::uint64_t>(of_row[1 + i]);
    }
  }
}

std::optional<double> per_mebibyte(const WireCounts& entry, const WireCounts::Count& count) {
  if (entry.bytes == 0) return std::nullopt;
  return static_cast<double>(count.number) * (1 << 20) / static_cast<double>(entry.bytes);
}

std::vector<std::string> column_names(const Counters& counters) {
  std::vector<std::string> names;
  for (const WireCounts& each : counters) {
    for (const WireCounts::Count& count : each.counts) {
      names.push_back(counters.size() == 1 ? std::string(count.name)
                                           : fmt::format("{}.{}", each.transport, count.name));
    }
  }
  return names;
}

std::string counters_note(const Counters& counters, const std::string& transports) {
  std::vector<std::string_view> counted;
  for (const WireCounts& each : counters) counted.push_back(each.transport);
  std::vector<std::string> others = command_line::split(transports, '+');
  std::erase_if(others, [&](std::string_view each) { return std::ranges::find(counted, each) != counted.end(); });
  std::string note = fmt::format("{}", fmt::join(counted, ", "));
  if (others.empty()) return note;
  return note + fmt::format("{}not counted: {}", note.empty() ? "" : "; ", fmt::join(others, ", "));
}

}  // namespace wreath::perf
