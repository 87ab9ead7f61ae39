// A libFuzzer target. A file of `wreath tune` may be any text; an accepted one gives rules, explanations and its own
// text again.
#include "wreath/tuning.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "src/tuner/measured.hpp"

namespace {

void require(bool fine) {
  if (!fine) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto rules = wreath::MeasuredRules::parse(text)) {
    require(wreath::MeasuredRules::parse(rules->to_text())->to_text() == rules->to_text());
  }
  const wreath::Result<wreath::Tuning> tuning = wreath::parse_tuning(text, "input");
  if (!tuning) return 0;
  const std::string written = wreath::to_json(*tuning);
  require(wreath::to_json(*wreath::parse_tuning(written, "again")) == written);
  for (const bool reproducible : {false, true}) {
    const auto rules = wreath::MeasuredRules::of(*tuning, reproducible);
    if (rules) require(wreath::MeasuredRules::parse(rules->to_text())->to_text() == rules->to_text());
  }
  require(static_cast<bool>(wreath::explain_plan({}, &*tuning)));
  return 0;
}
