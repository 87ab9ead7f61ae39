// This file writes schedules as text.
#include <fmt/format.h>

#include <cstddef>

#include "training/pipeline/schedule.hpp"

namespace wreath::training {

namespace {

constexpr std::string_view kLetters = "FBIW";  // in the order of ActionKind

}  // namespace

std::string to_text(const Action& action) {
  const char letter = kLetters[static_cast<std::size_t>(action.kind)];
  if (action.chunk == 0) return fmt::format("{}{}", letter, action.micro_batch);
  return fmt::format("{}{}{}", action.chunk, letter, action.micro_batch);
}

std::string to_text(const PipelineSchedule& schedule) {
  std::string text = fmt::format("pipeline {} ranks {} chunks {} micro_batches {}\n", schedule.name, schedule.ranks,
                                 schedule.chunks_per_rank, schedule.micro_batches);
  for (std::size_t rank = 0; rank < schedule.actions.size(); ++rank) {
    text += fmt::format("{}:", rank);
    for (const Action& action : schedule.actions[rank]) text += fmt::format(" {}", to_text(action));
    text += "\n";
  }
  return text;
}

}  // namespace wreath::training
