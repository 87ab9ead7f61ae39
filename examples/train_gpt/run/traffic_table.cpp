// This file writes counted traffic beside expected traffic.
#include "examples/train_gpt/run/traffic_table.hpp"

#include <fmt/format.h>

#include "examples/train_gpt/run/formulas.hpp"

namespace wreath::gpt {

namespace {

// Returns a number like 1,234,567, since bytes are compared to the last digit.
std::string grouped(std::uint64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, 1, ',');
  return digits;
}

std::string expected(const PayloadBounds& bounds) {
  return bounds.exact() ? grouped(bounds.least) : grouped(bounds.least) + " .. " + grouped(bounds.most);
}

std::string verdict(const training::Traffic& counted, const PayloadBounds& bounds, std::uint64_t steps) {
  const bool fits = bounds.exact() ? counted.bytes == bounds.least * steps
                                   : counted.bytes >= bounds.least * steps && counted.bytes <= bounds.most * steps;
  if (!fits) return "<td class=\"text bad\">unequal</td>";
  return bounds.exact() ? "<td class=\"text good\">equal</td>" : "<td class=\"text good\">within</td>";
}

}  // namespace

std::string traffic_head() {
  return "<th>rank</th><th class=text>group</th><th class=text>operation</th><th>calls a step</th>"
         "<th>payload, bytes a step</th><th>formula</th><th class=text></th><th>moved, bytes a "
         "step</th><th>seconds</th>";
}

std::string traffic_rows(Trainer& trainer, std::uint64_t steps) {
  const training::CommunicationAccounting& traffic = trainer.communication();
  StepPayload formula = step_payload(trainer.options(), trainer.mesh().place());
  for (const auto& [key, counted] : traffic.all()) formula.try_emplace(key);
  std::string rows;
  for (const auto& [key, bounds] : formula) {
    const training::Traffic counted = traffic.of(key.first, key.second);
    rows += fmt::format(
        "<tr><td>{}</td><td class=text>{}</td><td class=text>{}</td><td>{:.4g}</td><td>{}</td><td>{}</td>{}<td>{}</td>"
        "<td>{:.2f}</td></tr>",
        trainer.mesh().rank(), key.first, key.second, static_cast<double>(counted.calls) / static_cast<double>(steps),
        grouped(counted.bytes / steps), expected(bounds), verdict(counted, bounds, steps),
        grouped(counted.wire_bytes / steps), counted.seconds);
  }
  return rows;
}

}  // namespace wreath::gpt
