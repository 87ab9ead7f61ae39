// The report of gpu_check.
#include "perf/gpu_check/report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "perf/base/streamed.hpp"
#include "src/json/value.hpp"

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

// What the part left; empty: nothing that can be read.
Json measured_by(const PartOutcome& part) {
  Json measured = Json::read(part.measured).value_or(Json());
  return measured.is_object() ? measured : Json::object();
}

// A list of what the part left.
Json list_of(const PartOutcome& part, const char* key) {
  const Json measured = measured_by(part);
  return measured[key].is_array() ? measured[key] : Json::array();
}

// Targets of all parts: what gpu_perf judged, and a sanitizer's word.
Json targets_of(const std::vector<PartOutcome>& parts) {
  Json targets = Json::array();
  for (const PartOutcome& part : parts) {
    if (!part.sanitizer.empty()) {  // what runs in it is small, and judges nothing
      const bool known = part.result == PartResult::Passed || part.result == PartResult::Failed;
      targets.push_back({{"part", part.name},
                         {"what", "compute-sanitizer " + part.sanitizer},
                         {"target", "clean"},
                         {"measured", word_of(part.result)},
                         {"reached", known ? Json(part.result == PartResult::Passed) : Json()}});
      continue;
    }
    const std::string card = measured_by(part).text_or("card", "");
    for (Json target : list_of(part, "targets")) {
      target["part"] = part.name;
      target["card"] = card;
      targets.push_back(std::move(target));
    }
  }
  return targets;
}

// What could not be run, with its reason.
Json skipped_of(const std::vector<PartOutcome>& parts) {
  Json skipped = Json::array();
  for (const PartOutcome& part : parts) {
    if (part.result == PartResult::Skipped || part.result == PartResult::NotRun) {
      skipped.push_back({{"part", part.name}, {"what", "all of it"}, {"why", part.remark}});
      continue;
    }
    for (Json each : list_of(part, "skipped")) {
      each["part"] = part.name;
      skipped.push_back(std::move(each));
    }
  }
  skipped.push_back({{"part", ""}, {"what", "bandwidth between GPUs"}, {"why", "all parts use one GPU"}});
  return skipped;
}

std::string number_text(const Json& target, const char* key) {
  const Json& value = target[key];
  return value.is_number()   ? fmt::format("{:.4g}", value.get<double>())
         : value.is_string() ? value.get<std::string>()
                             : "";
}

std::string target_line(const Json& target) {
  const Json& reached = target["reached"];
  const std::string bound = !target.contains("at_most") ? "" : target["at_most"].get<bool>() ? "<= " : ">= ";
  return fmt::format("  {:<15} {:<52} {:>9} {:>10}  {:<10} {}\n", target.text_or("part", ""),
                     target.text_or("what", ""), bound + number_text(target, "target"), number_text(target, "measured"),
                     !reached.is_boolean() ? "not judged"
                     : reached.get<bool>() ? "yes"
                                           : "NO",
                     target.text_or("unit", ""));
}

std::string targets_text(const GpuMachine& machine, const std::vector<PartOutcome>& parts) {
  const Json targets = targets_of(parts);
  if (targets.empty()) return {};
  std::string text =
      fmt::format("\ntargets, {}\n({})\n  {:<15} {:<52} {:>9} {:>10}  {:<10} {}\n", fmt::join(machine.gpus, ", "),
                  kOneGpu, "part", "what", "target", "measured", "reached", "unit");
  for (const Json& each : targets) text += target_line(each);
  return text;
}

// A line for all that one reason kept a part from.
std::string skipped_text(const std::vector<PartOutcome>& parts) {
  const Json skipped = skipped_of(parts);
  const auto alike = [](const Json& a, const Json& b) {
    return a.text_or("part", "") == b.text_or("part", "") && a.text_or("why", "") == b.text_or("why", "");
  };
  std::string text = "\ncould not be run:\n";
  for (std::size_t i = 0; i < skipped.size();) {
    std::size_t end = i + 1;
    while (end < skipped.size() && alike(skipped[i], skipped[end])) ++end;
    const std::string more = end - i > 1 ? fmt::format(" and {} more", end - i - 1) : "";
    text += fmt::format("  {:<15} {}{}: {}\n", skipped[i].text_or("part", ""), skipped[i].text_or("what", ""), more,
                        skipped[i].text_or("why", ""));
    i = end;
  }
  return text;
}

Json json_of(const PartOutcome& part) {
  Json each{{"name", part.name},        {"result", word_of(part.result)}, {"seconds", part.seconds},
            {"command", part.command},  {"remark", part.remark},          {"output", part.output},
            {"warnings", part.warnings}};
  Json measured = measured_by(part);
  if (!measured.empty()) each["measured"] = std::move(measured);
  return each;
}

}  // namespace

std::string line_of(const PartOutcome& part) {
  std::string line = fmt::format("{:<15} {:<8} {:>6.1f} s", part.name, word_of(part.result), part.seconds);
  if (!part.remark.empty()) line += "  " + part.remark;
  line += "\n";
  for (const std::string& warning : part.warnings) line += fmt::format("{:15} {}\n", "", warning);
  return line;
}

std::string reason_of(const PartOutcome& part) {
  const Json skipped = list_of(part, "skipped");
  return skipped.empty() ? part.remark : skipped[0].text_or("why", part.remark);
}

std::string summary_of(const GpuMachine& machine, const std::vector<PartOutcome>& parts) {
  std::string text = targets_text(machine, parts) + skipped_text(parts);
  text += fmt::format("\n{} passed, {} failed, {} skipped, {} not run\n", count(parts, PartResult::Passed),
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
  Json json;
  json["format"] = "wreath gpu-check 2";
  json["date"] = machine.date;
  json["version"] = WREATH_VERSION;
  json["commit"] = WREATH_COMMIT;
  json["host"] = machine.host;
  json["gpus"] = machine.gpus;
  json["note"] = kOneGpu;
  json["compute_sanitizer"] = machine.sanitizer;
  json["counts"] = {{"passed", count(parts, PartResult::Passed)},
                    {"failed", count(parts, PartResult::Failed)},
                    {"skipped", count(parts, PartResult::Skipped)},
                    {"not_run", count(parts, PartResult::NotRun)}};
  json["targets"] = targets_of(parts);
  json["skipped"] = skipped_of(parts);
  json["parts"] = Json::array();
  for (const PartOutcome& part : parts) json["parts"].push_back(json_of(part));
  return json.dump({.indent = 2, .strict = false}) + "\n";
}

int exit_code_of(const std::vector<PartOutcome>& parts) { return count(parts, PartResult::Failed) > 0 ? 1 : 0; }

}  // namespace wreath::perf
