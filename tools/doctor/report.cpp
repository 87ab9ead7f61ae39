// Writes findings as lines and as JSON.
#include <fmt/format.h>

#include <algorithm>

#include "src/json/value.hpp"
#include "tools/doctor/findings.hpp"

namespace wreath {
namespace {

long count_of(const std::vector<CheckResult>& findings, Verdict verdict) {
  return std::count_if(findings.begin(), findings.end(),
                       [&](const CheckResult& finding) { return finding.verdict == verdict; });
}

const char* colour_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::Ok: return "\x1b[32m";
    case Verdict::Note: return "\x1b[33m";
    case Verdict::Problem: break;
  }
  return "\x1b[1;31m";
}

std::string coloured(Verdict verdict, const ReportStyle& style) {
  constexpr std::size_t kWidest = 7;
  const std::string_view word = name(verdict);
  const std::string padding(kWidest - word.size(), ' ');
  if (!style.colour) return std::string(word) + padding;
  return fmt::format("{}{}\x1b[0m{}", colour_of(verdict), word, padding);
}

std::string counted(long count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace

const char* name(Verdict verdict) {
  switch (verdict) {
    case Verdict::Ok: return "ok";
    case Verdict::Note: return "note";
    case Verdict::Problem: break;
  }
  return "problem";
}

std::string report_text(const std::vector<CheckResult>& findings, const ReportStyle& style) {
  std::size_t widest = 0;
  for (const CheckResult& finding : findings) widest = std::max(widest, finding.subject.size());
  std::string text;
  std::string group;
  for (const CheckResult& finding : findings) {
    if (finding.group != group) text += fmt::format("{}{}\n", group.empty() ? "" : "\n", finding.group);
    group = finding.group;
    text += fmt::format("  {}  {:<{}}  {}\n", coloured(finding.verdict, style), finding.subject, widest, finding.text);
    if (!finding.fix.empty()) text += fmt::format("  {:<9}{:<{}}  fix: {}\n", "", "", widest, finding.fix);
  }
  const long problems = count_of(findings, Verdict::Problem);
  return text + fmt::format("\n{}, {}\n", problems == 0 ? "no problem" : counted(problems, "problem"),
                            counted(count_of(findings, Verdict::Note), "note"));
}

std::string report_json(const std::vector<CheckResult>& findings) {
  Json list = Json::array();
  for (const CheckResult& finding : findings) {
    list.push_back({{"group", finding.group},
                    {"subject", finding.subject},
                    {"verdict", name(finding.verdict)},
                    {"text", finding.text},
                    {"fix", finding.fix}});
  }
  const Json json{{"findings", list},
                  {"problems", count_of(findings, Verdict::Problem)},
                  {"notes", count_of(findings, Verdict::Note)}};
  return json.dump({.indent = 1, .sorted = true, .strict = false}) + "\n";
}

int report_code(const std::vector<CheckResult>& findings) { return count_of(findings, Verdict::Problem) == 0 ? 0 : 1; }

}  // namespace wreath
