// The subcommand `wreath plan explain`: the row that a call gets, its time, the limits of the machine, and the reasons
// against other rows.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "src/command_line/program.hpp"
#include "src/json/value.hpp"
#include "tools/plan.hpp"
#include "wreath/fifo.hpp"
#include "wreath/transport.hpp"
#include "wreath/tuning.hpp"
#include "wreath/units.hpp"

namespace wreath {
namespace {

struct Answer {
  PlanQuestion question;
  std::string transport;
  PlanExplanation explanation;
  std::string source;  // the tuning file; empty: none
  std::uint64_t message_bytes = 0;
  MessageWay way = {};  // of such a message; without text where all go alike
};

// Returns the bytes of a message: the mean of those of the rank that sends most, where they are counted.
std::uint64_t message_bytes(const PlanQuestion& question, const PlanCandidate& chosen) {
  const std::uint64_t tile = chosen.tile_bytes == 0 ? question.bytes : chosen.tile_bytes;
  if (question.ranks <= kMostPredictedRanks) {
    const Problem problem{question.collective, question.ranks, 0};
    const PlanShape shape{question.bytes, kPlanElementBytes, tile, chosen.data_lanes};
    const auto counted = simulate(*chosen.algorithm, problem, point_of(problem, shape));
    if (counted && counted->messages > 0) return (counted->bytes + counted->messages - 1) / counted->messages;
  }
  return std::min<std::uint64_t>(tile, question.bytes);
}

// Returns the counts of a message: "2 puts, 1 doorbell, 0 registrations".
std::string counts_text(const MessageWay& way) {
  std::vector<std::string> words;
  for (const WireCounts::Count& count : way.counts) {
    std::string name(count.name);
    std::ranges::replace(name, '_', ' ');
    if (count.number == 1 && name.ends_with('s')) name.pop_back();
    words.push_back(fmt::format("{} {}", count.number, name));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

void print_way(const Answer& answer) {
  const MessageWay& way = answer.way;
  if (way.text.empty()) return;
  const std::string limits = way.adapter.empty() ? "limits that most adapters have: none is here" : way.adapter;
  fmt::print("  messages   {}: {} ({})\n", format_bytes(answer.message_bytes), way.text, limits);
  fmt::print("             each costs its sender {}; the receiver gives credit by a put for each half of a window\n",
             counts_text(way));
}

void print_copied(const Answer& answer) {
  if (answer.explanation.copied_to_bytes == 0) return;
  fmt::print("  copies     calls above {} and up to {} by the kernel where ranks may read each other, {}\n",
             format_bytes(answer.explanation.copied_above_bytes), format_bytes(answer.explanation.copied_to_bytes),
             answer.explanation.ping_pong ? "by this machine's caches" : "by this machine's processor");
}

void print_ring(const Answer& answer) {
  if (answer.explanation.ring_bytes == 0) return;
  if (answer.explanation.ping_pong) {
    fmt::print(
        "  slots      each of the two ranks fills those that it has read last, up to {}, by this machine's processor\n",
        format_bytes(PingPongSlots::kBytes));
    return;
  }
  fmt::print("  slots      messages above {} and up to {} use {} of them in turn, by this machine's near caches\n",
             format_bytes(kStoreBufferBytes), format_bytes(kMostRingMessageBytes),
             format_bytes(answer.explanation.ring_bytes));
}

// Returns the links or buffers for which there are no constants; empty: there are none.
std::string not_known(const Answer& answer) {
  if (answer.question.device) return "not known of GPUs";
  return answer.question.predictable ? "" : "not known of " + answer.transport;
}

std::string not_measured(const Answer& answer) {
  return fmt::format("not measured on this machine: run `wreath tune{}`",
                     answer.question.device ? " --memory device" : "");
}

std::string us_text(const std::optional<double>& us) {
  if (!us) return "-";
  return fmt::format("{:.{}f}", *us, *us < 100 ? 2 : 0);
}

std::string tile_text(const PlanCandidate& candidate) {
  if (candidate.small) return "small";
  return candidate.tile_bytes == 0 ? "-" : format_bytes(candidate.tile_bytes);
}

std::string predicted_text(const Answer& answer) {
  const PlanCandidate& chosen = answer.explanation.chosen;
  if (const std::string text = not_known(answer); !text.empty()) return text;
  if (!chosen.predicted_us) return fmt::format("not simulated beyond {} ranks", kMostPredictedRanks);
  return us_text(chosen.predicted_us) + " us, by the simulator with the constants of a reference machine";
}

// Returns the reason why `other` is not chosen.
std::string why_not(const PlanCandidate& other, const PlanCandidate& chosen) {
  if (!other.refusal.empty()) return other.refusal;
  if (other.measured_us && chosen.measured_us) {
    const double ratio = *other.measured_us / *chosen.measured_us;
    return ratio < 1 ? "measured as fast, within a run's noise" : fmt::format("measured: {:.2f} times as long", ratio);
  }
  if (!other.predicted_us || !chosen.predicted_us) return "no prediction";
  const double ratio = *other.predicted_us / *chosen.predicted_us;
  if (ratio > 1.02) return fmt::format("predicted: {:.2f} times as long", ratio);
  if (ratio > 0.98) return "predicted: as long";
  return fmt::format("predicted: {:.2f} times as long, which counts once it is measured: run `wreath tune`", ratio);
}

void print_row(const PlanCandidate& row, const std::string& remark) {
  const bool known = row.predicted_us.has_value();
  fmt::print("{:<19} {:<10} {:>5} {:>9} {:>13} {:>12}  {}\n", row.algorithm->name, name(row.algorithm->order),
             known ? std::to_string(row.data_lanes) : "-", tile_text(row), us_text(row.predicted_us),
             us_text(row.measured_us), remark);
}

std::string no_limit(const Answer& answer) {
  if (const std::string text = not_known(answer); !text.empty()) return text;
  if (!answer.explanation.chosen.measured_us) return not_measured(answer);
  return "not known: it needs a core for each rank, or over a wire two ranks that both send and receive";
}

void print(const Answer& answer) {
  const PlanQuestion& question = answer.question;
  const PlanCandidate& chosen = answer.explanation.chosen;
  const std::optional<double>& limit = answer.explanation.limit_us;
  fmt::print("{} of {} on {} ranks over {}{}{}\n", name(question.collective), format_bytes(question.bytes),
             question.ranks, answer.transport, question.device ? ", of GPUs" : "",
             question.reproducible ? "" : ", sums in any order");
  fmt::print(
      "  algorithm  {}, {} data lane{}, {}\n", chosen.algorithm->name, chosen.data_lanes,
      chosen.data_lanes == 1 ? "" : "s",
      chosen.small ? "the path of small messages, without steps" : fmt::format("tiles of {}", tile_text(chosen)));
  fmt::print("  chosen by  {}\n", answer.explanation.tuned ? "measurement: " + answer.source : "the library's rules");
  fmt::print("  predicted  {}\n", predicted_text(answer));
  fmt::print("  measured   {}\n", chosen.measured_us ? us_text(chosen.measured_us) + " us" : not_measured(answer));
  if (limit && chosen.measured_us) {
    fmt::print("  limit      {} us: this reaches {:.0f} % of it\n", us_text(limit), *limit / *chosen.measured_us * 100);
  } else {
    fmt::print("  limit      {}\n", limit ? us_text(limit) + " us" : no_limit(answer));
  }
  print_way(answer);
  print_ring(answer);
  print_copied(answer);
  fmt::print("\n{:<19} {:<10} {:>5} {:>9} {:>13} {:>12}  {}\n", "algorithm", "order", "lanes", "tile", "predicted us",
             "measured us", "why not");
  print_row(chosen, "chosen");
  for (const PlanCandidate& other : answer.explanation.others) print_row(other, why_not(other, chosen));
}

Json to_json(const MessageWay& way, std::uint64_t bytes) {
  if (way.text.empty()) return Json();
  Json json{{"bytes", bytes}, {"way", way.text}, {"adapter", way.adapter}};
  for (const WireCounts::Count& count : way.counts) json[std::string(count.name)] = count.number;
  return json;
}

Json number(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

Json to_json(const PlanCandidate& candidate, const std::string& remark) {
  return {{"algorithm", candidate.algorithm->name},
          {"order", name(candidate.algorithm->order)},
          {"data_lanes", candidate.data_lanes},
          {"tile_bytes", candidate.tile_bytes},
          {"small", candidate.small},
          {"predicted_us", number(candidate.predicted_us)},
          {"measured_us", number(candidate.measured_us)},
          {"why_not", remark}};
}

void print_json(const Answer& answer) {
  Json others = Json::array();
  const PlanCandidate& chosen = answer.explanation.chosen;
  for (const PlanCandidate& other : answer.explanation.others) others.push_back(to_json(other, why_not(other, chosen)));
  const Json object{{"collective", name(answer.question.collective)},
                    {"bytes", answer.question.bytes},
                    {"ranks", answer.question.ranks},
                    {"transport", answer.transport},
                    {"memory", answer.question.device ? "device" : "host"},
                    {"reproducible", answer.question.reproducible},
                    {"tuning", answer.source},
                    {"tuned", answer.explanation.tuned},
                    {"limit_us", number(answer.explanation.limit_us)},
                    {"message", to_json(answer.way, answer.message_bytes)},
                    {"ring_bytes", answer.explanation.ring_bytes},
                    {"ping_pong", answer.explanation.ping_pong},
                    {"copied_above_bytes", answer.explanation.copied_above_bytes},
                    {"copied_to_bytes", answer.explanation.copied_to_bytes},
                    {"chosen", to_json(chosen, "")},
                    {"others", others}};
  fmt::print("{}\n", object.dump({.indent = 2, .sorted = true}));
}

Result<PlanQuestion> question_of(const PlanArguments& arguments) {
  const std::optional<Collective> collective = parse_collective(arguments.collective);
  // select_rows reports an unknown collective with the names of those that have plans.
  const Result<std::vector<const Algorithm*>> rows = select_rows(arguments);
  if (!collective || !rows) return rows ? Error{ErrorCode::InvalidArgument, arguments.collective} : rows.error();
  const Result<std::uint64_t> bytes = parse_bytes(arguments.size);
  if (!bytes) return bytes.error();
  const Result<RankRange> ranks = ranks_of(arguments, "2");
  if (!ranks) return ranks.error();
  if (ranks->first != ranks->last) {
    return Error{ErrorCode::InvalidArgument, fmt::format("--ranks {}: one number", arguments.ranks)};
  }
  const TransportRow& transport = *find_transport(arguments.transport);
  return PlanQuestion{.collective = *collective,
                      .bytes = *bytes,
                      .ranks = ranks->first,
                      .wire = transport.is_wire() ? arguments.transport : std::string(),
                      .predictable = !transport.is_wire() || transport.needs_stream,
                      .reproducible = !arguments.any_order,
                      .device = arguments.memory == "device"};
}

// Reads the tuning file that was named, or this machine's file where there is one.
Result<std::optional<Tuning>> tuning_of(const PlanArguments& arguments, std::string& source) {
  const bool named = !arguments.tuning.empty();
  source = named ? arguments.tuning : default_tuning_path();
  if (source == "none" || source.empty() || (!named && !std::filesystem::exists(source))) {
    source.clear();
    return std::optional<Tuning>();
  }
  Result<Tuning> tuning = read_tuning(source);
  if (!tuning) return tuning.error();
  WREATH_TRY(check_origin(*tuning, source));
  return std::optional(*std::move(tuning));
}

}  // namespace

int run_plan_explain(const PlanArguments& arguments) {
  const Result<PlanQuestion> question = question_of(arguments);
  if (!question) return command_line::fail(question.error());
  Answer answer{.question = *question, .transport = arguments.transport, .explanation = {}, .source = {}};
  const Result<std::optional<Tuning>> tuning = tuning_of(arguments, answer.source);
  if (!tuning) return command_line::fail(tuning.error());
  Result<PlanExplanation> explanation = explain_plan(*question, *tuning ? &**tuning : nullptr);
  if (!explanation) return command_line::fail(explanation.error());
  answer.explanation = *std::move(explanation);
  if (const TransportRow& row = *find_transport(arguments.transport); row.explain != nullptr && !question->device) {
    answer.message_bytes = message_bytes(*question, answer.explanation.chosen);
    answer.way = row.explain(answer.message_bytes);
  }
  arguments.json ? print_json(answer) : print(answer);
  return 0;
}

}  // namespace wreath
