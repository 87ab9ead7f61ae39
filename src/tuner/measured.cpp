// Makes rules from times, and writes and reads rules as text.
#include "src/tuner/measured.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <tuple>

#include "src/tuner/rules.hpp"
#include "src/tuner/tuner.hpp"
#include "wreath/transport.hpp"
#include "wreath/tuning.hpp"
#include "wreath/types.hpp"

namespace wreath {
namespace {

// A plan that takes less than this share of the library's own is faster in more than one run.
constexpr double kClearly = 0.9;
// Sizes up to this one are alike.
constexpr std::size_t kSmall = 8;
// Sizes from this one on are alike.
constexpr std::size_t kLarge = std::size_t{64} << 20;
constexpr std::string_view kLibrary = "library";
constexpr std::string_view kMapped = "mapped";
constexpr std::size_t kMaximumTile = std::size_t{1} << 30;

template <typename Entry>
auto kind_of(const Entry& entry) {
  return std::tie(entry.collective, entry.ranks, entry.wire, entry.device);
}
auto plan_of(const MeasuredRule& rule) { return std::tuple(rule.algorithm, rule.tile_bytes); }

// Returns the size where one size's choice gives way to the next one's.
std::size_t between(std::size_t bytes, std::size_t next) {
  return static_cast<std::size_t>(std::sqrt(static_cast<double>(bytes) * static_cast<double>(next)));
}

using Times = std::vector<const TuningTime*>;

// Returns the fastest time of one size; null where none may be used. The library's own choice stays where nothing is
// clearly faster.
const TuningTime* fastest(const Times& times, std::size_t bytes, bool reproducible) {
  const TuningTime* best = nullptr;
  const TuningTime* own = nullptr;
  const TuningTime& any = *times.front();
  TunerContext plain = plain_context(any.ranks, any.wire, reproducible);
  plain.gpus = any.device;
  const Choice rules = choose(plain, {.collective = any.collective, .bytes = bytes});
  for (const TuningTime* time : times) {
    const Algorithm* row = find_algorithm(time->collective, time->algorithm);
    if (time->bytes != bytes || row == nullptr || !why_not(plain, *row, {.collective = any.collective}).empty())
      continue;
    if (best == nullptr || time->time_us < best->time_us) best = time;
    const bool same_tile =
        time->tile_bytes == rules.tile_bytes || bytes <= std::min(time->tile_bytes, rules.tile_bytes);
    if (row == rules.algorithm && (rules.small || time->tile_bytes == 0 || same_tile)) own = time;
  }
  if (own != nullptr && best->time_us > kClearly * own->time_us) return own;
  return best;
}

// Appends the rules of one kind of calls.
void append_rules(const Times& times, bool reproducible, std::vector<MeasuredRule>& rules) {
  std::vector<std::size_t> sizes;
  for (const TuningTime* time : times) sizes.push_back(time->bytes);
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  if (sizes.front() > kSmall) {
    const TuningTime& any = *times.front();
    rules.push_back({{any.collective, any.ranks, any.wire, any.device, sizes.front() / 2}, nullptr, 0});
  }
  const std::size_t first = rules.size();
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const TuningTime* best = fastest(times, sizes[i], reproducible);
    if (best == nullptr) continue;
    const std::size_t end = i + 1 < sizes.size() ? between(sizes[i], sizes[i + 1]) : kNoLimit;
    const MeasuredRule rule{{best->collective, best->ranks, best->wire, best->device, end},
                            find_algorithm(best->collective, best->algorithm),
                            best->tile_bytes};
    MeasuredRule* const last = rules.size() > first ? &rules.back() : nullptr;
    if (last != nullptr && plan_of(*last) == plan_of(rule)) {
      last->most.bytes = end;
    } else {
      rules.push_back(rule);
    }
  }
  if (rules.size() > first) rules.back().most.bytes = sizes.back() >= kLarge ? kNoLimit : 2 * sizes.back();
}

Error too_many() {
  return {ErrorCode::InvalidArgument,
          fmt::format("its times make more than {} rules: tune fewer numbers of ranks", MeasuredRules::kMaximum)};
}

// Reads the words of a line one after the other. After a wrong word the line never is complete.
class Words {
 public:
  explicit Words(std::string_view line) : rest_(line) {}
  std::string_view text() {
    const std::size_t end = std::min(rest_.find(' '), rest_.size());
    const std::string_view word = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    return word;
  }
  std::size_t number(std::size_t minimum, std::size_t maximum) {
    const std::string_view word = text();
    std::size_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    fine_ = fine_ && error == std::errc() && end == word.data() + word.size() && value >= minimum && value <= maximum;
    return value;
  }
  bool complete() const { return fine_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool fine_ = true;
};

bool is_wire(std::string_view transport) {
  const TransportRow* const row = find_transport(transport);
  return row != nullptr && row->is_wire();
}

std::optional<MeasuredRule> rule_from(std::string_view line) {
  Words words(line);
  MeasuredRule rule;
  const std::optional<Collective> collective = parse_collective(words.text());
  if (!collective) return std::nullopt;
  MeasuredCall& most = rule.most;
  most.collective = *collective;
  most.ranks = static_cast<int>(words.number(1, kMaximumRanks));
  const std::string_view links = words.text();
  if (links != kMapped && !is_wire(links)) return std::nullopt;
  if (links != kMapped) most.wire = links;
  most.device = words.number(0, 1) == 1;
  most.bytes = words.number(0, kNoLimit);
  const std::string_view row = words.text();
  rule.algorithm = find_algorithm(most.collective, row);
  rule.tile_bytes = words.number(0, kMaximumTile);
  return words.complete() && (rule.algorithm != nullptr || row == kLibrary) ? std::optional(rule) : std::nullopt;
}

}  // namespace

Result<MeasuredRules> MeasuredRules::of(const Tuning& tuning, bool reproducible) {
  Times all;
  for (const TuningTime& time : tuning.times) all.push_back(&time);
  std::stable_sort(all.begin(), all.end(),
                   [](const TuningTime* a, const TuningTime* b) { return kind_of(*a) < kind_of(*b); });
  MeasuredRules rules;
  for (auto first = all.begin(); first != all.end();) {
    const auto end =
        std::find_if(first, all.end(), [&](const TuningTime* time) { return kind_of(*time) != kind_of(**first); });
    append_rules(Times(first, end), reproducible, rules.rules_);
    first = end;
  }
  if (rules.rules_.size() > kMaximum) return too_many();
  return rules;
}

std::string MeasuredRules::to_text() const {
  std::string text;
  for (const MeasuredRule& rule : rules_) {
    const MeasuredCall& most = rule.most;
    fmt::format_to(std::back_inserter(text), "{} {} {} {:d} {} {} {}\n", name(most.collective), most.ranks,
                   most.wire.empty() ? kMapped : most.wire, most.device, most.bytes,
                   rule.algorithm != nullptr ? rule.algorithm->name : kLibrary, rule.tile_bytes);
  }
  return text;
}

Result<MeasuredRules> MeasuredRules::parse(std::string_view text) {
  MeasuredRules rules;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::optional<MeasuredRule> rule = rule_from(text.substr(0, end));
    const bool in_order = rule && (rules.empty() || rules.rules_.back().most < rule->most);
    if (!in_order) {
      return Error{ErrorCode::InvalidArgument, fmt::format("'{}' is no measured rule, or not in order",
                                                           text.substr(0, std::min<std::size_t>(end, 80)))};
    }
    rules.rules_.push_back(*rule);
    if (rules.rules_.size() > kMaximum) return too_many();
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return rules;
}

const MeasuredRule* MeasuredRules::find(const MeasuredCall& call) const noexcept {
  const auto found =
      std::lower_bound(rules_.begin(), rules_.end(), call,
                       [](const MeasuredRule& rule, const MeasuredCall& wanted) { return rule.most < wanted; });
  const bool known = found != rules_.end() && kind_of(found->most) == kind_of(call) && found->algorithm != nullptr;
  return known ? &*found : nullptr;
}

}  // namespace wreath
