// Sentences keeps what an adapter says of itself until somebody reads it. The oldest of too many are forgotten.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <utility>

namespace wreath {

class Sentences {
 public:
  void add(std::string sentence) {
    constexpr std::size_t kMost = 64;
    if (sentences_.size() == kMost) sentences_.pop_front();
    sentences_.push_back(std::move(sentence));
  }
  // Returns the oldest and forgets it.
  std::optional<std::string> next() {
    if (sentences_.empty()) return std::nullopt;
    std::string sentence = std::move(sentences_.front());
    sentences_.pop_front();
    return sentence;
  }

 private:
  std::deque<std::string> sentences_;
};

}  // namespace wreath
