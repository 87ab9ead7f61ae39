// This file makes tokens of characters, and batches of tokens.
#include "examples/train_gpt/data/text.hpp"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include "training/random/philox.hpp"

namespace wreath::gpt {

namespace {

// Adds a sequence that begins at `begin`: the tokens at the places held here, and the token after each of them.
void append(std::span<const std::int32_t> tokens, std::size_t begin, const MicroBatchShape& shape, MicroBatch& batch) {
  for (const training::Range& range : shape.places) {
    for (std::int64_t i = 0; i < range.count; ++i) {
      const std::size_t place = begin + static_cast<std::size_t>(range.begin + i);
      batch.tokens.push_back(tokens[place]);
      batch.targets.push_back(tokens[place + 1]);
    }
  }
}

}  // namespace

Result<Text> Text::from(std::string source, std::string_view text, std::int64_t context) {
  Text made;
  made.source_ = std::move(source);
  made.fingerprint_ = training::fingerprint(text);
  std::array<std::int32_t, 256> numbers{};
  for (const char letter : text) numbers[static_cast<unsigned char>(letter)] = 1;
  for (std::size_t byte = 0; byte < numbers.size(); ++byte) {
    if (numbers[byte] == 0) continue;
    numbers[byte] = static_cast<std::int32_t>(made.letters_.size());
    made.letters_.push_back(static_cast<char>(byte));
  }
  made.tokens_.reserve(text.size());
  for (const char letter : text) made.tokens_.push_back(numbers[static_cast<unsigned char>(letter)]);
  made.training_count_ = text.size() * 9 / 10;
  const auto needed = static_cast<std::size_t>(context) + 1;
  if (made.training_count_ < needed || text.size() - made.training_count_ < needed) {
    return Error{ErrorCode::InvalidArgument, made.source_ + ": " + std::to_string(text.size()) +
                                                 " bytes are too few: the last tenth must hold one sequence of " +
                                                 std::to_string(context) + " and a letter more"};
  }
  return made;
}

Result<Text> Text::from_file(const std::string& path, std::int64_t context) {
  const auto unreadable = [&] {
    return Error{ErrorCode::InvalidArgument, path + ": cannot be read: " + std::strerror(errno)};
  };
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "re"), std::fclose);
  if (!file) return unreadable();
  std::string text;
  std::array<char, 65'536> block;
  while (const std::size_t count = std::fread(block.data(), 1, block.size(), file.get())) {
    text.append(block.data(), count);
  }
  if (std::ferror(file.get()) != 0) return unreadable();
  return from(path, text, context);
}

std::int32_t Text::token(char letter) const noexcept {
  const std::size_t found = letters_.find(letter);
  return found == std::string::npos ? -1 : static_cast<std::int32_t>(found);
}

MicroBatch training_batch(const Text& text, const BatchAddress& address, const MicroBatchShape& shape,
                          std::int64_t context) {
  MicroBatch batch;
  batch.first_sequence = address.first_sequence;
  batch.step = address.step;
  batch.tokens.reserve(static_cast<std::size_t>(shape.rows()));
  batch.targets.reserve(static_cast<std::size_t>(shape.rows()));
  const training::RandomStream stream(address.seed, "data", address.step);
  const std::span<const std::int32_t> tokens = text.training();
  const std::uint64_t places = tokens.size() - static_cast<std::size_t>(context);
  for (std::int64_t i = 0; i < shape.sequences; ++i) {
    append(tokens, stream.below(places, static_cast<std::uint64_t>(address.first_sequence + i)), shape, batch);
  }
  return batch;
}

std::int64_t validation_windows(const Text& text, std::int64_t context) {
  return (static_cast<std::int64_t>(text.validation().size()) - 1) / context;
}

MicroBatch validation_batch(const Text& text, std::int64_t first, const MicroBatchShape& shape, std::int64_t context) {
  MicroBatch batch;
  for (std::int64_t i = 0; i < shape.sequences; ++i) {
    append(text.validation(), static_cast<std::size_t>((first + i) * context), shape, batch);
  }
  return batch;
}

}  // namespace wreath::gpt
