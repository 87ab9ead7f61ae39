// Writes comparisons to files, and reads them.
#include <fmt/format.h>

#include <fstream>

#include "perf/compare/report.hpp"
#include "src/json/value.hpp"

namespace wreath::perf {
namespace {

Json contest_json(const Contest& contest) {
  Json list = Json::array();
  for (const auto& [code, times] : contest) {
    Json rounds = Json::object();
    for (const auto& [round, us] : times.us) rounds[std::to_string(round)] = us;
    list.push_back({{"setting", code}, {"us", rounds}, {"wrong_rounds", times.wrong}});
  }
  return list;
}

Json verdict_json(const Contest& contest) {
  const auto verdict = judge(contest);
  if (!verdict || verdict->best.empty()) return nullptr;
  return {{"wreath_us", verdict->wreath_us},
          {"best", verdict->best},
          {"best_us", verdict->best_us},
          {"ratio", verdict->ratio},
          {"interval", {verdict->interval.low, verdict->interval.high}},
          {"rounds", verdict->rounds},
          {"slower", verdict->slower()}};
}

Contest contest_of(const Json& list) {
  Contest contest;
  for (const Json& each : list) {
    Times& times = contest[each.at("setting").get<std::string>()];
    each.at("wrong_rounds").get_to(times.wrong);
    for (const auto& [round, us] : each.at("us").items()) us.get_to(times.us[std::stoi(round)]);
  }
  return contest;
}

Comparison comparison_of(const Json& json) {
  Comparison comparison;
  json.at("command").get_to(comparison.command);
  json.at("commit").get_to(comparison.commit);
  json.at("machine").get_to(comparison.machine);
  json.at("started").get_to(comparison.started);
  json.at("ranks").get_to(comparison.ranks);
  comparison.congestion_control = json.text_or("congestion_control", "");
  comparison.calls = json.text_or("calls", "");
  json.at("remarks").get_to(comparison.remarks);
  for (const auto& [round, probe] : json.at("flag_ns").items()) {
    comparison.probes[std::stoi(round)] = {probe.at(0).get<double>(), probe.at(1).get<double>()};
  }
  for (const Json& each : json.at("cells")) {
    const Cell cell{each.at("transport").get<std::string>(), each.at("operation").get<std::string>(),
                    each.at("bytes").get<std::size_t>()};
    comparison.cells[cell] = contest_of(each.at("settings"));
  }
  return comparison;
}

}  // namespace

std::string to_json(const Comparison& comparison) {
  Json json = {{"wreath_comparison", 1},
               {"command", comparison.command},
               {"commit", comparison.commit},
               {"machine", comparison.machine},
               {"started", comparison.started},
               {"ranks", comparison.ranks},
               {"congestion_control", comparison.congestion_control},
               {"calls", comparison.calls},
               {"remarks", comparison.remarks}};
  json["flag_ns"] = Json::object();
  for (const auto& [round, probe] : comparison.probes) {
    json["flag_ns"][std::to_string(round)] = {probe.before_ns, probe.after_ns};
  }
  json["cells"] = Json::array();
  for (const auto& [cell, contest] : comparison.cells) {
    json["cells"].push_back({{"transport", cell.transport},
                             {"operation", cell.operation},
                             {"bytes", cell.bytes},
                             {"result", verdict_json(contest)},
                             {"settings", contest_json(contest)}});
  }
  return json.dump({.indent = 1}) + "\n";
}

Result<Comparison> read_comparison(const std::string& path) {
  std::ifstream file(path);
  if (!file) return Error{ErrorCode::System, fmt::format("{}: cannot be read", path)};
  try {
    return comparison_of(Json::parse(file));
  } catch (const std::exception& error) {  // from the parser or std::stoi
    return Error{ErrorCode::Mismatch, fmt::format("{}: not a comparison: {}", path, error.what())};
  }
}

}  // namespace wreath::perf
