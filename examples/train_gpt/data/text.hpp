// This file declares a text as tokens: one for each character, like nanoGPT's shakespeare_char.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "examples/train_gpt/model/context.hpp"
#include "wreath/result.hpp"

namespace wreath::gpt {

// Holds the tokens of a text. Tokens are the bytes that occur, numbered in ascending order. The first 90 % train, the
// rest validates.
class Text {
 public:
  // Makes a text. Errors name the source: an empty text, or one whose parts are no longer than `context`.
  static Result<Text> from(std::string source, std::string_view text, std::int64_t context);
  static Result<Text> from_file(const std::string& path, std::int64_t context);

  const std::string& source() const noexcept { return source_; }
  std::int64_t vocabulary() const noexcept { return static_cast<std::int64_t>(letters_.size()); }
  std::uint64_t fingerprint() const noexcept { return fingerprint_; }  // of all its bytes
  std::span<const std::int32_t> training() const noexcept { return tokens().first(training_count_); }
  std::span<const std::int32_t> validation() const noexcept { return tokens().subspan(training_count_); }
  char letter(std::int32_t token) const noexcept { return letters_[static_cast<std::size_t>(token)]; }
  // Returns -1 where the letter does not occur.
  std::int32_t token(char letter) const noexcept;

 private:
  Text() = default;
  std::span<const std::int32_t> tokens() const noexcept { return tokens_; }
  std::string source_;
  std::string letters_;
  std::vector<std::int32_t> tokens_;
  std::size_t training_count_ = 0;
  std::uint64_t fingerprint_ = 0;
};

// Addresses one micro-batch of a training step on one rank. The place where sequence j of a step's global batch begins
// depends on the seed, the step and j alone. Every mesh so sees the same sequences.
struct BatchAddress {
  std::uint64_t seed = 1337;
  std::uint32_t step = 0;
  std::int64_t first_sequence = 0;  // of the global batch
};
MicroBatch training_batch(const Text& text, const BatchAddress& address, const MicroBatchShape& shape,
                          std::int64_t context);

// Returns the number of windows of `context` tokens that follow each other through the validation text. The rest of the
// text is not used.
std::int64_t validation_windows(const Text& text, std::int64_t context);
// Returns shape.sequences windows from `first` on.
MicroBatch validation_batch(const Text& text, std::int64_t first, const MicroBatchShape& shape, std::int64_t context);

}  // namespace wreath::gpt
