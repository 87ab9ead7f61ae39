// The report of gpu_check.
#include "perf/gpu_check/report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace wreath::perf {
namespace {

constexpr std::string_view word_of(PartResult result) {
  switch (result) {
    case PartResult::Passed: return "passed";
    case PartResult::Failed: return "failed";
    case PartResult::Skipped: return "skipped";
    case PartResult::NotRun: break;
  }
  return "not run";
}

auto count(const std::vector<PartOutcome>& parts, PartResult result) {
  return std::count_if(parts.begin(), parts.end(), [&](const PartOutcome& part) { return part.result == result; });
}

}  // namespace

std::string line_of(const PartOutcome& part) {
  std::string line = fmt::format("{:<12} {:<8} {:>6.1f} s", part.name, word_of(part.result), part.seconds);
  if (!part.remark.empty()) line += "  " + part.remark;
  return line + "\n";
}

std::string summary_of(const std::vector<PartOutcome>& parts) {
  std::string text = fmt::format("{} passed, {} failed, {} skipped, {} not run\n", count(parts, PartResult::Passed),
                                 count(parts, PartResult::Failed), count(parts, PartResult::Skipped),
                                 count(parts, PartResult::NotRun));
  std::vector<std::string> failed;
  for (const PartOutcome& part : parts) {
    if (part.result == PartResult::Failed) failed.push_back(part.name);
  }
  if (!failed.empty()) text += fmt::format("failed: {}\n", fmt::join(failed, ", "));
  return text;
}

std::string json_of(const GpuMachine& machine, const std::vector<PartOutcome>& parts) {
  nlohmann::ordered_json json;
  json["format"] = "wreath gpu-check 1";
  json["date"] = machine.date;
  json["version"] = WREATH_VERSION;
  json["commit"] = WREATH_COMMIT;
  json["host"] = machine.host;
  json["gpus"] = machine.gpus;
  json["compute_sanitizer"] = machine.sanitizer;
  json["passed"] = count(parts, PartResult::Passed);
  json["failed"] = count(parts, PartResult::Failed);
  json["skipped"] = count(parts, PartResult::Skipped);
  json["not_run"] = count(parts, PartResult::NotRun);
  json["parts"] = nlohmann::ordered_json::array();
  for (const PartOutcome& part : parts) {
    nlohmann::ordered_json each{{"name", part.name},       {"result", word_of(part.result)}, {"seconds", part.seconds},
                                {"command", part.command}, {"remark", part.remark},          {"output", part.output}};
    const auto measured = nlohmann::ordered_json::parse(part.measured, nullptr, false);
    if (!measured.is_discarded()) each["measured"] = measured;
    json["parts"].push_back(std::move(each));
  }
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

int exit_code_of(const std::vector<PartOutcome>& parts) { return count(parts, PartResult::Failed) > 0 ? 1 : 0; }

}  // namespace wreath::perf
