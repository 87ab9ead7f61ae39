// Writes the report as JSON: the keys of nccl-tests' version 3 with numbers as numbers, and our own keys under
// "wreath".
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "perf/common/report.hpp"
#include "perf/limits/shm.hpp"
#include "src/json/value.hpp"

namespace wreath::perf {
namespace {

bool starts_with_ours(std::string_view entry) { return entry.starts_with("WREATH_") || entry.starts_with("NCCL_"); }

// Returns whether a name holds a secret. Such a variable keeps its name and loses its value.
bool is_secret(std::string_view name) {
  std::string upper(name);
  std::transform(upper.begin(), upper.end(), upper.begin(), [](unsigned char c) { return std::toupper(c); });
  for (const std::string_view word : {"KEY", "SECRET", "TOKEN", "PASS", "CREDENTIAL"}) {
    if (upper.find(word) != std::string::npos) return true;
  }
  return false;
}

// Returns the WREATH_* and NCCL_* variables. No other variable leaves the process.
Json shown_environment(const std::vector<std::string>& environment) {
  Json shown = Json::array();
  for (const std::string& entry : environment) {
    if (!starts_with_ours(entry)) continue;
    const std::string variable = entry.substr(0, entry.find('='));
    shown.push_back(is_secret(variable) ? variable + "=(not shown)" : entry);
  }
  return shown;
}

Json devices(const Report& report) {
  Json list = Json::array();
  for (const RankLine& line : report.ranks) {
    list.push_back({{"rank", line.rank},
                    {"group", 0},
                    {"pid", line.pid},
                    {"hostname", line.host},
                    {"device", line.core},
                    {"device_hex", line.core < 0 ? "any core" : fmt::format("core {}", line.core)},
                    {"device_info", line.cpu}});
  }
  return list;
}

Json config(const Report& report) {
  const Options& o = report.options;
  Json json = {{"nthreads", o.threads / o.devices},
               {"ngpus", streams(o.memory) ? o.devices : 0},
               {"minimum_bytes", o.sizes.minimum},
               {"maximum_bytes", o.sizes.maximum}};
  json[o.sizes.factor > 1 ? "step_factor" : "step_bytes"] = o.sizes.factor > 1 ? o.sizes.factor : o.sizes.step;
  json["warmup_iters"] = o.warmup;
  json["iterations"] = o.iterations;
  json["aggregated_iterations"] = 1;
  json["validation"] = o.check;
  json["graph"] = 0;
  json["blocking_collectives"] = false;
  json["per_iter_timing"] = o.per_iteration;
  json["per_iter_skip"] = o.per_iteration_skip;
  json["parallel_init"] = false;
  json["devices"] = devices(report);
  return json;
}

Json measured(const Measurement& m) {
  return {{"time", m.time_us},
          {"alg_bw", m.algorithm_gbps},
          {"bus_bw", m.bus_gbps},
          {"nwrong", m.wrong ? Json(*m.wrong) : Json(nullptr)}};
}

Json per_iteration(const Measurement& m, int skipped) {
  const Statistics& s = *m.iterations;
  return {{"skipped_iterations", skipped},
          {"min_us", s.minimum},
          {"max_us", s.maximum},
          {"avg_us", s.mean},
          {"p50_us", s.p50},
          {"p95_us", s.p95},
          {"p99_us", s.p99},
          {"stdev_us", s.deviation},
          {"cv_pct", s.variation_percent()},
          {"times_us", m.iterations_us}};
}

// Returns the samples whose median is `time`, and its interval.
Json repeats(const Measurement& m) {
  const Interval spread = median_interval(m.samples_us);
  return {{"samples_us", m.samples_us}, {"low_us", spread.low}, {"high_us", spread.high}};
}

// Returns the counts of the timed calls of all ranks by transport, as they are and for each MiB of messages.
Json counters(const Measurement& m) {
  Json json = Json::object();
  for (const WireCounts& entry : m.counters) {
    Json counts = {{"message_bytes", entry.bytes}};
    Json per_mib = Json::object();
    for (const WireCounts::Count& count : entry.counts) {
      const auto value = per_mebibyte(entry, count);
      counts[std::string(count.name)] = count.number;
      per_mib[std::string(count.name)] = value ? Json(*value) : Json(nullptr);
    }
    counts["per_mib"] = std::move(per_mib);
    json[std::string(entry.transport)] = std::move(counts);
  }
  return json;
}

// Returns a plan's words such as "lanes=1" by name. The first word of the plan is the algorithm.
Json plan_json(const std::string& plan) {
  Json json = {{"text", plan}, {"algorithm", plan.substr(0, plan.find(' '))}};
  for (std::size_t at = plan.find(' '); at != std::string::npos;) {
    const std::size_t next = plan.find(' ', at + 1);
    const std::string word = plan.substr(at + 1, next == std::string::npos ? next : next - at - 1);
    if (const auto equals = word.find('='); equals != std::string::npos) {
      json[word.substr(0, equals)] = word.substr(equals + 1);
    }
    at = next;
  }
  return json;
}

Json result(const Report& report, const ReportRow& row) {
  Json json = {{"size", row.work.bytes},
               {"count", row.work.count},
               {"type", table_name(row.work.kind.dtype)},
               {"redop", shown_op(report, row.work)},
               {"root", shown_root(report, row.work)},
               {"out_of_place", measured(row.out_of_place)},
               {"in_place", row.in_place ? measured(*row.in_place) : Json(nullptr)}};
  if (row.out_of_place.iterations) {
    json["out_of_place_per_iter"] = per_iteration(row.out_of_place, report.options.per_iteration_skip);
  }
  if (row.in_place && row.in_place->iterations) {
    json["in_place_per_iter"] = per_iteration(*row.in_place, report.options.per_iteration_skip);
  }
  json["actual_iterations"] = row.out_of_place.calls;
  json["experiment_name"] = "";
  json["wreath"] = {{"plan", plan_json(row.plan)}};
  json["wreath"]["limit_us"] = row.limit_us ? Json(*row.limit_us) : Json(nullptr);
  json["wreath"]["slots_us"] = row.slots_us ? Json(*row.slots_us) : Json(nullptr);
  if (row.peer) {
    json["wreath"]["peer"] = {{"time", row.peer->time_us},
                              {"ratio", row.peer->ratio},
                              {"plan", row.peer->plan},
                              {"samples_us", row.peer->samples_us}};
  }
  if (report.options.counters) {
    json["wreath"]["counters"] = {{"out_of_place", counters(row.out_of_place)},
                                  {"in_place", row.in_place ? counters(*row.in_place) : Json(nullptr)}};
  }
  if (report.options.repeats > 1) {
    json["wreath"]["out_of_place"] = repeats(row.out_of_place);
    json["wreath"]["in_place"] = row.in_place ? repeats(*row.in_place) : Json(nullptr);
  }
  return json;
}

Json own_keys(const Report& report) {
  const Options& o = report.options;
  Json json = {{"version", WREATH_VERSION},
               {"commit", report.commit.empty() ? Json(nullptr) : Json(report.commit)},
               {"tool", report.collective->program},
               {"ranks", report.world},
               {"transport", report.transport},
               {"transport_note", report.transport_note},
               {"allowed_transports", o.communicator.transports},
               {"reproducible", o.communicator.reproducible},
               {"memory", name(o.memory)},
               {"graph_launches", o.graph_launches},
               {"offset_bytes", o.offset},
               {"unalign_elements", o.unalign},
               {"rewrite", o.rewrite},
               {"common_start", report.starts_together},
               {"alternate", o.alternate},
               {"repeats", o.repeats},
               {"peer", o.peer.empty() ? Json(nullptr) : Json(o.peer)},
               {"average_mode", static_cast<int>(o.average)},
               {"clock_ns", report.clock_ns},
               {"flag_ns", report.flag_ns > 0 ? Json(report.flag_ns) : Json(nullptr)},
               {"limit", report.limit_name.empty() ? Json(nullptr) : Json(report.limit_name)},
               {"notes", report.warnings}};
  if (o.counters) json["counters"] = counters_note(report.counters, report.transport);
  json["cores"] = report.flag_ns > 0 ? Json(core_distance(report.flag_ns)) : Json(nullptr);
  json["machine"] = {{"host", report.ranks.empty() ? "" : report.ranks.front().host},
                     {"cpu", report.ranks.empty() ? "" : report.ranks.front().cpu}};
  return json;
}

}  // namespace

std::string to_json(const Report& report, const std::vector<std::string>& environment) {
  Json json = {{"version", 3},
               {"start_time", report.start_time},
               {"args", report.options.command},
               {"env", shown_environment(environment)},
               {"nccl_version", nullptr},
               {"config", config(report)}};
  json["results"] = Json::array();
  for (const ReportRow& row : report.rows) json["results"].push_back(result(report, row));
  json["out_of_bounds"] = {{"count", report.out_of_bounds}, {"okay", report.out_of_bounds == 0}};
  json["average_bus_bandwidth"] = {{"bandwidth", report.average_bus_gbps()}, {"okay", "unchecked"}};
  json["errors"] = Json::array();
  json["wreath"] = own_keys(report);
  json["end_time"] = report.end_time;
  return json.dump({.indent = 1, .strict = false}) + "\n";
}

}  // namespace wreath::perf
