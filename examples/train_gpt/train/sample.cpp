// This file draws text from a trained model.
#include <algorithm>
#include <cmath>
#include <vector>

#include "examples/train_gpt/train/trainer.hpp"
#include "training/random/philox.hpp"

namespace wreath::gpt {

namespace {

// Returns the index whose share of exp(score / temperature) holds `fraction`.
std::int32_t draw(std::span<const float> scores, float temperature, float fraction) {
  const float highest = *std::max_element(scores.begin(), scores.end());
  std::vector<double> sums;
  double sum = 0;
  for (const float score : scores) {
    sum += std::exp(static_cast<double>((score - highest) / temperature));
    sums.push_back(sum);
  }
  const auto found = std::lower_bound(sums.begin(), sums.end(), static_cast<double>(fraction) * sum);
  return static_cast<std::int32_t>(
      std::min<std::ptrdiff_t>(found - sums.begin(), static_cast<std::ptrdiff_t>(sums.size()) - 1));
}

}  // namespace

// Returns, on every rank, the scores of the token after `tokens`, which are at most a context's.
std::vector<float> Trainer::next_scores(std::span<const std::int32_t> tokens) {
  std::vector<std::int32_t> padded(tokens.begin(), tokens.end());
  // No place sees the tokens after it.
  padded.resize(static_cast<std::size_t>(options_.model.context));
  MicroBatch batch;
  // The row of the last token, where this rank has it.
  std::int64_t row = -1;
  const auto last = static_cast<std::int64_t>(tokens.size()) - 1;
  for (const training::Range& range : context_.shape.places) {
    if (last >= range.begin && last < range.begin + range.count) {
      row = static_cast<std::int64_t>(batch.tokens.size()) + last - range.begin;
    }
    batch.tokens.insert(batch.tokens.end(), padded.begin() + range.begin, padded.begin() + range.begin + range.count);
  }
  Head* head = stages_.back()->head();
  const std::int64_t width = head != nullptr ? head->vocabulary_here() : 0;
  std::vector<float> here(static_cast<std::size_t>(std::max<std::int64_t>(context_.rows() * width, 1)));
  state_.scores = here;
  set_batches(std::vector<MicroBatch>(static_cast<std::size_t>(options_.micro_batches), batch), false);
  pipeline_->run_forward();
  state_.scores = {};
  std::vector<float> scores(static_cast<std::size_t>(options_.model.vocabulary));
  for (std::int64_t i = 0; row >= 0 && i < width; ++i) {
    const std::int64_t word = head->first_word() + i;
    if (word < options_.model.vocabulary)
      scores[static_cast<std::size_t>(word)] = here[static_cast<std::size_t>(row * width + i)];
  }
  // Each score is on one rank, and zero on the others.
  mesh_->model().all_reduce(std::span<float>(scores));
  return scores;
}

std::string Trainer::sample(const std::string& prompt, int count, float temperature) {
  const training::CommunicationAccounting of_steps = communication_;
  const MicroBatchShape shape = context_.shape;
  const auto context = static_cast<std::size_t>(options_.model.context);
  context_.shape.sequences = 1;
  std::vector<std::int32_t> tokens;
  for (const char letter : prompt) tokens.push_back(std::max(text_->token(letter), 0));
  if (tokens.empty()) tokens.push_back(std::max(text_->token('\n'), 0));
  std::string text = prompt;
  const training::RandomStream stream(options_.seed, "sample");
  for (int i = 0; i < count; ++i) {
    const std::span<const std::int32_t> seen = std::span(tokens).last(std::min(tokens.size(), context));
    tokens.push_back(draw(next_scores(seen), temperature, stream.uniform(static_cast<std::uint64_t>(i))));
    text.push_back(text_->letter(tokens.back()));
  }
  context_.shape = shape;
  communication_ = of_steps;
  return text;
}

}  // namespace wreath::gpt
