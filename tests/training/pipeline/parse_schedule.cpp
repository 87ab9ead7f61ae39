// Reads what to_text() writes, word for word.
#include "tests/training/pipeline/parse_schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <vector>

namespace wreath::training {
namespace {

constexpr std::string_view kLetters = "FBIW";  // in the order of ActionKind

// Reads a number at the front of `text` and removes it.
bool take_number(std::string_view& text, int& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || number < 0) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

// Returns the words between blanks.
std::vector<std::string_view> split(std::string_view text, std::string_view blanks) {
  std::vector<std::string_view> words;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
    if (text.empty()) return words;
    const std::size_t end = std::min(text.find_first_of(blanks), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

Error wrong(std::size_t line, std::string_view word, std::string_view expected) {
  return {ErrorCode::InvalidArgument,
          fmt::format("text of a pipeline schedule, line {}: '{}' is not {}", line + 1, word, expected)};
}

bool parse_action(std::string_view word, Action& action) {
  const std::size_t letter = word.find_first_of(kLetters);
  if (letter == std::string_view::npos) return false;
  if (letter > 0 && !take_number(word, action.chunk)) return false;
  const std::size_t kind = word.empty() ? std::string_view::npos : kLetters.find(word.front());
  if (kind == std::string_view::npos) return false;
  action.kind = static_cast<ActionKind>(kind);
  word.remove_prefix(1);
  return take_number(word, action.micro_batch) && word.empty();
}

Status parse_head(std::string_view line, PipelineSchedule& schedule) {
  const std::vector<std::string_view> words = split(line, " ");
  int* const numbers[] = {&schedule.ranks, &schedule.chunks_per_rank, &schedule.micro_batches};
  constexpr std::string_view kNames[] = {"ranks", "chunks", "micro_batches"};
  bool good = words.size() == 8 && words[0] == "pipeline";
  for (std::size_t i = 0; good && i < 3; ++i) {
    std::string_view number = words[3 + 2 * i];
    good = words[2 + 2 * i] == kNames[i] && take_number(number, *numbers[i]) && number.empty();
  }
  if (!good) return wrong(0, line, "'pipeline NAME ranks P chunks V micro_batches M'");
  schedule.name = std::string(words[1]);
  return check_shape({schedule.ranks, schedule.chunks_per_rank, schedule.micro_batches});
}

}  // namespace

Result<PipelineSchedule> parse_schedule(std::string_view text) {
  const std::vector<std::string_view> lines = split(text, "\n");
  PipelineSchedule schedule;
  if (lines.empty()) return wrong(0, "", "'pipeline NAME ranks P chunks V micro_batches M'");
  WREATH_TRY(parse_head(lines[0], schedule));
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const std::vector<std::string_view> words = split(lines[i], " ");
    if (words.empty() || words[0] != fmt::format("{}:", i - 1)) {
      return wrong(i, lines[i], fmt::format("the actions of rank {}", i - 1));
    }
    std::vector<Action>& actions = schedule.actions.emplace_back();
    for (std::size_t word = 1; word < words.size(); ++word) {
      if (!parse_action(words[word], actions.emplace_back())) return wrong(i, words[word], "an action such as 0F3");
    }
  }
  return schedule;
}

}  // namespace wreath::training
