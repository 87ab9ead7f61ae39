// An operation keeps the counts of its call for as long as it runs.
#include "src/engine/operation.hpp"

#include <fmt/format.h>

#include <numeric>
#include <string_view>

#include "src/engine/exchange_lanes.hpp"

namespace wreath {

std::string text_of(const Operation& operation) {
  if (operation.exchanges()) return describe(operation.messages);
  const Call& call = operation.call;
  const std::string_view collective = name(call.collective, call.varying());
  return operation.number == 0 ? std::string(collective) : fmt::format("{} #{}", collective, operation.number);
}

std::uint64_t first_number(const Operation& operation, const Question& question) {
  if (question.subject == Subject::Call) return operation.number;
  const Direction direction = question.subject == Subject::Send ? Direction::Send : Direction::Receive;
  for (const ExchangeMessage& message : operation.messages.of(direction)) {
    if (message.peer == question.peer) return message.number;
  }
  return 0;
}

void Operation::keep_memory() {
  if (!memory_in_use_.empty()) return;
  keep_memory(call.input);
  keep_memory(call.output);
  for (const ExchangeMessage& each : messages.sends) keep_memory(each.data);
  for (const ExchangeMessage& each : messages.receives) keep_memory(each.data);
}

void Operation::keep_memory(const void* data) {
  if (std::shared_ptr<Region> region = find_containing(data, 1)) memory_in_use_.emplace_back(std::move(region));
}

void Operation::keep_blocks() {
  blocks_.clear();
  // The reserved memory keeps the spans valid.
  blocks_.reserve(2 * (call.input_blocks.counts.size() + call.output_blocks.counts.size()));
  for (Blocks* table : {&call.input_blocks, &call.output_blocks}) {
    const std::size_t ranks = table->counts.size();
    const std::size_t at = blocks_.size();
    blocks_.insert(blocks_.end(), table->counts.begin(), table->counts.end());
    if (table->displacements.empty()) {
      blocks_.resize(at + 2 * ranks);
      std::exclusive_scan(table->counts.begin(), table->counts.end(),
                          blocks_.begin() + static_cast<std::ptrdiff_t>(at + ranks), std::size_t{0});
    } else {
      blocks_.insert(blocks_.end(), table->displacements.begin(), table->displacements.end());
    }
    table->counts = {blocks_.data() + at, ranks};
    table->displacements = {blocks_.data() + at + ranks, ranks};
  }
}

}  // namespace wreath
