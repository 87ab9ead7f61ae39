// This file holds the table of the recipe's entries.
#include "examples/train_gpt/run/recipe.hpp"

#include <fmt/format.h>

#include <array>
#include <string_view>

namespace wreath::gpt {

namespace {

struct Entry {
  std::string_view name;
  std::string_view shown;  // to the user
  // Entries that may not change would give the weights or the moments another meaning.
  bool may_change;
  std::string (*value)(const TrainOptions& options, const Text& text);
};

// Writes bytes that are no printable ASCII, and the letters of `also`, as \xNN. A file's text so cannot control a
// terminal.
std::string escaped(std::string_view text, std::string_view also = {}) {
  std::string plain;
  for (const char letter : text) {
    const bool stays = letter >= 0x20 && letter < 0x7f && also.find(letter) == std::string_view::npos;
    plain += stays ? std::string(1, letter) : fmt::format("\\x{:02x}", static_cast<unsigned char>(letter));
  }
  return plain;
}

std::string quoted_letters(const Text& text) {
  std::string letters;
  for (std::int32_t token = 0; token < text.vocabulary(); ++token) letters += text.letter(token);
  return fmt::format("\"{}\", {} letters", escaped(letters, "\\\""), letters.size());
}

// The entries that are kept. Mesh, ZeRO, schedule, micro-batches, threads and device change nothing but rounding, and a
// run that continues gets its own --steps. None of them is kept.
constexpr std::array kEntries = {
    Entry{"layers", "--layers", false, [](auto& options, auto&) { return fmt::to_string(options.model.layers); }},
    Entry{"heads", "--heads", false, [](auto& options, auto&) { return fmt::to_string(options.model.heads); }},
    Entry{"width", "--width", false, [](auto& options, auto&) { return fmt::to_string(options.model.width); }},
    Entry{"context", "--context", false, [](auto& options, auto&) { return fmt::to_string(options.model.context); }},
    Entry{"bias", "--bias", false, [](auto& options, auto&) { return std::string(options.model.bias ? "on" : "off"); }},
    Entry{"gelu", "the GELU", false,
          [](auto& options, auto&) {
            return std::string(options.model.gelu == training::Gelu::Tanh ? "tanh" : "exact");
          }},
    Entry{"vocabulary", "the vocabulary", false, [](auto&, auto& text) { return quoted_letters(text); }},
    Entry{"optimizer", "the optimizer", false,
          [](auto& options, auto&) {
            return std::string(options.optimizer == OptimizerKind::Sgd ? "plain descent (--sgd)" : "AdamW");
          }},
    Entry{"seed", "--seed", false, [](auto& options, auto&) { return fmt::to_string(options.seed); }},
    Entry{"text", "the text", true,
          [](auto&, auto& text) {
            return fmt::format("{} letters, fingerprint {:016x}", text.training().size() + text.validation().size(),
                               text.fingerprint());
          }},
    Entry{"dropout", "--dropout", true, [](auto& options, auto&) { return fmt::to_string(options.model.dropout); }},
    Entry{"batch", "--batch", true, [](auto& options, auto&) { return fmt::to_string(options.batch); }},
    Entry{"learning_rate", "--learning-rate", true,
          [](auto& options, auto&) { return fmt::to_string(options.learning_rate); }},
    Entry{"lowest_learning_rate", "--lowest-learning-rate", true,
          [](auto& options, auto&) { return fmt::to_string(options.lowest_learning_rate); }},
    Entry{"warmup_steps", "--warmup-steps", true,
          [](auto& options, auto&) { return fmt::to_string(options.warmup_steps); }},
    Entry{"decay_steps", "--decay-steps", true,
          [](auto& options, auto&) { return fmt::to_string(options.decay_steps); }},
    Entry{"clip", "--clip", true, [](auto& options, auto&) { return fmt::to_string(options.clip); }},
    Entry{"weight_decay", "--weight-decay", true,
          [](auto& options, auto&) { return fmt::to_string(options.weight_decay); }},
    Entry{"precision", "--precision", true, [](auto& options, auto&) { return options.precision; }},
};

}  // namespace

Recipe recipe_of(const TrainOptions& options, const Text& text) {
  Recipe recipe;
  for (const Entry& entry : kEntries) recipe.emplace(entry.name, entry.value(options, text));
  return recipe;
}

RecipeChanges changes_between(const Recipe& kept, const Recipe& now) {
  RecipeChanges changes;
  std::string unsaid;
  for (const Entry& entry : kEntries) {
    const std::string name(entry.name);
    const auto found = kept.find(name);
    if (found == kept.end()) {
      unsaid += (unsaid.empty() ? "" : ", ") + name;
      continue;
    }
    if (found->second == now.at(name)) continue;
    if (entry.may_change) {
      changes.remarks.push_back(
          fmt::format("{} was {}, and is {} from here on", entry.shown, escaped(found->second), now.at(name)));
    } else {
      changes.wrong += fmt::format("{}{} is {} in the checkpoint, {} was asked for", changes.wrong.empty() ? "" : "; ",
                                   entry.shown, escaped(found->second), now.at(name));
    }
  }
  if (!unsaid.empty()) changes.remarks.push_back("it does not keep, so that no difference shows: " + unsaid);
  return changes;
}

}  // namespace wreath::gpt
